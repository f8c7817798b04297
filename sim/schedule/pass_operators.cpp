#include "sim/schedule/pass_operators.h"

#include <utility>

#include "sim/strategy/low_precision_recipe.h"

namespace llmsim::sim {

std::vector<PricedOperator> pass_operators(const Run& run, const LayerPrices& prices,
                                           const ModelChunk& chunk, PassKind pass) {
  std::vector<PricedOperator> list;
  const auto add = [&](const std::vector<PricedOperator>& operators, std::optional<int> layer) {
    for (const PricedOperator& op : operators) {
      const bool weights = op.kind == OperatorKind::Gemm && op.weight_gradient;
      if (weights ? pass == PassKind::DataGradient : pass == PassKind::WeightGradient) continue;
      list.push_back(op);
      list.back().layer = layer;
    }
  };
  const bool forward = pass == PassKind::Forward;
  const auto add_layer = [&](const PricedOperators& layer, bool recomputes,
                             std::optional<int> number) {
    if (forward) return add(layer.forward, number);
    if (recomputes && pass != PassKind::WeightGradient) add(layer.recompute, number);
    add(layer.backward, number);
  };
  const auto add_end = [&](bool embedding) {
    if (embedding ? chunk.embedding : chunk.head)
      add_layer(*(embedding ? prices.embedding : prices.head).operators, true, std::nullopt);
  };
  const LayerKinds slots = layer_kinds(run.model);
  add_end(forward);
  for (int i = 0; i < chunk.blocks; ++i) {
    const int block = forward ? i : chunk.blocks - 1 - i, layer = chunk.first_layer + block;
    const bool high = is_high_precision_layer(run.framework.low_precision, run.strategy.precision,
                                              run.model, layer);
    const BlockPrices& blocks = high ? *prices.high_precision : prices;
    add_layer(*blocks.blocks[slots.slot(kind_of_layer(run.model, layer))].operators,
              run.strategy.recompute.repeats(block), layer);
  }
  add_end(!forward);
  return list;
}

namespace {

// The operators of one of two joined passes, one after the other.
struct JoinedSide {
  std::vector<PricedOperator> operators;
  std::size_t place = 0;
  Seconds done{}, total{};

  bool through() const { return place == operators.size(); }
  // Share of their time; more than 1 when all are through.
  double progress() const { return through() ? 2.0 : total > Seconds(0.0) ? done / total : 0.0; }
};

JoinedSide side_of(std::vector<PricedOperator> operators, const JoinedPass& joined, Seconds pass,
                   Seconds exchange) {
  const double shown = exchange > Seconds(0.0) ? joined.exposed / exchange : 1.0;
  const double longer = pass > exchange ? 1.0 + joined.slowdown / (pass - exchange) : 1.0;
  JoinedSide side{.operators = std::move(operators)};
  for (PricedOperator& op : side.operators) {
    op.time *= op.is_all_to_all() ? shown : longer;
    side.total += op.time;
  }
  return side;
}

}  // namespace

std::vector<JoinedOperator> joined_operators(std::vector<PricedOperator> forward,
                                             std::vector<PricedOperator> backward,
                                             const ChunkTimes& forward_times,
                                             const ChunkTimes& backward_times, double loss) {
  const JoinedPasses joined = joined_passes(forward_times, backward_times, loss);
  JoinedSide ahead = side_of(std::move(forward), joined.forward, forward_times.forward,
                             forward_times.forward_all_to_all);
  JoinedSide back = side_of(std::move(backward), joined.backward, backward_times.backward,
                            backward_times.backward_all_to_all);
  std::vector<JoinedOperator> list;
  while (!ahead.through() || !back.through()) {
    const bool first = ahead.progress() <= back.progress();
    JoinedSide& side = first ? ahead : back;
    const PricedOperator& op = side.operators[side.place++];
    side.done += op.time;
    list.push_back({.op = op, .backward = !first});
  }
  return list;
}

}  // namespace llmsim::sim
