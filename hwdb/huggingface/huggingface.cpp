#include "hwdb/huggingface/huggingface.h"

#include <algorithm>
#include <map>

#include "hwdb/huggingface/model_config.h"
#include "hwdb/text/input_file.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;
using sim::Transformer;

const Families& readers() {
  static const Families all = [] {
    Families families = rotary_families();
    families.merge(moe_families());
    families.merge(gpt_families());
    families.merge(encoder_families());
    families.merge(hybrid_families());
    return families;
  }();
  return all;
}

// Why a known model_type is neither a decoder, nor a hybrid that is modelled, nor an encoder like
// BERT; none for the others.
std::optional<std::string> kind_refused(const std::string& type) {
  static const std::map<std::string, std::string> kinds = {
      {"albert", "an encoder whose layers share weights"},
      {"bart", "an encoder-decoder"},
      {"deberta", "an encoder with disentangled attention"},
      {"deberta-v2", "an encoder with disentangled attention"},
      {"distilbert", "an encoder that is distilled from another"},
      {"electra", "an encoder that is trained beside a generator"},
      {"modernbert", "an encoder with sequences of many lengths in one"},
      {"mt5", "an encoder-decoder"},
      {"t5", "an encoder-decoder"},
      {"vit", "an image encoder"},
      {"whisper", "an encoder-decoder"},
      {"bamba", "a hybrid with Mamba-2 under other keys"},
      {"falcon_h1", "a state-space hybrid"},
      {"falcon_mamba", "a model of Mamba-1"},
      {"granitemoehybrid", "a hybrid with Mamba-2 under other keys"},
      {"mamba", "a model of Mamba-1"},
      {"mamba2", "a state-space model"},
      {"recurrent_gemma", "a recurrent hybrid"},
      {"rwkv", "a recurrent model"},
      {"zamba2", "a state-space hybrid"},
  };
  const auto found = kinds.find(type);
  if (found == kinds.end()) return std::nullopt;
  return found->second;
}

auto reader_of(ModelConfig& c) {
  const std::optional<std::string> type = c.text("model_type");
  if (!type) c.refuse("model_type", "missing; is this the config.json of a model?");
  if (const auto found = readers().find(*type); found != readers().end()) return found->second;
  if (const auto kind = kind_refused(*type))
    c.refuse("model_type", *kind +
                               "; only decoders, hybrids like Nemotron-H, Qwen3-Next and Jamba, "
                               "and encoders like BERT are supported");
  c.refuse("model_type", "unknown" + did_you_mean(*type, known_model_types()));
}

// Letters, digits and harmless signs of a free text, at most 80.
std::string clean_name(std::string text) {
  std::erase_if(text, [](char ch) { return ch < ' ' || ch > '~'; });
  const std::size_t slash = text.find_last_of("/\\");
  if (slash != std::string::npos) text = text.substr(slash + 1);
  return text.substr(0, 80);
}

std::string name_of_model(const json& document, const Transformer& model) {
  for (const char* key : {"_name_or_path", "model_type"}) {
    const auto found = document.find(key);
    if (found == document.end() || !found->is_string()) continue;
    const std::string name = clean_name(found->get<std::string>());
    if (!name.empty()) return name;
  }
  return clean_name(model.name);
}

// The decoder's part of a document: the whole, or the text part of a model that also sees.
const json& text_part(const json& document) {
  const auto part = document.find("text_config");
  return part != document.end() && part->is_object() && !part->empty() ? *part : document;
}

Transformer read_document(const json& document, const std::string& file) {
  ModelConfig whole(document, file);
  if (!document.contains("model_type") && document.contains("d_embd")) return train_bench(whole);
  const json& part = text_part(document);
  if (&part == &document) return reader_of(whole)(whole);
  ModelConfig text(part, file + ": text_config");
  return reader_of(text)(text);
}

}  // namespace

Transformer read_model_config(const std::string& text, const std::string& file) {
  const json document = parse_json(text, file);
  Transformer model = read_document(document, file);
  model.name = name_of_model(document, model);
  try {
    model.validate();
  } catch (const Error& error) {
    throw Error(file + ": " + error.what());
  }
  return model;
}

Transformer load_model_config(const std::string& path) {
  return read_model_config(content_of_file(path), path);
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> names;
  for (const auto& [name, reader] : readers()) names.push_back(name);
  return names;
}

}  // namespace llmsim::hwdb
