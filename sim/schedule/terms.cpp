#include "sim/schedule/terms.h"

namespace llmsim::sim {
namespace {

constexpr std::array<const char*, kNumTerms> kNames{"forward_gemm",
                                                    "forward_attention",
                                                    "forward_memory_bound",
                                                    "backward_gemm",
                                                    "backward_attention",
                                                    "backward_memory_bound",
                                                    "recompute",
                                                    "head_and_loss",
                                                    "embedding",
                                                    "tensor_parallel_exposed",
                                                    "context_parallel_exposed",
                                                    "expert_parallel_exposed",
                                                    "weight_gather_exposed",
                                                    "gradient_reduce_exposed",
                                                    "contention",
                                                    "gradient_copies",
                                                    "launch_wait",
                                                    "offload_exposed",
                                                    "pipeline_bubble",
                                                    "remainder",
                                                    "straggler",
                                                    "optimizer",
                                                    "host"};

}  // namespace

const char* name_of(Term term) { return kNames[static_cast<std::size_t>(term)]; }

Seconds Terms::total() const {
  constexpr auto bubble = static_cast<std::size_t>(Term::PipelineBubble), remainder = static_cast<std::size_t>(Term::Remainder);
  static_assert(remainder == bubble + 1);
  Seconds sum;
  for (std::size_t i = 0; i < bubble; ++i) sum += times_[i];
  sum += times_[bubble] + times_[remainder];
  for (std::size_t i = remainder + 1; i < times_.size(); ++i) sum += times_[i];
  return sum;
}

Terms& Terms::operator+=(const Terms& other) {
  for (std::size_t i = 0; i < times_.size(); ++i) times_[i] += other.times_[i];
  return *this;
}

Terms operator*(double factor, Terms terms) {
  for (Seconds& time : terms.times_) time *= factor;
  return terms;
}

}  // namespace llmsim::sim
