#include "hwdb/huggingface/model_types.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <utility>

#include "hwdb/huggingface/own_model_types.h"
#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/input_file.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;
using Rows = std::map<std::string, ModelType>;

constexpr const char* kOwnKeys[] = {
    "type",           "base",          "like",    "when",   "refuse",
    "class_defaults", "text_defaults", "refused", "source", "note"};

bool is_own(const std::string& key) {
  return std::find(std::begin(kOwnKeys), std::end(kOwnKeys), key) != std::end(kOwnKeys);
}

// A text is an expression; other values stand for themselves.
Expression expression_of(const json& value, const std::string& place) {
  try {
    if (value.is_string()) return Expression(value.get<std::string>());
    if (value.is_boolean() || value.is_number_unsigned()) return Expression(value.dump());
  } catch (const Error& error) {
    throw Error(place + ": " + error.what());
  }
  throw Error(place + " = " + shown(value) + ": an expression, a number or a switch is expected");
}

void read_fields(const json& row, const std::string& prefix, const std::string& place,
                 ModelType& type) {
  for (const auto& [name, value] : row.items()) {
    const std::string key = prefix + name;
    if (prefix.empty() && is_own(name)) continue;
    if (prefix.empty() && value.is_object()) {
      read_fields(value, key + ".", place, type);
      continue;
    }
    if (!sim::find_field(sim::transformer_fields(), key))
      throw Error(place + key + ": is no field of a model");
    type.fields.insert_or_assign(key, expression_of(value, place + key));
  }
}

// `name` of a base.
ModelType read_row(const json& row, const Rows& above, const std::string& place,
                   std::string& name) {
  ObjectReader reader(row, place);
  const std::optional<std::string> like = reader.text("like");
  if (like && !above.contains(*like))
    throw Error(place + "like = " + *like + ": no row above has that name");
  ModelType type = like ? above.at(*like) : ModelType{};
  type.names = reader.texts("type");
  type.refused = reader.text("refused").value_or("");
  name = reader.text("base").value_or(type.names.empty() ? "" : type.names.front());
  const std::string of = place + name + ": ";
  read_fields(row, "", of, type);
  if (const auto when = reader.object("when"))
    for (const auto& [key, value] : when->value().items())
      type.objects.insert_or_assign(key, expression_of(value, of + key));
  for (const json& rule : reader.list("refuse")) {
    ObjectReader fields(rule, of + "refuse");
    const json* const condition = fields.any("if");
    if (!condition) throw Error(of + "refuse: \"if\" is missing");
    type.rules.push_back({expression_of(*condition, of + "refuse"), fields.text("key").value_or(""),
                          fields.text("because").value_or("")});
    fields.finish();
  }
  if (const auto own = reader.object("class_defaults")) type.class_defaults.update(own->value());
  if (const auto own = reader.object("text_defaults")) type.text_defaults.update(own->value());
  return type;
}

// The rows of a list by all their names; they may be like those of `above`.
Rows read_rows(const json& list, Rows above, const std::string& file) {
  Rows rows;
  for (const json& row : list) {
    std::string name;
    const ModelType type = read_row(row, above, file + ": ", name);
    if (name.empty()) throw Error(file + ": a row has neither type nor base");
    for (const std::string& own : type.names.empty() ? std::vector{name} : type.names) {
      above.insert_or_assign(own, type);
      if (!rows.emplace(own, type).second) throw Error(file + ": " + own + ": stands twice");
    }
  }
  return rows;
}

// `names`, `meaning`: their keys in the objects of the list.
std::vector<NameGroup> read_groups(const json& list, const char* names, const char* meaning,
                                   const std::string& place) {
  std::vector<NameGroup> groups;
  for (const json& row : list) {
    ObjectReader fields(row, place);
    groups.push_back({fields.texts(names), fields.text(meaning).value_or("")});
    fields.finish();
  }
  return groups;
}

// One reading of one object.
class Reading {
 public:
  Reading(const ModelType& type, const json& config, const std::string& place, bool nested)
      : type_(type), config_(config), reader_(config, place), nested_(nested) {
    scope_.find = [this](const std::string& key) { return find(key); };
    scope_.has = [this](const std::string& key) { return config_.contains(key); };
    scope_.field = [this](const std::string& key) { return field(key); };
    scope_.refuse = [this](const std::string& key, const std::string& right) {
      refuse(key, right);
    };
  }

  sim::Transformer model() {
    sim::Transformer model;
    // Fields are asked before rules, so that what is malformed is named as that.
    for (const sim::TransformerField& field : sim::transformer_fields()) {
      const auto known = type_.fields.find(field.key);
      if (known == type_.fields.end() || !has_object_of(field.key)) continue;
      put(field, known->second, this->field(field.key), model);
    }
    for (const ModelTypeRule& rule : type_.rules)
      if (rule.condition.holds_in(scope_)) refuse(rule.key, rule.because);
    if (type_.fields.contains("num_layers")) refuse_parts_that_no_field_has();
    if (model.position != sim::Position::Rope) model.rope.reset();
    return model;
  }

