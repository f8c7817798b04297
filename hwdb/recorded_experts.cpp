#include "hwdb/recorded_experts.h"

#include <cstdint>
#include <string>

namespace llmsim::hwdb {
namespace {

std::optional<int> tensor_ranks(const RecordedTraining& t, const sim::Strategy& s, Assumptions& assume) {
  if (t.etp) return t.etp;
  const std::int64_t inside = std::int64_t{s.data_parallel} * s.context_parallel;
  if (s.tensor_parallel == 1 || inside % s.expert_parallel == 0 || inside * s.tensor_parallel % s.expert_parallel != 0)
    return std::nullopt;
  assume.note("training.etp", "1",
              "ep = " + std::to_string(s.expert_parallel) + " does not divide dp * cp = " + std::to_string(inside) +
                  ", but tp times as much");
  return 1;
}

}  // namespace

sim::ExpertStrategy recorded_experts(const RecordedTraining& training, const sim::Strategy& strategy, Assumptions& assume) {
  sim::ExpertStrategy experts;
  experts.tensor_parallel = tensor_ranks(training, strategy, assume);
  if (experts.tensor_parallel == strategy.tensor_parallel) experts.tensor_parallel.reset();
  if (training.moe_dispatch) experts.dispatch = sim::expert_dispatch_named(*training.moe_dispatch).value_or(experts.dispatch);
  experts.overlap = training.moe_overlap.value_or(false);
  experts.imbalance = training.moe_imbalance.value_or(1.0);
  experts.capacity = training.moe_capacity;
  experts.captured = training.moe_captured.value_or(true);
  return experts;
}

}  // namespace llmsim::hwdb
