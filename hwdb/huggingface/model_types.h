// How the model_types of Hugging Face write their shape: the rows of facts/model_types.json.
//
// A row has a model_type (or several), or is a base for others, and says for each field of a
// transformer (its key in a run file, "moe" an object of them) what it is: a value, or an
// expression over the keys of a config.json (expression.h).  A row that is "like" another, which
// stands above it, has its fields and rules where it says nothing itself.
//
//   when            objects that a model has only where their expression holds
//   refuse          [{"if": EXPRESSION, "key": KEY, "because": TEXT}]: what is not modelled
//   class_defaults  of keys that a text_config leaves out, as its configuration class has them;
//                   null where it has none and the row above has one
//   text_defaults   what the class of a whole model says instead of its text_config's class
//   refused         why models of this type are not read at all
//
// Private to hwdb.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hwdb/huggingface/expression.h"
#include "hwdb/text/json_reader.h"
#include "sim/model/transformer.h"

namespace llmsim::hwdb {

struct ModelTypeRule {
  Expression condition;
  std::string key, because;
};

struct ModelType {
  std::vector<std::string> names;             // its model_types; none of a base
  std::map<std::string, Expression> fields;   // of a transformer, by key
  std::map<std::string, Expression> objects;  // when a model has them
  std::vector<ModelTypeRule> rules;
  nlohmann::json class_defaults = nlohmann::json::object(),
                 text_defaults = nlohmann::json::object();
  std::string refused;
};

// Names that mean one thing, and what.
struct NameGroup {
  std::vector<std::string> names;
  std::string meaning;
};

struct ModelTypes {
  std::map<std::string, ModelType> rows;  // by model_type, or by the name of a base
  // By "vision" and "audio": fields of these from a whole file.  "llava/pixtral" is of a llava file
  // whose tower has the model_type pixtral.
  std::map<std::string, std::map<std::string, ModelType>> towers;
  std::map<std::string, ModelType> heads;  // what of a model other classes change
  // Words in the names of classes, as "architectures" has them, of models that are not trained as
  // the model_type says, and why they are refused.
  std::vector<NameGroup> classes;
  // Keys on which no size depends, "*_token_id": all that end so, and what they are.
  std::vector<NameGroup> ignored;
  // Keys that a file has where its model has a part, and the part ("experts"): where its row names
  // none of them it is refused.
  std::vector<NameGroup> matter;
};

// What stands in `content`, whose rows may be like those of `known`.  Throws Error that names file
// and row.
ModelTypes parse_model_types(const std::string& content, const std::string& file,
                             const ModelTypes& known = {});

// The shipped ones with those of one's own over them; the one of a name, or null.
const ModelTypes& model_types();
const ModelType* find_model_type(const std::string& name);
// `kind`: "vision" or "audio"; `file`: the object in which the tower's own stands.
const ModelType* find_tower(const std::string& kind, const nlohmann::json& file);
// The type with the head of a class, a name of "architectures".
ModelType with_head(ModelType type, const std::string& name);

// The shape of the object `config` of a file, and what became of its keys; `nested`: a text_config,
// whose keys the class may have.  Throws Error that names `place` and the key.
struct ModelReading {
  sim::Transformer model;
  std::vector<sim::ModelKey> keys;
};
ModelReading model_of_type(const ModelType& type, const nlohmann::json& config,
                           const std::string& place, bool nested);

}  // namespace llmsim::hwdb
