#include "sim/cost/layer_prices.h"

#include <string>

#include "sim/base/error.h"
#include "sim/operators/block.h"
#include "sim/operators/embedding_and_head.h"
#include "sim/operators/recomputation.h"
#include "sim/operators/tower.h"

namespace llmsim::sim {
namespace {

// Of each weight gradient the input and the gradient of the output of its layer, in the format of
// the GEMM.
Bytes weight_gradient_factors(const OperatorList& backward) {
  Bytes sum;
  for (const Operator& op : backward) {
    if (!op.weight_gradient) continue;
    const double elements = real(op.batch) * real(op.k) * real(op.m + op.n);
    sum += elements * size_of(op.dtype);
  }
  return sum;
}

// Of two kinds of layer, `share` of the second.
PassPrice mean(const PassPrice& first, const PassPrice& second, double share) {
  PassPrice sum;
  sum.add(first, 1.0 - share);
  sum.add(second, share);
  return sum;
}

BlockPrice mean(const BlockPrice& first, const BlockPrice& second, double share) {
  const auto bytes = [share](Bytes of_first, Bytes of_second) {
    return (1.0 - share) * of_first + share * of_second;
  };
  return {.forward = mean(first.forward, second.forward, share),
          .recompute = mean(first.recompute, second.recompute, share),
          .backward = mean(first.backward, second.backward, share),
          .saved = bytes(first.saved, second.saved),
          .offloaded = bytes(first.offloaded, second.offloaded),
          .weight_inputs = bytes(first.weight_inputs, second.weight_inputs),
          .memory = first.memory};
}

// `lists`: tensor by tensor too.
LayerMemory memory_of(const LayerGraph& layer, const Recomputation& plan, bool lists) {
  LayerMemory memory{.forward = forward_bytes(layer, plan),
                     .backward = backward_bytes(layer, plan),
                     .everything = saved_bytes(layer)};
  if (lists) memory.tensors = std::make_shared<const LayerTensors>(layer_tensors(layer, plan));
  return memory;
}

// Prices forward and backward passes, unless they are known, and what is recomputed; without a
// pricer bytes alone, or times alone.
struct PassPricer {
  const OperatorPricer* pricer = nullptr;
  bool knows_passes = false;
  bool counts_bytes = true;
  bool lists_tensors = false;
  bool lists_operators = false;
};

std::shared_ptr<PricedOperators> priced_operators(const LayerGraph& layer,
                                                  const OperatorPricer& pricer) {
  PricedOperators all{.forward = pricer.each_price(layer.forward, false),
                      .recompute = pricer.each_price(layer.recompute, false),
                      .backward = pricer.each_price(layer.backward, true)};
  for (PricedOperator& op : all.recompute) op.recomputed = true;
  return std::make_shared<PricedOperators>(std::move(all));
}

// All-to-alls that passes of other micro-batches hide show in as much less of their time.
void hide_all_to_alls(std::vector<PricedOperator>& list, Seconds before, Seconds after) {
  for (PricedOperator& op : list) {
    if (op.is_all_to_all() && before > Seconds(0.0)) op.time *= after / before;
  }
}

// Of two kinds of layer with the same operators, `share` of the second.
void mix(std::vector<PricedOperator>& list, const std::vector<PricedOperator>& other,
         double share) {
  for (std::size_t i = 0; i < list.size() && list.size() == other.size(); ++i) {
    list[i].time = (1.0 - share) * list[i].time + share * other[i].time;
    list[i].message_time = (1.0 - share) * list[i].message_time + share * other[i].message_time;
  }
}

// The passes of a layer, without bytes.
BlockPrice price_passes(const LayerGraph& layer, const PassPricer& passes) {
  BlockPrice price;
  price.weight_inputs = weight_gradient_factors(layer.backward);
  const OperatorPricer* pricer = passes.pricer;
  if (!pricer) return price;
  price.recompute = pricer->price(layer.recompute, false);
  if (passes.knows_passes) return price;
  price.forward = pricer->price(layer.forward, false);
  price.backward = pricer->price(layer.backward, true);
  const Seconds there = price.forward.expert, back = price.backward.expert;
  pricer->overlap_all_to_alls(price.forward, price.backward);
  if (!passes.lists_operators) return price;
  price.operators = priced_operators(layer, *pricer);
  hide_all_to_alls(price.operators->forward, there, price.forward.expert);
  hide_all_to_alls(price.operators->backward, back, price.backward.expert);
  return price;
}

BlockPrice price_kind(const Transformer& model, const Strategy& strategy,
                      const Framework& framework, const PassPricer& passes, RecomputeKind recompute,
                      LayerKind kind) {
  const LayerGraph block = lower_block(model, strategy, framework, recompute, kind);
  BlockPrice price = price_passes(block, passes);
  if (!passes.counts_bytes) return price;
  Recompute chosen = strategy.recompute;
  chosen.kind = recompute;
  const Recomputation plan = recomputation_of(block, chosen, model, framework, kind);
  price.saved = saved_bytes(block, plan);
  price.offloaded = offloaded_inputs(block, plan, strategy.offload.modules);
  price.memory = memory_of(block, plan, passes.lists_tensors);
  return price;
}

// `known`: none, or of the block with another way to recompute, whose passes are the same.
BlockPrice price_block(const Run& run, const Strategy& strategy, const Framework& framework,
                       PassPricer passes, const BlockPrice* known, RecomputeKind recompute,
                       LayerKind kind) {
  passes.knows_passes = known != nullptr;
  const double share = full_attention_share(run.model);
  BlockPrice block = price_kind(run.model, strategy, framework, passes, recompute, kind);
  if (known) block.forward = known->forward, block.backward = known->backward;
  if (share == 0.0 || !run.model.sliding_window) return block;
  Transformer model = run.model;
  model.sliding_window.reset();
  const BlockPrice whole = price_kind(model, strategy, framework, passes, recompute, kind);
  block.recompute = mean(block.recompute, whole.recompute, share);
  if (known) return block;
  block.forward = mean(block.forward, whole.forward, share);
  block.backward = mean(block.backward, whole.backward, share);
  if (block.operators) {
    mix(block.operators->forward, whole.operators->forward, share);
    mix(block.operators->recompute, whole.operators->recompute, share);
    mix(block.operators->backward, whole.operators->backward, share);
  }
  return block;
}

// What prices of a run are known by: those of runs that differ in what they recompute alone, and of
// one that differs in its experts.
struct KnownPrices {
  std::span<const PricedWay> ways{};
  const LayerPrices* without_experts = nullptr;
};

// Those of a run, or of its blocks that multiply in 16 bits.
const BlockPrices& blocks_of(const LayerPrices& prices, bool in_16_bits) {
  return in_16_bits ? *prices.high_precision : prices;
}

// A known block that is recomputed in the same way; null: there is none.  Where whole blocks are
// recomputed, the others are as without recomputation.
const BlockPrice* same_block(std::span<const PricedWay> known, const Recompute& own,
                             RecomputeKind recompute, bool in_16_bits, std::size_t slot) {
  const bool kept = recompute == RecomputeKind::None;
  const Recompute way = kept && own.whole() ? Recompute{} : own.of_block();
  if (kept && way.kind != RecomputeKind::None) return nullptr;
  for (const auto& [other, prices] : known) {
    const BlockPrices& blocks = blocks_of(*prices, in_16_bits);
    if (other.of_block() == way) return &blocks.blocks[slot];
    if (kept && other.whole() && other.mixes()) return &blocks.whole_blocks[slot];
  }
  return nullptr;
}

// Of all kinds that the model has; `in_16_bits`: of blocks that a low-precision recipe leaves so.
void price_blocks(BlockPrices& prices, const Run& run, const Framework& framework,
                  const PassPricer& pricer, const KnownPrices& known, bool in_16_bits) {
  const LayerKinds kinds = layer_kinds(run.model);
  Strategy strategy = run.strategy;
  if (in_16_bits) strategy.precision = Precision::Bf16;
  for (std::size_t slot = 0; slot < kinds.size(); ++slot) {
    if (known.without_experts && !kinds[slot].has_experts()) {
      const BlockPrices& same = blocks_of(*known.without_experts, in_16_bits);
      prices.blocks.push_back(same.blocks[slot]);
      prices.whole_blocks.push_back(same.whole_blocks[slot]);
      continue;
    }
    const auto priced = [&](RecomputeKind recompute) {
      if (const BlockPrice* same =
              same_block(known.ways, strategy.recompute, recompute, in_16_bits, slot))
        return *same;
      const BlockPrice* passes =
          known.ways.empty() ? nullptr
                             : &blocks_of(*known.ways.front().prices, in_16_bits).blocks[slot];
      return price_block(run, strategy, framework, pricer, passes, recompute, kinds[slot]);
    };
    prices.blocks.push_back(priced(strategy.recompute.kind));
    prices.whole_blocks.push_back(strategy.recompute.mixes() ? priced(RecomputeKind::None)
                                                             : prices.blocks.back());
  }
}

// Kind after kind, each with its share of those that have come so far.
template <class Price>
BlockPrice mean_of_kinds(const ModelChunk& chunk, const Price& price) {
  const std::size_t first = chunk.first_kind();
  BlockPrice all = price(first);
  int seen = chunk.of_kind[first];
  for (std::size_t slot = first + 1; slot < kMostLayerKinds; ++slot) {
    const int blocks = chunk.of_kind[slot];
    if (blocks == 0) continue;
    seen += blocks;
    all = mean(all, price(slot), real(blocks) / seen);
  }
  return all;
}

}  // namespace

const BlockPrice* only_block(const LayerPrices& prices, const ModelChunk& chunk) {
  const bool alike = !prices.high_precision && chunk.blocks > 0 && chunk.has_one_kind();
  return alike ? &prices.blocks[chunk.first_kind()] : nullptr;
}

BlockPrice mean_block(const Run& run, const LayerPrices& prices, const ModelChunk& chunk) {
  if (!prices.high_precision)
    return mean_of_kinds(
        chunk, [&](std::size_t slot) -> const BlockPrice& { return prices.blocks[slot]; });
  const LayerCounts in_16_bits =
      high_precision_blocks(run.framework.low_precision, run.strategy.precision, run.model, chunk);
  return mean_of_kinds(chunk, [&](std::size_t slot) {
    return in_16_bits[slot] == 0 ? prices.blocks[slot]
                                 : mean(prices.blocks[slot], prices.high_precision->blocks[slot],
                                        real(in_16_bits[slot]) / chunk.of_kind[slot]);
  });
}

namespace {

// The embedding or the head; `known`: of a run that recomputes in another way, whose passes are the
// same.
BlockPrice price_end(const LayerGraph& end, const PassPricer& passes, const BlockPrice* known) {
  BlockPrice price = known ? *known : price_passes(end, passes);
  price.memory = passes.counts_bytes ? memory_of(end, no_recomputation(end), passes.lists_tensors)
                                     : LayerMemory{};
  return price;
}

// A tower runs again under full recomputation.
const BlockPrice* same_embedding(const Run& run, std::span<const PricedWay> known) {
  const auto is_full = [](const Recompute& way) { return way.kind == RecomputeKind::Full; };
  for (const auto& [other, prices] : known)
    if (!has_running_tower(run.model) || is_full(other) == is_full(run.strategy.recompute))
      return &prices->embedding;
  return nullptr;
}

// With the layers of its towers, of which equal ones are priced once unless each is listed.
BlockPrice price_embedding(const Run& run, const Framework& framework, const PassPricer& passes,
                           std::span<const PricedWay> known) {
  const BlockPrice* const same = same_embedding(run, known);
  BlockPrice price = price_end(
      lower_embedding(run.model, run.strategy, framework, passes.lists_operators), passes, same);
  if (same || passes.lists_operators || !has_running_tower(run.model)) return price;
  for (const TowerLayers& layers : lower_tower_layers(run.model, run.strategy, framework)) {
    price.weight_inputs += layers.count * weight_gradient_factors(layers.operators.backward);
    if (!passes.pricer) continue;
    price.forward.add(passes.pricer->price(layers.operators.forward, false), layers.count);
    price.backward.add(passes.pricer->price(layers.operators.backward, true), layers.count);
  }
  return price;
}

LayerPrices layers_of(const Run& run, const PassPricer& pricer, const KnownPrices& known = {}) {
  const Framework framework = effective_framework(run.framework, run.strategy);
  LayerPrices prices;
  price_blocks(prices, run, framework, pricer, known, false);
  if (keeps_blocks_in_high_precision(run.framework.low_precision, run.strategy.precision))
    price_blocks(prices.high_precision.emplace(), run, framework, pricer, known, true);
  if (known.without_experts) {
    prices.embedding = known.without_experts->embedding, prices.head = known.without_experts->head;
    return prices;
  }
  prices.embedding = price_embedding(run, framework, pricer, known.ways);
  const LayerPrices* same = known.ways.empty() ? nullptr : known.ways.front().prices;
  prices.head = price_end(lower_head(run.model, run.strategy, framework), pricer,
                          same ? &same->head : nullptr);
  return prices;
}

}  // namespace

LayerPrices layer_prices(const Run& run) { return layer_prices(run, {}); }

LayerPrices layer_prices(const Run& run, std::span<const PricedWay> known,
                         const LayerPrices* without_experts) {
  if (known.empty())
    require_recipe(run.cluster.device, run.framework.low_precision, run.strategy.precision);
  const OperatorPricer pricer(run);
  return layers_of(run, {.pricer = &pricer}, {known, without_experts});
}

LayerPrices layer_times(const Run& run, const LayerPrices* without_experts) {
  const OperatorPricer pricer(run);
  return layers_of(run, {.pricer = &pricer, .counts_bytes = false}, {{}, without_experts});
}

LayerPrices layer_bytes(const Run& run) { return layers_of(run, {}); }

LayerPrices layers_with_tensors(const Run& run) { return layers_of(run, {.lists_tensors = true}); }

LayerPrices layers_with_operators(const Run& run) {
  const OperatorPricer pricer(run);
  return layers_of(run, {.pricer = &pricer, .counts_bytes = false, .lists_operators = true});
}

void require_recipe(const Device& device, const LowPrecisionRecipe& recipe, Precision precision) {
  if (!is_low_precision(matmul_dtype(precision)) || device.block_scales) return;
  const LowPrecisionScaling scaling = scaling_of(recipe, precision);
  if (scaling != LowPrecisionScaling::Mxfp8 && scaling != LowPrecisionScaling::Nvfp4) return;
  throw Error(
      "precision = " + std::string(scaling == LowPrecisionScaling::Mxfp8 ? "mxfp8" : "nvfp4") +
      ": " + device.id + " multiplies no factors with a scale for each 16 or 32 elements, only " +
      supported_formats(device) + " (fp8 with delayed, current, rowwise or blockwise scaling)");
}

}  // namespace llmsim::sim
