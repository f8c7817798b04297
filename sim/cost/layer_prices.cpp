#include "sim/cost/layer_prices.h"

#include "sim/operators/block.h"
#include "sim/operators/ends.h"

namespace llmsim::sim {
namespace {

BlockPrice price_kind(const Transformer& model, const Run& run, const Stack& stack, const OperatorPricer& pricer,
                      RecomputeKind recompute) {
  const BlockOperators block = lower_block(model, run.strategy, stack, recompute);
  return {.forward = pricer.price(block.forward, false),
          .recompute = pricer.price(block.recompute, false),
          .backward = pricer.price(block.backward, true),
          .saved = block.saved,
          .restored = block.restored,
          .gradients = block.gradients};
}

// Of the layers with and without a window.
PassPrice mean(const PassPrice& windowed, const PassPrice& whole, double share) {
  PassPrice sum;
  sum.add(windowed, 1.0 - share);
  sum.add(whole, share);
  return sum;
}

BlockPrice price_block(const Run& run, const Stack& stack, const OperatorPricer& pricer, RecomputeKind recompute) {
  const double share = full_attention_share(run.model);
  BlockPrice block = price_kind(run.model, run, stack, pricer, recompute);
  if (share == 0.0 || !run.model.sliding_window) return block;
  Transformer model = run.model;
  model.sliding_window.reset();
  const BlockPrice whole = price_kind(model, run, stack, pricer, recompute);
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
          .working = end.working};
}

}  // namespace

LayerPrices layer_prices(const Run& run) {
  const OperatorPricer pricer(run);
  const Stack stack = effective_stack(run.stack, run.strategy);
  const RecomputeKind kind = run.strategy.recompute.kind;
  LayerPrices prices;
  prices.block = price_block(run, stack, pricer, kind);
  prices.kept_block = run.strategy.recompute.mixes() ? price_block(run, stack, pricer, RecomputeKind::None) : prices.block;
  prices.embedding = price_end(lower_embedding(run.model, run.strategy, stack), pricer);
  prices.head = price_end(lower_head(run.model, run.strategy, stack), pricer);
  return prices;
}

}  // namespace llmsim::sim
