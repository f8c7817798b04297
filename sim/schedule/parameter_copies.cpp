#include "sim/schedule/parameter_copies.h"

#include <algorithm>

#include "sim/memory/shards.h"

namespace llmsim::sim {
namespace {

bool alone(const Strategy& strategy) { return strategy.dp * strategy.cp == 1; }

}  // namespace

double accumulation_bytes(const Run& run, const DataExchange& exchange) {
  if (run.framework.gradients.accumulated_by_gemm) return 0.0;
  // Without an update the sum is that of micro-batches before.
  const double share = run.optimizer_step ? 1.0 - 1.0 / run.strategy.num_microbatches() : 1.0;
  const double gradient = std::min(storage_of(run.strategy, run.framework).gradient_bytes, size_of(DType::Fp32).value());
  const bool on_shard = exchange.reduces_every_microbatch() && run.strategy.sharding > Sharding::Zero1;
  return 3.0 * gradient * share / (on_shard ? run.strategy.shard_ranks() : 1);
}

double reduction_copy_bytes(const Run& run, const DataExchange& exchange) {
  return alone(run.strategy) ? 0.0 : 2.0 * exchange.gradient_wire_bytes() * run.framework.gradients.copies;
}

double gather_copy_bytes(const Run& run, const DataExchange& exchange) {
  return alone(run.strategy) ? 0.0 : 2.0 * exchange.weight_wire_bytes() * run.framework.sharded.weight_copies;
}

}  // namespace llmsim::sim
