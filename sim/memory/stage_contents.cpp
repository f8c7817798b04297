#include "sim/memory/stage_contents.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/model/layer_weights.h"
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
  explicit UnitLayout(bool divides_tokens) : divides_tokens_(divides_tokens) { summed_.reserve(8); }

  void add(double elements) { size_ += elements; }
  void add_partial(double elements) {
    if (elements > 0.0) summed_.push_back({size_, size_ + elements});
    size_ += elements;
  }
  void add_own_tokens(double elements) { divides_tokens_ ? add_partial(elements) : add(elements); }

  double in_shard(double ranks, int shard) const {
    const double piece = std::ceil(size_ / ranks), begin = shard * piece;
    double values = 0.0;
    for (const Range& range : summed_)
      values += std::max(0.0, std::min(range.end, begin + piece) - std::max(range.begin, begin));
    return values;
  }

 private:
  bool divides_tokens_;
  double size_ = 0.0;
  std::vector<Range> summed_;
};

// A layer's weights, but for routed experts that are divided over ranks of their own.
UnitLayout layer_unit(const Transformer& model, const Strategy& strategy,
                      const RankParameters& rank, LayerKind kind) {
  UnitLayout layout(strategy.sequence_parallel);
  for (const LayerWeight& weight : layer_weights(model, kind)) {
    if (weight.part == LayerPart::Experts) continue;
    const auto replicated = static_cast<double>(weight.replicated());
    layout.add((static_cast<double>(weight.parameters()) - replicated) / strategy.tp);
    weight.partial ? layout.add_partial(replicated) : layout.add_own_tokens(replicated);
  }
  if (kind == LayerKind::Moe && !rank.experts_divided) layout.add(rank.experts);
  return layout;
}

UnitLayout head_unit(const Strategy& strategy, const RankParameters& rank, const ModelChunk& part) {
  UnitLayout layout(strategy.sequence_parallel);
  layout.add_own_tokens(rank.head_layers);
  if (!(rank.tied && part.has_table())) layout.add(rank.head - rank.head_layers);
  return layout;
}

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

int StageContents::chunks_in_flight(int stage) const {
  return peak_in_flight(pipeline_shape(strategy_), stage);
}

double partial_gradients(const Transformer& model, const Strategy& strategy,
                         const std::vector<ModelChunk>& parts, int shard) {
  const RankParameters rank = rank_parameters(model, strategy);
  const auto in_shard = [&](const UnitLayout& layout) {
    return layout.in_shard(strategy.shard_ranks(), shard);
  };
  double values = 0.0;
  int dense_blocks = 0, moe_blocks = 0;
  for (const ModelChunk& part : parts) {
    dense_blocks += part.dense_blocks(), moe_blocks += part.moe_blocks;
    if (part.head) values += in_shard(head_unit(strategy, rank, part));
  }
  for (const auto& [kind, blocks] :
       {std::pair{LayerKind::Dense, dense_blocks}, {LayerKind::Moe, moe_blocks}})
    if (blocks > 0) values += blocks * in_shard(layer_unit(model, strategy, rank, kind));
  return values;
}

}  // namespace llmsim::sim
