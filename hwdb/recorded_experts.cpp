#include "hwdb/recorded_experts.h"

#include <cstdint>
#include <string>

namespace llmsim::hwdb {
namespace {

std::optional<int> tensor_ranks(const sim::Strategy& s, Assumptions& assume) {
  const std::int64_t inside = std::int64_t{s.data_parallel} * s.context_parallel;
  if (s.tensor_parallel == 1 || inside % s.expert_parallel == 0 || inside * s.tensor_parallel % s.expert_parallel != 0)
    return std::nullopt;
  assume.note("training.etp", "1",
              "ep = " + std::to_string(s.expert_parallel) + " does not divide dp * cp = " + std::to_string(inside) +
                  ", but tp times as much");
  return 1;
}

}  // namespace

void set_expert_ranks(const RecordedTraining& training, sim::Strategy& strategy, Assumptions& assume) {
  std::optional<int>& ranks = strategy.experts.tensor_parallel;
  if (!training.strategy.contains("etp")) ranks = tensor_ranks(strategy, assume);
  if (ranks == strategy.tensor_parallel) ranks.reset();
}

}  // namespace llmsim::hwdb
