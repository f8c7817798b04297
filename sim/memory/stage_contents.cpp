#include "sim/memory/stage_contents.h"

#include <algorithm>
#include <cmath>

#include "sim/pipeline/stage_order.h"

namespace llmsim::sim {
namespace {

// Elements [begin, end) of a unit.
struct Range {
  double begin = 0.0, end = 0.0;
};

// A unit's parameters, and which of them are summed.
class UnitLayout {
 public:
  explicit UnitLayout(bool divides_tokens) : divides_tokens_(divides_tokens) {}

  void add(double elements) { size_ += elements; }
  void add_partial(double elements) {
    summed_.push_back({size_, size_ + elements});
    size_ += elements;
  }
  void add_own_tokens(double elements) { divides_tokens_ ? add_partial(elements) : add(elements); }

  double in_shard(double ranks, int shard) const {
    const double piece = std::ceil(size_ / ranks), begin = shard * piece;
    double values = 0.0;
    for (const Range& range : summed_) values += std::max(0.0, std::min(range.end, begin + piece) - std::max(range.begin, begin));
    return values;
  }

 private:
  bool divides_tokens_;
  double size_ = 0.0;
  std::vector<Range> summed_;
};

class Layouts {
 public:
  Layouts(const Transformer& model, const Strategy& strategy)
      : model_(model), strategy_(strategy), rank_(rank_parameters(model, strategy)), h_(model.hidden_size) {}

  UnitLayout block() const {
    const double f = static_cast<double>(model_.ffn_size) / strategy_.tp;
    UnitLayout layout = attention();
    add_mlp(layout, f, 1.0);
    return layout;
  }

  UnitLayout moe() const {
    const Moe& moe = *model_.moe;
    UnitLayout layout = attention();
    layout.add_partial(moe.num_experts * (h_ + (moe.router_bias ? 1.0 : 0.0)));
    const double shared = static_cast<double>(moe.num_shared_experts) * moe.shared_expert_ffn_size / strategy_.tp;
    if (shared > 0.0) add_mlp(layout, shared, moe.num_shared_experts);
    if (moe.shared_expert_gate) layout.add_partial(h_);
    if (!rank_.experts_divided) layout.add(rank_.experts);
    return layout;
  }

  UnitLayout head(const ModelPart& part) const {
    UnitLayout layout(strategy_.sequence_parallel);
    layout.add_own_tokens(rank_.head_layers);
    if (!(rank_.tied && part.has_table())) layout.add(rank_.head - rank_.head_layers);
    return layout;
  }

 private:
  UnitLayout attention() const {
    const double n = strategy_.tp, q = static_cast<double>(model_.num_heads) * model_.head_dim / n,
                 kv = static_cast<double>(model_.num_kv_heads) * model_.head_dim / n;
    const double norm = model_.norm_weight ? h_ * (model_.bias.norm ? 2.0 : 1.0) : 0.0;
    UnitLayout layout(strategy_.sequence_parallel);
    layout.add_own_tokens(norm);
    if (model_.mla)
      add_mla(layout, *model_.mla);
    else
      layout.add((q + 2.0 * kv) * (h_ + (model_.bias.qkv ? 1.0 : 0.0)) + q * h_);
    layout.add_own_tokens(model_.bias.attention_output ? h_ : 0.0);
    layout.add_own_tokens(norm);
    return layout;
  }

  // GEMMs down and their norms, then GEMMs up and the projection.
  void add_mla(UnitLayout& layout, const Mla& mla) const {
    const double n = strategy_.tp, heads = model_.num_heads / n, query = mla.q_lora_rank.value_or(0);
    const double rank = mla.kv_lora_rank, rows = mla.qk_nope_head_dim + mla.v_head_dim;
    layout.add_own_tokens(query * (h_ + 1.0));
    layout.add_own_tokens((rank + mla.qk_rope_head_dim) * h_ + rank);
    layout.add(heads * query_head_dim(model_) * (query > 0.0 ? query : h_) + heads * rows * rank + heads * mla.v_head_dim * h_);
  }

  void add_mlp(UnitLayout& layout, double f, double biases) const {
    const double up = model_.gated_mlp ? 2.0 * f : f;
    layout.add(up * (h_ + (model_.bias.mlp ? 1.0 : 0.0)) + f * h_);
    layout.add_own_tokens(model_.bias.mlp ? biases * h_ : 0.0);
  }

  const Transformer& model_;
  const Strategy& strategy_;
  RankParameters rank_;
  double h_;
};

}  // namespace

StageContents::StageContents(const Transformer& model, const Strategy& strategy)
    : strategy_(strategy),
      layout_(stage_layout(strategy)),
      parts_(model_parts(model, strategy)),
      rank_(rank_parameters(model, strategy)) {}

int StageContents::blocks(int stage) const {
  int sum = 0;
  for (int chunk = 0; chunk < chunks(); ++chunk) sum += part(stage, chunk).blocks;
  return sum;
}

int StageContents::moe_blocks(int stage) const {
  int sum = 0;
  for (int chunk = 0; chunk < chunks(); ++chunk) sum += part(stage, chunk).moe_blocks;
  return sum;
}

double StageContents::apart(int stage) const {
  double sum = 0.0;
  for (int chunk = 0; chunk < chunks(); ++chunk) sum += rank_.apart(part(stage, chunk));
  return sum;
}

double StageContents::held(int stage) const {
  double sum = 0.0;
  for (int chunk = 0; chunk < chunks(); ++chunk) sum += rank_.held(part(stage, chunk));
  return sum;
}

double StageContents::trained(int stage) const {
  double sum = 0.0;
  for (int chunk = 0; chunk < chunks(); ++chunk) sum += rank_.trained(part(stage, chunk));
  return sum;
}

int StageContents::chunks_in_flight(int stage) const { return peak_in_flight(pipeline_shape(strategy_), stage); }

double partial_gradients(const Transformer& model, const Strategy& strategy, const std::vector<ModelPart>& parts, int shard) {
  const double ranks = strategy.shard_ranks();
  const Layouts layouts(model, strategy);
  double values = 0.0;
  for (const ModelPart& part : parts) {
    if (part.dense_blocks() > 0) values += part.dense_blocks() * layouts.block().in_shard(ranks, shard);
    if (part.moe_blocks > 0) values += part.moe_blocks * layouts.moe().in_shard(ranks, shard);
    if (part.head) values += layouts.head(part).in_shard(ranks, shard);
  }
  return values;
}

}  // namespace llmsim::sim
