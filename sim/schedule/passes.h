// The forward and backward pass of one model chunk for one micro-batch, term by term.
//
// A pass takes the device time of its operators; what it waits for the host where that
// takes longer (launch.h); what the collectives of weights and gradients take beyond the
// compute that they overlap with (overlap.h); and what copies over the host link take
// beyond it under offload (offload.h).
//
// How these add up is ours; each of them names its source, as do data_parallel_collectives.h
// and cost/contention.h.
#pragma once

#include <array>

#include "sim/base/quantity.h"
#include "sim/cost/contention.h"
#include "sim/cost/layer_prices.h"
#include "sim/run.h"
#include "sim/schedule/data_parallel_collectives.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

// The components of a stage's time.  Every second of a step belongs to exactly one of them.
enum class Term {
  ForwardGemm,
  ForwardAttention,
  ForwardMemoryBound,
  BackwardGemm,
  BackwardAttention,
  BackwardMemoryBound,
  Recompute,
  HeadAndLoss,
  Embedding,
  TensorExposed,    // tensor-parallel collectives that no GEMM hides
  ContextExposed,   // keys and values of other context ranks that attention does not hide
  ExpertExposed,    // tokens on the way to and from experts of other ranks
  TransferExposed,  // activations between stages, where compute waits for them
  GatherExposed,    // weights of sharded models that arrive after they are needed
  ReduceExposed,    // gradients still on the way when compute has ended
  Contention,       // compute slowed down by collectives that it overlaps with
  // Gradient accumulation, copies of gradients into and out of buckets, and of weights out of
  // gathered buffers.
  GradientCopies,
  LaunchWait,      // the device waits for the host to launch kernels
  OffloadExposed,  // host link
  PipelineBubble,  // the stage is idle in the simulated pipeline
  Remainder,  // time of the pipeline that no other term has; zero but for rounding, as a test holds
  Straggler,  // a synchronous step waits for the slowest device
  Optimizer,
  Host  // work of the host between steps
};

inline constexpr int kNumTerms = static_cast<int>(Term::Host) + 1;

// "forward_gemm", "pipeline_bubble", "remainder", ...: stable keys of the breakdown.
const char* name_of(Term term);

// Recomputed blocks and the head count as what most of them is, GEMMs.
constexpr bool counts_as_arithmetic(Term term) {
  return term == Term::ForwardGemm || term == Term::ForwardAttention ||
         term == Term::BackwardGemm || term == Term::BackwardAttention || term == Term::Recompute ||
         term == Term::HeadAndLoss;
}
constexpr bool counts_as_memory_bound(Term term) {
  return term == Term::ForwardMemoryBound || term == Term::BackwardMemoryBound ||
         term == Term::Embedding || term == Term::GradientCopies;
}
// Device time that its clock can stretch; so do the bubble and the remainder, which scale with it.
constexpr bool counts_as_computed(Term term) {
  return counts_as_arithmetic(term) || (counts_as_memory_bound(term) && term != Term::Embedding);
}

// One duration per term.
class Terms {
 public:
  Seconds& operator[](Term term) { return times_[static_cast<std::size_t>(term)]; }
  Seconds operator[](Term term) const { return times_[static_cast<std::size_t>(term)]; }
  void add(Term term, Seconds time) { (*this)[term] += time; }

  // Bubble and remainder are added to each other first: their sum is exactly the time that the
  // simulated pipeline has beyond the work of the stage.
  Seconds total() const;
  Seconds stretched() const;
  WorkMix mix() const;
  Seconds launch_wait() const { return (*this)[Term::LaunchWait]; }
  Seconds expert_exposed() const { return (*this)[Term::ExpertExposed]; }

  bool operator==(const Terms&) const = default;
  Terms& operator+=(const Terms& other);
  friend Terms operator+(Terms a, const Terms& b) { return a += b; }
  friend Terms operator-(Terms a, const Terms& b) { return a += -1.0 * b; }
  friend Terms operator*(double factor, Terms terms);

 private:
  std::array<Seconds, kNumTerms> times_{};
};

struct ChunkPassTimes {
  Terms forward;
  Terms first_forward;  // of a step: gathers the weights that a sharded optimizer has updated
  Terms backward;
  Terms last_backward;  // of a step: sends the accumulated gradients

  // The weight gradients of a backward pass, where they are a pass of their own: their GEMMs and
  // gradient accumulation.  Everything else, recomputation and waiting for the host included,
  // belongs to the data gradients.
  Terms weights;
};

ChunkPassTimes chunk_pass_times(const Run& run, const LayerPrices& prices,
                                const DataParallelCollectives& collectives,
                                const RankParameters& rank, const ModelChunk& chunk);

}  // namespace llmsim::sim
