#include "sim/cost/step_factors.h"

#include "sim/cost/host_sharing.h"

namespace llmsim::sim {
namespace {

StepFactors shared_factors(const Run& run) {
  const Achieved& achieved = run.cluster.device.achieved;
  return {.sustained_clock = achieved.sustained_clock,
          .training_rate = achieved.training_rate,
          .framework = run.framework.efficiency,
          .host_sharing = host_share(run.cluster).gemms};
}

}  // namespace

StepFactors gemm_step_factors(const Run& run, DType dtype) {
  StepFactors factors = shared_factors(run);
  factors.library = run.framework.gemm_efficiency;
  if (is_low_precision(dtype)) factors.low_precision = run.framework.low_precision.gemm_efficiency;
  return factors;
}

StepFactors attention_step_factors(const Run& run, bool backward) {
  StepFactors factors = shared_factors(run);
  if (backward) factors.determinism = run.framework.determinism.attention_backward;
  return factors;
}

}  // namespace llmsim::sim
