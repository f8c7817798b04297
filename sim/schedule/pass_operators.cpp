#include "sim/schedule/pass_operators.h"

#include <utility>

#include "sim/operators/block.h"
#include "sim/operators/embedding_and_head.h"

namespace llmsim::sim {
namespace {

Seconds message_time(const PassPrice& price) {
  Seconds sum;
  for (const CollectiveTallies* tallies :
       {&price.tensor_collectives, &price.context_collectives, &price.expert_collectives,
        &price.expert_tensor_collectives}) {
    for (const CollectiveTally& tally : *tallies) sum += tally.time;
  }
  return sum;
}

bool is_all_to_all(const Operator& op) {
  return op.kind == OperatorKind::Collective &&
         (op.group == GroupKind::Expert || op.group == GroupKind::ExpertTensor);
}

std::vector<PassOperator> priced(const OperatorList& operators, const OperatorPricer& pricer,
                                 bool backward, bool recomputed) {
  const std::vector<PassPrice> prices = pricer.each_price(operators, backward);
  std::vector<PassOperator> list;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    list.push_back({.label = operators[i].label,
                    .kind = operators[i].kind,
                    .recomputed = recomputed,
                    .exchange = is_all_to_all(operators[i]),
                    .time = prices[i].total(),
                    .message = message_time(prices[i]),
                    .flops = operators[i].flops,
                    .moved = operators[i].moved});
  }
  return list;
}

// Exchanges of experts that the passes of different micro-batches hide show by their times.
void hide_all_to_alls(std::vector<PassOperator>& list, const OperatorList& operators,
                      Seconds before, Seconds after) {
  for (std::size_t i = 0; i < operators.size(); ++i) {
    if (is_all_to_all(operators[i])) list[i].time *= after / before;
  }
}

// Weight gradients, or all others.
std::vector<PassOperator> part_of(const std::vector<PassOperator>& list,
                                  const OperatorList& operators, bool weights) {
  std::vector<PassOperator> part;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const bool is_weights = operators[i].kind == OperatorKind::Gemm && operators[i].weight_gradient;
    if (is_weights == weights) part.push_back(list[i]);
  }
  return part;
}

// Of two kinds of layer with the same operators, `share` of the second.
void mix(std::vector<PassOperator>& list, const std::vector<PassOperator>& other, double share) {
  for (std::size_t i = 0; i < list.size() && list.size() == other.size(); ++i) {
    list[i].time = (1.0 - share) * list[i].time + share * other[i].time;
    list[i].message = (1.0 - share) * list[i].message + share * other[i].message;
  }
}

}  // namespace

PassOperators::PassOperators(const Run& run) : run_(run) {
  const OperatorPricer pricer(run);
  const Framework framework = effective_framework(run.framework, run.strategy);
  blocks_ = kinds(run.strategy, pricer);
  if (keeps_blocks_in_high_precision(run.framework.low_precision, run.strategy.precision)) {
    Strategy in_16_bits = run.strategy;
    in_16_bits.precision = Precision::Bf16;
    high_precision_ = kinds(in_16_bits, pricer);
  }
  const auto end = [&](const LayerOperators& operators) {
    Priced list{.forward = priced(operators.forward, pricer, false, false),
                .recompute = priced(operators.recompute, pricer, false, true),
                .backward = priced(operators.backward, pricer, true, false)};
    list.data = part_of(list.backward, operators.backward, false);
    list.weights = part_of(list.backward, operators.backward, true);
    return list;
  };
  embedding_ = end(lower_embedding(run.model, run.strategy, framework));
  head_ = end(lower_head(run.model, run.strategy, framework));
}

PassOperators::Kinds PassOperators::kinds(const Strategy& strategy,
                                          const OperatorPricer& pricer) const {
  Kinds all;
  const LayerKinds kinds = layer_kinds(run_.model);
  for (std::size_t slot = 0; slot < kinds.size(); ++slot)
    all[slot] = block(kinds[slot], strategy, pricer);
  return all;
}

