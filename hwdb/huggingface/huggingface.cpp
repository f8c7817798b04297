#include "hwdb/huggingface/huggingface.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "hwdb/huggingface/model_types.h"
#include "hwdb/text/input_file.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;
using sim::Transformer;

ModelType type_of(const json& config, const std::string& place) {
  ObjectReader reader(config, place);
  const std::optional<std::string> name = reader.text("model_type");
  if (!name) reader.refuse("model_type", "missing; is this the config.json of a model?");
  const ModelType* const type = find_model_type(*name);
  if (!type) reader.refuse("model_type", "unknown" + did_you_mean(*name, known_model_types()));
  if (!type->refused.empty())
    reader.refuse("model_type", type->refused + ", which is not modelled");
  ModelType own = *type;
  for (const std::string& trained : reader.texts("architectures")) own = with_head(own, trained);
  return own;
}

// Letters, digits and harmless signs of a free text, at most 80.
std::string clean_name(std::string text) {
  std::erase_if(text, [](char ch) { return ch < ' ' || ch > '~'; });
  const std::size_t slash = text.find_last_of("/\\");
  if (slash != std::string::npos) text = text.substr(slash + 1);
  return text.substr(0, 80);
}

std::string name_of_model(const json& document, const Transformer& model) {
  for (const char* key : {"_name_or_path", "arch_name", "model_type"}) {
    const auto found = document.find(key);
    if (found == document.end() || !found->is_string()) continue;
    const std::string name = clean_name(found->get<std::string>());
    if (!name.empty()) return name;
  }
  return clean_name(model.name);
}

// The decoder's part of a model that also sees or hears.
struct TextPart {
  const json* config = nullptr;  // null where the document is the decoder
  std::string key;
};

// Under the key of transformers, of InternVL and Ovis, of DeepSeek-VL and Janus, of Qwen's Omni.
TextPart text_part(const json& document) {
  for (const char* path : {"/text_config", "/llm_config", "/language_config",
                           "/thinker_config/text_config", "/thinker_config"}) {
    const json::json_pointer pointer(path);
    if (!document.contains(pointer)) continue;
    const json& part = document.at(pointer);
    if (!part.is_object() || part.empty()) continue;
    std::string key = std::string(path).substr(1);
    std::replace(key.begin(), key.end(), '/', '.');
    return {&part, key};
  }
  return {};
}

// A class of the file that trains something else than its model_type says.
void refuse_classes(const json& document, const std::string& file) {
  ObjectReader reader(document, file);
  for (const std::string& name : reader.texts("architectures")) {
    for (const NameGroup& classes : model_types().classes)
      for (const std::string& word : classes.names)
        if (name.find(word) != std::string::npos) reader.refuse("architectures", classes.meaning);
  }
}

// Python's json writes numbers that JSON has not; none of them is a size.
std::string without_infinities(std::string text) {
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      quoted = !quoted;
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (!quoted && text.compare(i, word.size(), word) == 0) text.replace(i, word.size(), "null");
    }
  }
  return text;
}

ModelReading read_document(const json& document, const std::string& file) {
  if (!document.is_object())
    throw Error(file + ": " + shown(document) + ": an object { ... } is expected");
  if (!document.contains("model_type") && document.contains("d_embd"))
    return model_of_type(*find_model_type("llm-train-bench"), document, file, false);
  refuse_classes(document, file);
  if (const TextPart text = text_part(document); text.config) {
    const std::string place = file + ": " + text.key;
    json part = *text.config;
    part.erase("architectures");
    // Of the whole model where its text part does not say it.
    for (const char* key :
         {"tie_word_embeddings", "model_type", "num_labels", "id2label", "architectures"})
      if (!part.contains(key) && document.contains(key)) part[key] = document[key];
    ModelType type = type_of(part, place);
    const std::string whole = ObjectReader(document, file).text("model_type").value_or("");
    if (const ModelType* const row = find_model_type(whole))
      type.class_defaults.update(row->text_defaults);
    return model_of_type(type, part, place, true);
  }
  return model_of_type(type_of(document, file), document, file, false);
}

// The object of a file in which its towers stand beside the text part.
const json& towers_part(const json& document) {
  const auto thinker = document.find("thinker_config");
  return thinker != document.end() && thinker->is_object() ? *thinker : document;
}

