#include "hwdb/recorded_experts.h"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "hwdb/detail_words.h"

namespace llmsim::hwdb {
namespace {

std::optional<int> tensor_ranks(const RecordedTraining& t, const std::string& detail, const sim::Strategy& s,
                                Assumptions& assume) {
  if (t.etp) return t.etp;
  if (const std::optional<std::string> word = word_after(detail, "etp")) {
    const int ranks = std::atoi(word->c_str());
    if (ranks >= 1) return ranks;
  }
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
  const std::string detail = training.framework_detail.value_or("");
  sim::ExpertStrategy experts;
  experts.tensor_parallel = tensor_ranks(training, detail, strategy, assume);
  if (experts.tensor_parallel == strategy.tensor_parallel) experts.tensor_parallel.reset();
  const std::optional<std::string> dispatch =
      training.moe_dispatch ? training.moe_dispatch : word_after(detail, "moe_dispatcher");
  if (dispatch) experts.dispatch = sim::expert_dispatch_named(*dispatch).value_or(experts.dispatch);
  experts.overlap = training.moe_overlap.value_or(word_after(detail, "moe_a2a_overlap") == "true");
  experts.imbalance = training.moe_imbalance.value_or(1.0);
  experts.capacity = training.moe_capacity;
  experts.captured = training.moe_captured.value_or(detail.find("cuda graph transformer_engine") == std::string::npos);
  return experts;
}

}  // namespace llmsim::hwdb
