// A model's config.json while it is read: the keys that several families share.  Private to hwdb.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>

#include "hwdb/text/json_reader.h"
#include "sim/model/transformer.h"

namespace llmsim::hwdb {

class ModelConfig {
 public:
  // `object` must outlive the config.
  ModelConfig(const nlohmann::json& object, const std::string& file);

  // The size under the first of these keys that the file has; families call the same size by
  // different names.
  int need(std::initializer_list<const char*> keys);
  int need_in(const char* object, const char* key);  // of an object in the file
  int count_or(std::initializer_list<const char*> keys, int fallback);
  std::optional<int> maybe(std::initializer_list<const char*> keys);
  int at_least_zero(const char* key, int fallback);
  bool flag(const char* key, bool fallback);
  std::optional<std::string> text(const char* key) { return reader_.text(key); }
  double need_number(const char* key);
  std::optional<ObjectReader> object(const char* key) { return reader_.object(key); }
  const nlohmann::json* any(const char* key) { return reader_.any(key); }
  bool has(const char* key) const { return reader_.value().contains(key); }

  [[noreturn]] void refuse(const std::string& key, const std::string& right) const {
    reader_.refuse(key, right);
  }

 private:
  ObjectReader reader_;
};

// hidden_size / num_heads; refuses a file whose heads do not divide the width.
int divided_head_dim(ModelConfig& config, int hidden_size, int num_heads);

// Pre-training context of rotary models.
int rotary_seq_len(ModelConfig& config, std::optional<int> fallback = std::nullopt);

// The window pattern of "layer_types" where the file lists one kind of attention per layer; else
// nothing changes.
void read_layer_types(ModelConfig& config, sim::Transformer& model);

// How each family of models writes its config.json.  Private to hwdb.

// Readers by the model_type they understand.
using Families = std::map<std::string, sim::Transformer (*)(ModelConfig&)>;

Families rotary_families();
Families moe_families();
Families gpt_families();
Families encoder_families();
Families hybrid_families();

// RMSNorm, rotary positions, gated MLP, no biases; the sizes that most families give under the
// same keys.
sim::Transformer rotary(ModelConfig& config, bool tied_by_default);

// The file of llm-train-bench: a GPT where it has neither an MLP width nor kv heads, else a Llama.
sim::Transformer train_bench(ModelConfig& config);

}  // namespace llmsim::hwdb