// Adds the towers that are known; a run says how many of its tokens they make.  One of another
// shape than its row expects is left out, and the text part read all the same.
void add_towers(const json& document, const std::string& file, Transformer& model) {
  for (const char* kind : {"vision", "audio"}) {
    const ModelType* const row = find_tower(kind, towers_part(document));
    if (!row) continue;
    try {
      const Transformer tower = model_of_type(*row, towers_part(document), file, false).model;
      Transformer with = model;
      (tower.vision ? with.vision : with.audio) = tower.vision ? tower.vision : tower.audio;
      with.validate();
      model = with;
    } catch (const Error&) {
      continue;
    }
  }
}

// Layers ahead of the last that a file has and a row does not.
void add_layers_ahead(const json& config, std::vector<std::string>& notes) {
  for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules",
                          "mtp_num_layers", "num_mtp_layers"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_number_integer() && *found > 0)
      notes.push_back(std::string(key) + " = " + found->dump() +
                      ": layers of multi-token prediction are not counted");
  }
}

// Words in the keys of towers for other things than text.
constexpr const char* kTowers[] = {"vision", "visual", "image",  "img",      "vit",
                                   "video",  "audio",  "speech", "projector"};

// Whether an object has layers of a width, as a part of a model under any name.
bool has_layers(const json& part) {
  const auto has = [&](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(),
                       [&](const char* key) { return part.contains(key); });
  };
  return part.is_object() &&
         has({"depth", "layers", "num_layers", "num_hidden_layers", "n_layer"}) &&
         has({"hidden_size", "d_model", "width", "embed_dim", "n_embd", "dim"});
}

// Which option asks for the tower of a key, where it is counted.
const char* option_for(const std::string& key, const sim::Transformer& model) {
  if (key == "vision_config" && model.vision) return "--image-tokens";
  return key == "audio_config" && model.audio ? "--audio-tokens" : nullptr;
}

// Parts of a model that its text part leaves out: objects of the file that configure another tower.
// `model`: what was read.
std::vector<std::string> notes_on(const json& document, const sim::Transformer& model) {
  std::vector<std::string> notes;
  const TextPart text = text_part(document);
  for (const auto& [key, value] : towers_part(document).items()) {
    const bool is_given = (value.is_object() && !value.empty()) || key.ends_with("vision_tower");
    const auto has = [&key = key](const char* word) { return key.find(word) != std::string::npos; };
    if (const char* const option = option_for(key, model))
      notes.push_back(key + " is counted where " + option +
                      " says how many tokens of a sequence it makes");
    else if (is_given && !value.is_null() && !text.key.ends_with(key) &&
             (has_layers(value) || std::any_of(std::begin(kTowers), std::end(kTowers), has)))
      notes.push_back(key + " is not counted: of this model the text part alone is read");
  }
  if (text.config && (notes.empty() || &towers_part(document) != &document))
    notes.push_back(text.key + " alone is read: other parts of this model are not counted");
  if (model.mtp_layers == 0) add_layers_ahead(text.config ? *text.config : document, notes);
  return notes;
}

sim::NamedModel model_in(const std::string& text, const std::string& file) {
  const json document = parse_json(without_infinities(text), file);
  ModelReading reading = read_document(document, file);
  sim::NamedModel read{.model = std::move(reading.model),
                       .aliases = {},
                       .published_parameters = {},
                       .source = file,
                       .keys = std::move(reading.keys)};
  read.model.name = name_of_model(document, read.model);
  try {
    read.model.validate();
  } catch (const Error& error) {
    throw Error(file + ": " + error.what());
  }
  add_towers(document, file, read.model);
  for (sim::ModelKey& key : read.keys)
    if (option_for(key.key, read.model))
      key.outcome = "read", key.why = key.key.substr(0, key.key.find('_'));
  read.notes = notes_on(document, read.model);
  return read;
}

}  // namespace

Transformer read_model_config(const std::string& text, const std::string& file) {
  return model_in(text, file).model;
}

sim::NamedModel load_model_config(const std::string& path) {
  return model_in(content_of_file(path), path);
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> names;
  for (const auto& [name, row] : model_types().rows)
    if (!row.names.empty() && row.refused.empty()) names.push_back(name);
  return names;
}

}  // namespace llmsim::hwdb
