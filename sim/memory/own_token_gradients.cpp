#include "sim/memory/own_token_gradients.h"

#include <algorithm>
#include <cmath>

#include "sim/memory/shards.h"

namespace llmsim::sim {
namespace {

// Elements [begin, end) of a unit.
struct Range {
  double begin = 0.0, end = 0.0;
};

struct UnitLayout {
  double size = 0.0;
  std::vector<Range> own_tokens;

  void add(double elements) { size += elements; }
  void add_own_tokens(double elements) {
    own_tokens.push_back({size, size + elements});
    size += elements;
  }
};

UnitLayout block_layout(const Transformer& model, const Strategy& strategy) {
  const double h = model.hidden_size, n = strategy.tensor_parallel;
  const double q = static_cast<double>(model.num_heads) * model.head_dim / n,
               kv = static_cast<double>(model.num_kv_heads) * model.head_dim / n, f = static_cast<double>(model.ffn_size) / n,
               up = model.gated_mlp ? 2.0 * f : f;
  const double norm = model.norm_weight ? h * (model.bias.norm ? 2.0 : 1.0) : 0.0;
  UnitLayout layout;
  layout.add_own_tokens(norm);
  layout.add((q + 2.0 * kv) * (h + (model.bias.qkv ? 1.0 : 0.0)) + q * h);
  layout.add_own_tokens(model.bias.attention_output ? h : 0.0);
  layout.add_own_tokens(norm);
  layout.add(up * (h + (model.bias.mlp ? 1.0 : 0.0)) + f * h);
  layout.add_own_tokens(model.bias.mlp ? h : 0.0);
  return layout;
}

UnitLayout head_layout(const RankParameters& rank, const ModelPart& part) {
  UnitLayout layout;
  layout.add_own_tokens(rank.final_norm);
  if (!(rank.tied && part.embedding)) layout.add(rank.head - rank.final_norm);
  return layout;
}

double in_shard(const UnitLayout& layout, double ranks, int shard) {
  const double piece = std::ceil(layout.size / ranks), begin = shard * piece;
  double values = 0.0;
  for (const Range& range : layout.own_tokens)
    values += std::max(0.0, std::min(range.end, begin + piece) - std::max(range.begin, begin));
  return values;
}

}  // namespace

double own_token_gradients(const Transformer& model, const Strategy& strategy, const std::vector<ModelPart>& parts, int shard) {
  const double ranks = strategy.shard_ranks();
  const RankParameters rank = rank_parameters(model, strategy);
  const double block = ranks == 1.0 ? rank.block_replicated : in_shard(block_layout(model, strategy), ranks, shard);
  double values = 0.0;
  for (const ModelPart& part : parts) {
    values += part.blocks * block;
    if (part.head) values += in_shard(head_layout(rank, part), ranks, shard);
  }
  return values;
}

}  // namespace llmsim::sim
