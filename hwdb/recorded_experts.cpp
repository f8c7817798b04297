#include "hwdb/recorded_experts.h"

#include <cstdint>
#include <string>

namespace llmsim::hwdb {
namespace {

std::optional<int> tensor_ranks(const sim::Strategy& s, Assumptions& assume) {
  const std::int64_t inside = std::int64_t{s.dp} * s.cp;
  if (s.tp == 1 || inside % s.ep == 0 || inside * s.tp % s.ep != 0) return std::nullopt;
  assume.note("training.etp", "1",
              "ep = " + std::to_string(s.ep) + " does not divide dp * cp = " + std::to_string(inside) + ", but tp times as much");
  return 1;
}

}  // namespace

void set_expert_ranks(const RecordedTraining& training, sim::Strategy& strategy, Assumptions& assume) {
  std::optional<int>& ranks = strategy.etp;
  if (!training.strategy.contains("etp")) ranks = tensor_ranks(strategy, assume);
  if (ranks == strategy.tp) ranks.reset();
}

}  // namespace llmsim::hwdb
