#include "sim/cost/layer_prices.h"

#include "sim/cost/recipe_support.h"
#include "sim/operators/block.h"
#include "sim/operators/ends.h"

namespace llmsim::sim {
namespace {

// Of each weight gradient the input and the gradient of the output of its layer, in the format of the product.
Bytes weight_gradient_factors(const OperatorList& backward) {
  Bytes sum;
  for (const Operator& op : backward) {
    if (!op.weight_gradient) continue;
    const double elements = static_cast<double>(op.batch) * static_cast<double>(op.k) * static_cast<double>(op.m + op.n);
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
  const auto bytes = [share](Bytes of_first, Bytes of_second) { return (1.0 - share) * of_first + share * of_second; };
  return {.forward = mean(first.forward, second.forward, share),
          .recompute = mean(first.recompute, second.recompute, share),
          .backward = mean(first.backward, second.backward, share),
          .saved = bytes(first.saved, second.saved),
          .restored = bytes(first.restored, second.restored),
          .offloaded = bytes(first.offloaded, second.offloaded),
          .gradients = bytes(first.gradients, second.gradients),
          .weight_inputs = bytes(first.weight_inputs, second.weight_inputs)};
}

BlockPrice price_kind(const Transformer& model, const Strategy& strategy, const Stack& stack, const OperatorPricer& pricer,
                      RecomputeKind recompute, LayerKind kind) {
  const BlockOperators block = lower_block(model, strategy, stack, recompute, kind);
  BlockPrice price{.forward = pricer.price(block.forward, false),
                   .recompute = pricer.price(block.recompute, false),
                   .backward = pricer.price(block.backward, true),
                   .saved = block.saved,
                   .restored = block.restored,
                   .offloaded = block.offloaded,
                   .gradients = block.gradients,
                   .weight_inputs = weight_gradient_factors(block.backward)};
  pricer.overlap_exchanges(price.forward, price.backward);
  return price;
}

// Narrow recipes may leave the first and the last blocks in 16 bits.
BlockPrice price_recipe(const Transformer& model, const Run& run, const Stack& stack, const OperatorPricer& pricer,
                        RecomputeKind recompute, LayerKind kind) {
  const BlockPrice narrow = price_kind(model, run.strategy, stack, pricer, recompute, kind);
  const double share = wide_share(stack.narrow, model.num_layers);
  if (share == 0.0 || !is_narrow(matmul_dtype(run.strategy.precision))) return narrow;
  Strategy strategy = run.strategy;
  strategy.precision = Precision::Bf16;
  return mean(narrow, price_kind(model, strategy, stack, pricer, recompute, kind), share);
}

BlockPrice price_block(const Run& run, const Stack& stack, const OperatorPricer& pricer, RecomputeKind recompute,
                       LayerKind kind) {
  const double share = full_attention_share(run.model);
  BlockPrice block = price_recipe(run.model, run, stack, pricer, recompute, kind);
  if (share == 0.0 || !run.model.sliding_window) return block;
  Transformer model = run.model;
  model.sliding_window.reset();
  const BlockPrice whole = price_recipe(model, run, stack, pricer, recompute, kind);
  block.forward = mean(block.forward, whole.forward, share);
  block.recompute = mean(block.recompute, whole.recompute, share);
  block.backward = mean(block.backward, whole.backward, share);
  return block;
}

EndPrice price_end(const EndOperators& end, const OperatorPricer& pricer) {
  return {.forward = pricer.price(end.forward, false),
          .recompute = pricer.price(end.recompute, false),
          .backward = pricer.price(end.backward, true),
          .saved = end.saved,
          .working = end.working,
          .weight_inputs = weight_gradient_factors(end.backward)};
}

}  // namespace

BlockPrice mean_block(const BlockPrice& dense, const BlockPrice& mixture, const ModelPart& part) {
  if (part.moe_blocks == 0) return dense;
  if (part.dense_blocks() == 0) return mixture;
  const double share = static_cast<double>(part.moe_blocks) / part.blocks;
  return mean(dense, mixture, share);
}

LayerPrices layer_prices(const Run& run) {
  require_recipe(run.cluster.device, run.stack.narrow, run.strategy.precision);
  const OperatorPricer pricer(run);
  const Stack stack = effective_stack(run.stack, run.strategy);
  const RecomputeKind kind = run.strategy.recompute.kind;
  LayerPrices prices;
  const auto price = [&](BlockPrice& block, BlockPrice& kept, LayerKind layers) {
    block = price_block(run, stack, pricer, kind, layers);
    kept = run.strategy.recompute.mixes() ? price_block(run, stack, pricer, RecomputeKind::None, layers) : block;
  };
  const int layers = run.model.num_layers + run.model.mtp_layers, mixtures = count_moe_layers(run.model, 0, layers);
  if (mixtures < layers) price(prices.block, prices.kept_block, LayerKind::Dense);
  if (mixtures > 0) price(prices.moe_block, prices.kept_moe_block, LayerKind::Mixture);
  prices.embedding = price_end(lower_embedding(run.model, run.strategy, stack), pricer);
  prices.head = price_end(lower_head(run.model, run.strategy, stack), pricer);
  return prices;
}

}  // namespace llmsim::sim
