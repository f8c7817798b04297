#include "sim/model/tower.h"

#include <algorithm>
#include <string_view>

#include "sim/model/flops.h"
#include "sim/model/parameters.h"

namespace llmsim::sim {
namespace {

// The factors of "2x384xh"; fewer than two, or a 0, for what is no GEMM.
std::vector<std::int64_t> factors_of(std::string_view word, int width) {
  constexpr std::int64_t kMost = std::int64_t{1} << 22;
  std::vector<std::int64_t> factors(1);
  bool begins = true, named = false;  // a factor begins, or is h
  for (const char ch : word) {
    std::int64_t& factor = factors.back();
    if (ch == 'x' && !begins) {
      factors.push_back(0), begins = true, named = false;
    } else if (ch == 'h' && begins) {
      factor = width, begins = false, named = true;
    } else if (ch >= '0' && ch <= '9' && !named && factor < kMost) {
      factor = 10 * factor + (ch - '0'), begins = false;
    } else {
      return {};
    }
  }
  return factors;
}

// `layers` of a tower, whose patches see `patches` each.
Transformer encoder_of(const Tower& tower, int layers, int patches) {
  Transformer encoder;
  encoder.num_layers = layers, encoder.hidden_size = tower.hidden_size;
  encoder.num_heads = encoder.num_kv_heads = tower.num_heads;
  encoder.head_dim = tower.hidden_size / tower.num_heads;
  encoder.ffn_size = tower.ffn_size, encoder.gated_mlp = tower.gated_mlp;
  const bool bias = tower.bias;
  encoder.bias = {.qkv = bias,
                  .attention_output = bias,
                  .mlp = bias,
                  .norm = bias && tower.norm == Norm::LayerNorm};
  encoder.norm = tower.norm, encoder.norms_per_layer = tower.norms_per_layer;
  encoder.qk_norm = tower.qk_norm, encoder.final_norm = false;
  encoder.position = tower.rotary ? Position::Rope : Position::None;
  encoder.encoder = Encoder{.segment_types = 0};
  encoder.vocab_size = 1;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  encoder.seq_len = static_cast<int>(
      std::clamp<std::int64_t>(std::int64_t{tower.tokens} * tower.merged_patches, 1, kMost));
  encoder.document_len = std::min(patches, encoder.seq_len);
  return encoder;
}

// Multiply-adds of a row of input.
double work_of(const std::vector<TowerGemm>& gemms) {
  double sum = 0.0;
  for (const TowerGemm& gemm : gemms) sum += real(gemm.rows) * real(gemm.weights());
  return sum;
}

std::int64_t weights_of(const std::vector<TowerGemm>& gemms) {
  std::int64_t sum = 0;
  for (const TowerGemm& gemm : gemms) sum += gemm.weights();
  return sum;
}

}  // namespace

bool has_running_tower(const Transformer& model) {
  bool runs = false;
  for_each_running_tower(model, [&](const char*, const Tower&) { runs = true; });
  return runs;
}

std::vector<TowerGemm> tower_gemms(const std::string& text, int width) {
  std::vector<TowerGemm> gemms;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(' ', start), text.size());
    const std::vector<std::int64_t> factors =
        factors_of(std::string_view(text).substr(start, end - start), width);
    const std::size_t n = factors.size();
    if (n < 2 || n > 3 || std::ranges::find(factors, 0) != factors.end()) return {};
    gemms.push_back(
        {.rows = n == 3 ? factors.front() : 1, .in = factors[n - 2], .out = factors[n - 1]});
    start = end + 1;
  }
  return gemms;
}

std::vector<Transformer> tower_layers(const Tower& tower) {
  const int layers = tower.num_layers, n = tower.window_interval;
  const int whole = !tower.window ? layers : n > 1 ? layers / n : 0;
  std::vector<Transformer> all;
  if (whole > 0) all.push_back(encoder_of(tower, whole, tower.patches));
  if (whole < layers)
    all.push_back(encoder_of(tower, layers - whole, std::min(*tower.window, tower.patches)));
  return all;
}

std::int64_t tower_parameters(const Tower& tower, int hidden_size) {
  std::int64_t sum = weights_of(tower_gemms(tower.patch_embedding, tower.hidden_size)) +
                     tower.projectors * weights_of(tower_gemms(tower.projector, hidden_size)) +
                     tower.other_parameters;
  for (const Transformer& layers : tower_layers(tower))
    sum += layers.num_layers * block_parameters(layers, 0).total();
  return sum;
}

Flops tower_flops(const Tower& tower, int hidden_size) {
  const double patches = real(tower.tokens) * tower.merged_patches;
  const double patch = work_of(tower_gemms(tower.patch_embedding, tower.hidden_size)),
               token = tower.projectors * work_of(tower_gemms(tower.projector, hidden_size));
  Flops sum = 2.0 * (patches * patch + tower.tokens * token) * FLOP;
  for (const Transformer& layers : tower_layers(tower))
    sum += patches * (forward_flops_per_token(layers, false) - head_flops_per_token(layers));
  return sum;
}

std::int64_t running_tower_parameters(const Transformer& model) {
  std::int64_t sum = 0;
  for_each_running_tower(model, [&](const char*, const Tower& tower) {
    sum += tower_parameters(tower, model.hidden_size);
  });
  return sum;
}

Flops running_tower_flops(const Transformer& model) {
  Flops sum;
  for_each_running_tower(model, [&](const char*, const Tower& tower) {
    sum += tower_flops(tower, model.hidden_size);
  });
  return sum;
}

}  // namespace llmsim::sim