  // Of the file, those that were read before those that were not.
  std::vector<sim::ModelKey> keys() {
    const std::map<std::string, std::string> fields = fields_by_key();
    std::vector<sim::ModelKey> list, ignored;
    for (const auto& [key, value] : config_.items()) {
      const auto found = fields.find(key);
      if (found != fields.end())
        list.push_back({key, shown(value), "read", found->second});
      else if (key != "model_type")
        ignored.push_back({key, shown(value), "ignored", reason_of(key)});
    }
    for (const sim::TransformerField& field : sim::transformer_fields()) list_assumed(field, list);
    list.insert(list.end(), ignored.begin(), ignored.end());
    return list;
  }

 private:
  const json* find(const std::string& key) const {
    const json* at = &config_;
    for (std::size_t start = 0; start <= key.size();) {
      const std::size_t dot = std::min(key.find('.', start), key.size());
      if (!at->is_object()) return nullptr;
      const auto found = at->find(key.substr(start, dot - start));
      if (found == at->end()) return default_of(key);
      at = &*found;
      start = dot + 1;
    }
    return at->is_null() ? nullptr : at;
  }

  const json* default_of(const std::string& key) const {
    const auto found = type_.class_defaults.find(key);
    const bool known = nested_ && found != type_.class_defaults.end() && !found->is_null();
    return known ? &*found : nullptr;
  }

  bool has_object_of(const std::string& key) const {
    const auto object = type_.objects.find(key.substr(0, key.find('.')));
    return object == type_.objects.end() || object->second.holds_in(scope_);
  }

  // Worked out once; a field that needs itself is a fault of the row.
  ExpressionValue field(const std::string& key) {
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    const auto found = type_.fields.find(key);
    if (found == type_.fields.end() || !open_.insert(key).second)
      throw Error("facts of model types: @" + key + " of " + type_.names.front() +
                  " is not stated, or needs itself");
    const ExpressionValue value = found->second.in(scope_);
    if (value.is_none() && !found->second.may_be_none()) refuse_missing(found->second);
    open_.erase(key);
    return known_.emplace(key, value).first->second;
  }

  [[noreturn]] void refuse_missing(const Expression& expression) const {
    std::string others;
    const std::vector<std::string> keys = expression.keys();
    for (std::size_t i = 1; i < keys.size(); ++i) others += (i > 1 ? " or " : "") + keys[i];
    refuse(keys.empty() ? type_.names.front() : keys.front(),
           others.empty() ? "missing" : "missing, and so is " + others);
  }

  void put(const sim::TransformerField& field, const Expression& expression,
           const ExpressionValue& value, sim::Transformer& model) const {
    if (value.is_none()) return;
    std::optional<sim::FieldValue> plain;
    if (const auto* is = std::get_if<bool>(&value.value)) plain = *is;
    if (const auto* text = std::get_if<std::string>(&value.value)) plain = *text;
    if (const auto* number = std::get_if<double>(&value.value)) plain = *number;
    if (plain && sim::put_field(field, model, *plain)) return;
    if (field.costless) return;  // a function that has no name here is left to the program
    const auto* const number = std::get_if<double>(&value.value);
    if (value.key.empty() && number) {
      const std::vector<std::string> keys = expression.keys();
      refuse(keys.empty() ? field.key : keys.front(),
             field.key + " would be " + sim::text_of(*number) +
                 ", which is no whole number: " + expression.text());
    }
    const bool is_count = field.kind == sim::FieldKind::Count;
    refuse(value.key.empty() ? field.key : value.key,
           is_count ? integer_expected(1) : expected_values(field) + " is expected");
  }

  void refuse_parts_that_no_field_has() const {
    const std::map<std::string, std::string> named = fields_by_key();
    for (const NameGroup& part : model_types().matter) {
      if (std::ranges::any_of(part.names, [&](const auto& key) { return named.contains(key); }))
        continue;
      for (const std::string& key : part.names) {
        const auto found = config_.find(key);
        if (found == config_.end()) continue;
        if (found->is_number() ? *found > 1 : !found->empty() && *found != false)
          refuse(key, part.meaning + " are not known of this model_type");
      }
    }
  }

  // The fields that each key gives, by the part of it before a dot.
  std::map<std::string, std::string> fields_by_key() const {
    std::map<std::string, std::string> fields;
    const auto add = [&](const Expression& expression, const std::string& field) {
      for (const std::string& key : expression.keys()) {
        std::string& named = fields[key.substr(0, key.find('.'))];
        if (named.find(field) == std::string::npos) named += (named.empty() ? "" : ", ") + field;
      }
    };
    for (const auto& [field, expression] : type_.fields) add(expression, field);
    for (const auto& [object, condition] : type_.objects) add(condition, object);
    for (const ModelTypeRule& rule : type_.rules) add(rule.condition, "what is modelled");
    return fields;
  }

