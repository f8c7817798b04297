#include "sim/cost/layer_prices.h"

#include <string>

#include "sim/base/error.h"
#include "sim/operators/block.h"
#include "sim/operators/embedding_and_head.h"
#include "sim/operators/recomputation.h"

namespace llmsim::sim {
namespace {

// Of each weight gradient the input and the gradient of the output of its layer, in the format of
// the GEMM.
Bytes weight_gradient_factors(const OperatorList& backward) {
  Bytes sum;
  for (const Operator& op : backward) {
    if (!op.weight_gradient) continue;
    const double elements = static_cast<double>(op.batch) * static_cast<double>(op.k) *
                            static_cast<double>(op.m + op.n);
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
};

// What a block allocates and saves.
BlockPrice block_bytes(const LayerGraph& block, const Transformer& model, const Strategy& strategy,
                       const Framework& framework, RecomputeKind recompute, LayerKind kind,
                       bool lists) {
  Recompute chosen = strategy.recompute;
  chosen.kind = recompute;
  const Recomputation plan = recomputation_of(block, chosen, model, framework, kind);
  return {.forward = {},
          .recompute = {},
          .backward = {},
          .saved = saved_bytes(block, plan),
          .offloaded = offloaded_inputs(block, plan, strategy.offload.modules),
          .weight_inputs = {},
          .memory = memory_of(block, plan, lists)};
}

BlockPrice price_kind(const Transformer& model, const Strategy& strategy,
                      const Framework& framework, const PassPricer& passes, RecomputeKind recompute,
                      LayerKind kind) {
  const LayerGraph block = lower_block(model, strategy, framework, recompute, kind);
  BlockPrice price;
  if (passes.counts_bytes)
    price = block_bytes(block, model, strategy, framework, recompute, kind, passes.lists_tensors);
  price.weight_inputs = weight_gradient_factors(block.backward);
  const OperatorPricer* pricer = passes.pricer;
  if (!pricer) return price;
  price.recompute = pricer->price(block.recompute, false);
  if (passes.knows_passes) return price;
  price.forward = pricer->price(block.forward, false);
  price.backward = pricer->price(block.backward, true);
  pricer->overlap_all_to_alls(price.forward, price.backward);
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
  return block;
}

// The embedding or the head.
EmbeddingOrHeadPrice price_end(const LayerGraph& end, const PassPricer& passes) {
  EmbeddingOrHeadPrice price{
      .forward = {},
      .recompute = {},
      .backward = {},
      .weight_inputs = weight_gradient_factors(end.backward),
      .memory = passes.counts_bytes ? memory_of(end, no_recomputation(end), passes.lists_tensors)
                                    : LayerMemory{}};
  const OperatorPricer* pricer = passes.pricer;
  if (!pricer || passes.knows_passes) return price;
  price.forward = pricer->price(end.forward, false);
  price.recompute = pricer->price(end.recompute, false);
  price.backward = pricer->price(end.backward, true);
  return price;
}

// Blocks of runs that differ in what they recompute alone.
struct KnownBlocks {
  Recompute recompute;
  const BlockPrices* blocks = nullptr;
};

// A block among them that is recomputed in the same way; null: there is none.  Where whole blocks
// are recomputed, the others are as without recomputation.
const BlockPrice* same_block(std::span<const KnownBlocks> known, const Recompute& own,
                             RecomputeKind recompute, std::size_t slot) {
  const bool kept = recompute == RecomputeKind::None;
  const Recompute way = kept && own.whole() ? Recompute{} : own.of_block();
  if (kept && way.kind != RecomputeKind::None) return nullptr;
  for (const auto& [other, blocks] : known) {
    if (other.of_block() == way) return &blocks->blocks[slot];
    if (kept && other.whole() && other.mixes()) return &blocks->whole_blocks[slot];
  }
  return nullptr;
}

// What blocks of a run are known by: those of runs that differ in what they recompute, and of one
// that differs in its experts.
struct KnownPrices {
  std::vector<KnownBlocks> ways{};
  const BlockPrices* without_experts = nullptr;
};

// Of all kinds that the model has.
void price_blocks(BlockPrices& prices, const Run& run, const Strategy& strategy,
                  const Framework& framework, const PassPricer& pricer,
                  const KnownPrices& known_prices) {
  const LayerKinds kinds = layer_kinds(run.model);
  const std::span<const KnownBlocks> known = known_prices.ways;
  for (std::size_t slot = 0; slot < kinds.size(); ++slot) {
    if (known_prices.without_experts && !kinds[slot].has_experts()) {
      prices.blocks.push_back(known_prices.without_experts->blocks[slot]);
      prices.whole_blocks.push_back(known_prices.without_experts->whole_blocks[slot]);
      continue;
    }
    const auto priced = [&](RecomputeKind recompute) {
      if (const BlockPrice* same = same_block(known, strategy.recompute, recompute, slot))
        return *same;
      const BlockPrice* passes = known.empty() ? nullptr : &known.front().blocks->blocks[slot];
      return price_block(run, strategy, framework, pricer, passes, recompute, kinds[slot]);
    };
    prices.blocks.push_back(priced(strategy.recompute.kind));
    prices.whole_blocks.push_back(strategy.recompute.mixes() ? priced(RecomputeKind::None)
                                                             : prices.blocks.back());
  }
}

// Of `blocks` blocks of a kind, `in_16_bits` of which multiply in 16 bits.
BlockPrice mean_of_widths(const LayerPrices& prices, std::size_t slot, int in_16_bits, int blocks) {
  return in_16_bits == 0 ? prices.blocks[slot]
                         : mean(prices.blocks[slot], prices.high_precision->blocks[slot],
                                static_cast<double>(in_16_bits) / blocks);
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
    all = mean(all, price(slot), static_cast<double>(blocks) / seen);
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
    return mean_of_widths(prices, slot, in_16_bits[slot], chunk.of_kind[slot]);
  });
}

namespace {

// `known`: of a run that recomputes in another way, whose passes are the same.
EmbeddingOrHeadPrice price_end(const LayerGraph& end, PassPricer passes,
                               const EmbeddingOrHeadPrice* known) {
  passes.knows_passes = known != nullptr;
  const EmbeddingOrHeadPrice price = price_end(end, passes);
  if (!known) return price;
  EmbeddingOrHeadPrice same = *known;
  same.memory = price.memory;
  return same;
}

// Of blocks, also of those that multiply in 16 bits.
void price_all_blocks(LayerPrices& prices, const Run& run, const Framework& framework,
                      PassPricer pricer, std::span<const PricedWay> known,
                      const LayerPrices* shared) {
  KnownPrices blocks{.without_experts = shared};
  for (const PricedWay& way : known) blocks.ways.push_back({way.recompute, way.prices});
  price_blocks(prices, run, run.strategy, framework, pricer, blocks);
  if (!keeps_blocks_in_high_precision(run.framework.low_precision, run.strategy.precision)) return;
  Strategy in_16_bits = run.strategy;
  in_16_bits.precision = Precision::Bf16;
  for (std::size_t i = 0; i < known.size(); ++i)
    blocks.ways[i].blocks = &*known[i].prices->high_precision;
  if (shared) blocks.without_experts = &*shared->high_precision;
  price_blocks(prices.high_precision.emplace(), run, in_16_bits, framework, pricer, blocks);
}

// `known`: of other ways to recompute.
LayerPrices layers_of(const Run& run, const PassPricer& pricer, std::span<const PricedWay> known,
                      const LayerPrices* without_experts) {
  const Framework framework = effective_framework(run.framework, run.strategy);
  LayerPrices prices;
  price_all_blocks(prices, run, framework, pricer, known, without_experts);
  if (without_experts) {
    prices.embedding = without_experts->embedding, prices.head = without_experts->head;
    return prices;
  }
  const LayerPrices* same = known.empty() ? nullptr : known.front().prices;
  prices.embedding = price_end(lower_embedding(run.model, run.strategy, framework), pricer,
                               same ? &same->embedding : nullptr);
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
  return layers_of(run, {.pricer = &pricer}, known, without_experts);
}

LayerPrices layer_times(const Run& run, const LayerPrices* without_experts) {
  const OperatorPricer pricer(run);
  return layers_of(run, {.pricer = &pricer, .counts_bytes = false}, {}, without_experts);
}

LayerPrices layer_bytes(const Run& run) { return layers_of(run, {}, {}, nullptr); }

LayerPrices layers_with_tensors(const Run& run) {
  return layers_of(run, {.lists_tensors = true}, {}, nullptr);
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
