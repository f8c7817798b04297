#include "tests/runtime/simulated_run.h"

#include <algorithm>

namespace llmsim::runtime {
namespace {

constexpr sim::ParameterStorage kMixed{.weight_bytes = 2, .gradient_bytes = 2, .master_bytes = 4};
constexpr sim::ParameterStorage kAutocast{
    .weight_bytes = 4, .gradient_bytes = 4, .master_bytes = 0};

// In elements, as buckets are cut.
double bucket_of(const TrainingSetup& setup, const sim::ParameterStorage& storage) {
  if (setup.exchange.bucket == 0) return 0.0;
  const bool wide = setup.strategy.precision == sim::Precision::Fp32;
  const auto element =
      static_cast<std::int64_t>(wide ? kAutocast.gradient_bytes : storage.gradient_bytes);
  return static_cast<double>(std::max<std::int64_t>(1, setup.exchange.bucket / element));
}

}  // namespace

sim::Run simulated_run(const TrainingSetup& setup) {
  sim::Run run;
  run.model = setup.model;
  run.strategy = setup.strategy;
  sim::Framework& framework = run.framework;
  framework.id = setup.autocast ? "libtorch-autocast" : "libtorch";
  framework.storage = setup.autocast ? kAutocast : kMixed;
  framework.casts_weights_per_microbatch = framework.casts_weights_in_backward = setup.autocast;
  framework.separate_position_kernel = true;
  framework.loss.scales_gradients = false;
  framework.gradients.reduced_in_fp32 = setup.autocast;
  framework.gradients.accumulated_by_gemm = !setup.autocast;
  framework.autograd = false;
  framework.attention_kernel = sim::AttentionKernel::Blockwise;
  framework.reserve.matmul_workspace = sim::Bytes(0.0);  // tensors are counted
  framework.recompute_stops_early = true;
  framework.gradients.persist = true;
  framework.gradients.bucket = bucket_of(setup, framework.storage);
  if (setup.exchange.every_micro_batch) framework.gradients.reduced_every_microbatch = true;
  framework.sharded.flat_units = true;
  framework.sharded.root_stays_gathered = false;
  framework.sharded.regathers_in_backward = setup.exchange.regathers_in_backward;
  framework.sharded.prefetch_units = setup.exchange.prefetch_units;
  framework.sharded.gathered_blocks = 1.0 + setup.exchange.prefetch_units;
  framework.sharded.gradient_blocks = 2.0;
  framework.update.fused = setup.optimizer.form == AdamWForm::Fused;
  framework.update.unit_by_unit = setup.optimizer.form == AdamWForm::Loop;
  framework.update.sums_norm = true;
  return run;
}

}  // namespace llmsim::runtime