  // A field whose keys the file lacks, and which has a value all the same.
  void list_assumed(const sim::TransformerField& field, std::vector<sim::ModelKey>& list) {
    const auto known = type_.fields.find(field.key);
    if (known == type_.fields.end() || !has_object_of(field.key)) return;
    const std::vector<std::string> keys = known->second.keys();
    const ExpressionValue value = this->field(field.key);
    const auto is_there = [&](const std::string& key) {
      return config_.contains(key.substr(0, key.find('.')));
    };
    if (keys.empty() || value.is_none() || std::ranges::any_of(keys, is_there)) return;
    const bool own_class = find(keys.front()) != nullptr;
    list.push_back({keys.front(), text_of(value), "assumed",
                    field.key + (own_class ? ", of the configuration class" : "")});
  }

  static std::string text_of(const ExpressionValue& value) {
    if (const auto* is = std::get_if<bool>(&value.value)) return *is ? "true" : "false";
    if (const auto* text = std::get_if<std::string>(&value.value)) return *text;
    const auto* number = std::get_if<double>(&value.value);
    return number ? sim::text_of(*number) : "";
  }

  static std::string reason_of(const std::string& key) {
    for (const NameGroup& ignored : model_types().ignored) {
      for (const std::string& name : ignored.names) {
        if (name == key || (name.starts_with('*') && key.ends_with(name.substr(1))))
          return ignored.meaning;
      }
    }
    return "not known";
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& right) const {
    reader_.refuse(key, right);
  }

  const ModelType& type_;
  const json& config_;
  ObjectReader reader_;
  bool nested_;
  ExpressionScope scope_;
  std::map<std::string, ExpressionValue> known_;
  std::set<std::string> open_;
};

}  // namespace

ModelTypes parse_model_types(const std::string& content, const std::string& file,
                             const ModelTypes& known) {
  const json document = parse_json(content, file);
  ObjectReader reader(document, file);
  reader.count("schema");
  reader.texts("about");
  ModelTypes all;
  all.classes = read_groups(reader.list("classes"), "has", "because", file + ": classes");
  all.matter = read_groups(reader.list("matter"), "keys", "part", file + ": matter");
  all.ignored = read_groups(reader.list("ignored"), "keys", "because", file + ": ignored");
  for (const char* kind : {"vision", "audio"})
    all.towers[kind] = read_rows(reader.list(kind), {}, file);
  all.heads = read_rows(reader.list("heads"), known.heads, file);
  all.rows = read_rows(reader.list("types"), known.rows, file);
  reader.finish();
  return all;
}

const ModelTypes& model_types() {
  static const ModelTypes types = [] {
    ModelTypes all =
        parse_model_types(std::string(shipped_model_types_json()), "facts/model_types.json");
    const std::optional<std::string> path = own_model_types_path();
    if (!path || !std::filesystem::exists(*path)) return all;
    const ModelTypes own = parse_model_types(content_of_file(*path), *path, all);
    for (const auto& [name, row] : own.rows) all.rows.insert_or_assign(name, row);
    return all;
  }();
  return types;
}

const ModelType* find_model_type(const std::string& name) {
  const auto found = model_types().rows.find(name);
  return found == model_types().rows.end() || found->second.names.empty() ? nullptr
                                                                          : &found->second;
}

const ModelType* find_tower(const std::string& kind, const json& file) {
  const auto type_at = [&file](const std::string& path) {
    const json::json_pointer at(path);
    const json type = file.contains(at) ? file.at(at) : json();
    return type.is_string() ? type.get<std::string>() : std::string();
  };
  const std::string type = type_at("/model_type");
  const std::map<std::string, ModelType>& rows = model_types().towers.at(kind);
  for (const std::string& name : {type + "/" + type_at("/" + kind + "_config/model_type"), type}) {
    const auto found = rows.find(name);
    if (found != rows.end() && !found->second.names.empty()) return &found->second;
  }
  return nullptr;
}

ModelType with_head(ModelType type, const std::string& name) {
  for (const auto& [end, head] : model_types().heads) {
    if (head.names.empty() || !name.ends_with(end)) continue;
    for (const auto& [field, is] : head.fields) type.fields.insert_or_assign(field, is);
  }
  return type;
}

ModelReading model_of_type(const ModelType& type, const json& config, const std::string& place,
                           bool nested) {
  Reading reading(type, config, place, nested);
  sim::Transformer model = reading.model();
  return {.model = std::move(model), .keys = reading.keys()};
}

}  // namespace llmsim::hwdb