PassOperators::Priced PassOperators::block(LayerKind kind, const Strategy& strategy,
                                           const OperatorPricer& pricer) const {
  const Framework framework = effective_framework(run_.framework, run_.strategy);
  const auto lowered = [&](const Transformer& model) {
    return lower_block(model, strategy, framework, strategy.recompute.kind, kind);
  };
  const auto all = [&](const LayerOperators& operators) {
    Priced list{.forward = priced(operators.forward, pricer, false, false),
                .recompute = priced(operators.recompute, pricer, false, true),
                .backward = priced(operators.backward, pricer, true, false)};
    const PassPrice ahead = pricer.price(operators.forward, false),
                    back = pricer.price(operators.backward, true);
    PassPrice forward = ahead, backward = back;
    pricer.overlap_all_to_alls(forward, backward);
    if (ahead.expert > Seconds(0.0))
      hide_all_to_alls(list.forward, operators.forward, ahead.expert, forward.expert);
    if (back.expert > Seconds(0.0))
      hide_all_to_alls(list.backward, operators.backward, back.expert, backward.expert);
    return list;
  };
  const LayerOperators operators = lowered(run_.model);
  Priced list = all(operators);
  const double share = full_attention_share(run_.model);
  if (share > 0.0 && run_.model.sliding_window) {
    Transformer whole = run_.model;
    whole.sliding_window.reset();
    const Priced other = all(lowered(whole));
    mix(list.forward, other.forward, share);
    mix(list.recompute, other.recompute, share);
    mix(list.backward, other.backward, share);
  }
  list.data = part_of(list.backward, operators.backward, false);
  list.weights = part_of(list.backward, operators.backward, true);
  return list;
}

void PassOperators::append(std::vector<PassOperator>& list, const Priced& from, PassKind pass,
                           bool recomputes, std::optional<int> layer) const {
  const auto add = [&](const std::vector<PassOperator>& operators) {
    for (PassOperator op : operators) {
      op.layer = layer;
      list.push_back(op);
    }
  };
  const bool repeats = recomputes && (pass == PassKind::Backward || pass == PassKind::DataGradient);
  if (repeats) add(from.recompute);
  switch (pass) {
    case PassKind::Forward: add(from.forward); break;
    case PassKind::Backward: add(from.backward); break;
    case PassKind::DataGradient: add(from.data); break;
    case PassKind::WeightGradient: add(from.weights); break;
  }
}

std::vector<PassOperator> PassOperators::of(const ModelChunk& chunk, PassKind pass) const {
  std::vector<PassOperator> list;
  const bool forward = pass == PassKind::Forward;
  const LayerKinds slots = layer_kinds(run_.model);
  if (forward && chunk.embedding) append(list, embedding_, pass, true, std::nullopt);
  if (!forward && chunk.head) append(list, head_, pass, true, std::nullopt);
  for (int i = 0; i < chunk.blocks; ++i) {
    const int block = forward ? i : chunk.blocks - 1 - i, layer = chunk.first_layer + block;
    const bool high = is_high_precision_layer(run_.framework.low_precision, run_.strategy.precision,
                                              run_.model, layer);
    append(list, (high ? high_precision_ : blocks_)[slots.slot(kind_of_layer(run_.model, layer))],
           pass, run_.strategy.recompute.repeats(block), layer);
  }
  if (forward && chunk.head) append(list, head_, pass, true, std::nullopt);
  if (!forward && chunk.embedding) append(list, embedding_, pass, true, std::nullopt);
  return list;
}

namespace {

// The operators of one of two joined passes, one after the other.
struct JoinedSide {
  std::vector<PassOperator> operators;
  std::size_t place = 0;
  Seconds done{}, total{};

  bool through() const { return place == operators.size(); }
  // Share of their time; more than 1 when all are through.
  double progress() const { return through() ? 2.0 : total > Seconds(0.0) ? done / total : 0.0; }
};

JoinedSide side_of(std::vector<PassOperator> operators, const JoinedPass& joined, Seconds pass,
                   Seconds exchange) {
  const double shown = exchange > Seconds(0.0) ? joined.exposed / exchange : 1.0;
  const double longer = pass > exchange ? 1.0 + joined.slowdown / (pass - exchange) : 1.0;
  JoinedSide side{.operators = std::move(operators)};
  for (PassOperator& op : side.operators) {
    op.time *= op.exchange ? shown : longer;
    side.total += op.time;
  }
  return side;
}

}  // namespace

std::vector<JoinedOperator> joined_operators(std::vector<PassOperator> forward,
                                             std::vector<PassOperator> backward,
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
    const PassOperator& op = side.operators[side.place++];
    side.done += op.time;
    list.push_back({.op = op, .backward = !first});
  }
  return list;
}

}  // namespace llmsim::sim
