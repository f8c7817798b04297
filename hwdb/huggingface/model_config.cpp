#include "hwdb/huggingface/model_config.h"

#include <algorithm>

namespace llmsim::hwdb {
namespace {

constexpr int kLargest = 1 << 27;  // sums and small multiples of figures stay inside an int
constexpr int kFull = -1;

// Every n-th layer full and the others windowed: n; kFull where all are full; none where there is
// no such n.
std::optional<int> interval_of(const std::vector<bool>& windowed) {
  const auto first_full = std::find(windowed.begin(), windowed.end(), false);
  if (first_full == windowed.end()) return 1;
  if (std::find(windowed.begin(), windowed.end(), true) == windowed.end()) return kFull;
  const auto n = static_cast<std::size_t>(first_full - windowed.begin()) + 1;
  for (std::size_t layer = 0; layer < windowed.size(); ++layer) {
    if (windowed[layer] == (layer % n == n - 1)) return std::nullopt;
  }
  return static_cast<int>(n);
}

}  // namespace

ModelConfig::ModelConfig(const nlohmann::json& object, const std::string& file)
    : reader_(object, file) {}

std::optional<int> ModelConfig::maybe(std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const auto value = reader_.integer(key, 1, kLargest)) return static_cast<int>(*value);
  }
  return std::nullopt;
}

int ModelConfig::need(std::initializer_list<const char*> keys) {
  if (const std::optional<int> value = maybe(keys)) return *value;
  std::string others;
  for (const char* const* key = keys.begin() + 1; key < keys.end(); ++key)
    others += (others.empty() ? "" : " or ") + std::string(*key);
  refuse(*keys.begin(), others.empty() ? "missing" : "missing, and so is " + others);
}

int ModelConfig::need_in(const char* object, const char* key) {
  std::optional<ObjectReader> inner = reader_.object(object);
  const auto value = inner ? inner->integer(key, 1, kLargest) : std::nullopt;
  if (!value) refuse(std::string(object) + "." + key, "missing");
  return static_cast<int>(*value);
}

int ModelConfig::count_or(std::initializer_list<const char*> keys, int fallback) {
  return maybe(keys).value_or(fallback);
}

int ModelConfig::at_least_zero(const char* key, int fallback) {
  return static_cast<int>(reader_.integer(key, 0, kLargest).value_or(fallback));
}

bool ModelConfig::flag(const char* key, bool fallback) {
  return reader_.boolean(key).value_or(fallback);
}

double ModelConfig::need_number(const char* key) {
  const std::optional<double> value = reader_.number(key, 0.0);
  if (!value) refuse(key, "missing");
  return *value;
}

int divided_head_dim(ModelConfig& config, int hidden_size, int num_heads) {
  if (hidden_size % num_heads == 0) return hidden_size / num_heads;
  const std::string size = std::to_string(hidden_size), heads = std::to_string(num_heads);
  config.refuse("head_dim", "missing, and the hidden size " + size + " is not a multiple of the " +
                                heads + " heads");
}

// What a model is trained with for most of its tokens, however long the sequences are that it
// accepts in the end.
constexpr int kUsualSeqLen = 4096;

int rotary_seq_len(ModelConfig& config, std::optional<int> fallback) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const nlohmann::json* scaling = config.any(key);
    if (!scaling || !scaling->is_object()) continue;
    if (const auto original = config.object(key)->count("original_max_position_embeddings"))
      return *original;
  }
  if (const auto trained = config.maybe({"initial_context_length"})) return *trained;
  const auto longest = config.maybe({"max_position_embeddings", "max_sequence_length",
                                     "max_seq_len", "n_positions", "seq_length"});
  if (longest) return std::min(*longest, kUsualSeqLen);
  if (fallback) return *fallback;
  config.refuse("max_position_embeddings", "missing");
}

void read_layer_types(ModelConfig& config, sim::Transformer& model) {
  const nlohmann::json* types = config.any("layer_types");
  if (!types) return;
  std::vector<bool> windowed;
  if (!types->is_array())
    config.refuse("layer_types", "a list of one string per layer is expected");
  for (const nlohmann::json& type : *types) {
    const bool full = type == "full_attention";
    if (!full && type != "sliding_attention" && type != "chunked_attention") {
      config.refuse(
          "layer_types",
          "only full_attention and sliding_attention are known: hybrids are not supported");
    }
    windowed.push_back(!full);
  }
  if (static_cast<int>(windowed.size()) != model.num_layers) {
    config.refuse("layer_types", "a string for each of " + std::to_string(model.num_layers) +
                                     " layers is expected");
  }
  const std::optional<int> interval = interval_of(windowed);
  if (!interval)
    config.refuse("layer_types", "only a pattern with every n-th layer full is supported");
  if (*interval == kFull) model.sliding_window.reset();
  model.sliding_window_interval = *interval == kFull ? 1 : *interval;
}

}  // namespace llmsim::hwdb
