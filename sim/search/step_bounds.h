// What a step takes at least, without simulating it: a bound with which a search leaves out
// strategies that can be neither among the best nor on the Pareto front, and what it shares with
// the bound of memory (memory_bounds.h): the stages' chunks and their layers.
//
// It is a true lower bound of step_time(), whatever the strategy.  It is lowered by kBoundRounding,
// more than sums of some thousand terms in another order differ by.
//
// Let f, b be what a forward and a backward pass of a stage's chunks take at least (the times of
// their layers, and the host's where those are longer: t = (d^4 + h^4)^(1/4) of all chunks of a
// stage together, which is no more than the sum over the chunks, because it is a norm), m the
// micro-batches, and G, R the time to gather the weights and to reduce the gradients of a stage's
// blocks once.  A communicator carries one message at a time, so that a pass takes no less than its
// messages, and no less than its compute, with the copies that messages need, between its first
// gather and its last reduction; where compute waits for messages, no less than both together.
//
// Above any order of passes a stage k executes m (f_k + b_k).  It begins when the first micro-batch
// has come through the first chunks of the stages before it, and after its last pass, which is a
// backward pass, gradients go back through those chunks.  So a step takes at least
//
//   T = max over k of  before_f(k) + m (f_k + b_k) + max(before_b(k), what the first forward and
//                      the last backward pass of stage k take beyond the others)
//
// of schedules with whole backward passes; of the others m (f_k + b_k), without what joined passes
// hide.  On top come the straggler's share of the compute of the stage that computes least, the
// update of the stage with most parameters, and the host's time between steps.  What is left out
// (other collectives, contention, the host link) is never negative.
//
// Sources: the bound of a pipeline and its proof are ours.
#pragma once

#include <memory>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/memory/shards.h"
#include "sim/model/layer_kinds.h"
#include "sim/run.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

inline constexpr double kBoundRounding = 1e-9;

// One number for each kind of layer.
struct LayerSums {
  KindTable<double> blocks{};
  double embedding = 0.0, head = 0.0;
  KindTable<double> recomputed{};  // of the blocks

  LayerSums& operator+=(const LayerSums& other);
  double times(const LayerSums& each) const;
};

// The layers of a pipeline's stages, of which bounds are sums: by recompute policy, for each kind
// of stage.
class StageCounts {
 public:
  StageCounts(std::shared_ptr<const EqualStages> stages, const std::vector<Recompute>& recomputes);

  const EqualStages& stages() const { return *stages_; }
  const std::shared_ptr<const EqualStages>& shared_stages() const { return stages_; }
  const StageLayout& layout() const { return stages_->layout(); }
  const std::vector<EqualStages::Kind>& kinds() const { return stages_->kinds(); }
  // Of all chunks of a stage.
  const LayerSums& own(std::size_t kind, std::size_t recompute) const {
    return own_[recompute * kinds().size() + kind];
  }
  // Of the first chunks of all stages before the last of the kind.
  const LayerSums& before(std::size_t kind, std::size_t recompute) const {
    return before_[recompute * kinds().size() + kind];
  }
  const LayerSums& chunk(std::size_t kind, int chunk, std::size_t recompute) const {
    return chunks_[(recompute * kinds().size() + kind) *
                       static_cast<std::size_t>(layout().chunks()) +
                   static_cast<std::size_t>(chunk)];
  }

 private:
  std::shared_ptr<const EqualStages> stages_;
  std::vector<LayerSums> own_, before_, chunks_;
};

// Of each kind of layer at least, for one micro-batch.
struct LayerBounds {
  LayerSums forward{}, backward{};            // s of device time
  LayerSums forward_host{}, backward_host{};  // s of the host
  LayerSums compute{};                        // s of both passes that a slow device stretches
  LayerSums all_to_all{};                     // s of both passes that joined passes can hide
  LayerSums left{};                           // bytes that a forward pass leaves
  LayerSums rise{};                           // bytes that a backward pass rises by
  double residual = 0.0;                      // bytes
  bool sent_outputs_stay = false;
  bool activations_leave = false;  // for the host
  bool waits_for_host = false;
};

LayerBounds layer_bounds(const Run& run, const LayerPrices& prices);

// Bytes alone, whatever is recomputed: each block leaves its output, the next one's input, of which
// Megatron's recomputation may store a share on each tensor rank.  Needs no prices.
LayerBounds output_bounds(const Run& run);

// The times whatever is recomputed: what those have in common that differ in nothing else.
LayerBounds without_recomputation(LayerBounds bounds);

// Of the stages' pipeline, without anything of data ranks.
struct StepShape {
  double microbatches = 1.0;  // whatever the schedule: each chunk of DualPipe sees half of them
  double forward_transfer = 0.0, backward_transfer = 0.0;  // s
  double straggler = 0.0;                                  // share
  double per_step = 0.0;                                   // s of the host
  // Whether the gradients' way back counts: not where a last backward pass, which sends all
  // gradients at once, may be shorter than the others.
  bool cools_down = true;

  bool operator==(const StepShape&) const = default;
};

StepShape step_shape(const Run& run);

// What data ranks add to the passes of a stage's blocks, once: s of all messages, and of what no
// compute hides of each pass of a chunk, the gather of its first unit and the reduction of its
// last; of the gathers a forward pass has all, a backward pass those again; and s of the device to
// copy weights and gradients around them and to add gradients up.
struct StageCollectives {
  double gather = 0.0, reduce = 0.0;
  double first_gather = 0.0, last_reduce = 0.0;
  double gather_again = 0.0, first_gather_again = 0.0;
  double gather_copies = 0.0, gather_copies_again = 0.0;
  double reduce_copies = 0.0, accumulation = 0.0;
};

// How the passes meet them.
struct CollectiveRules {
  bool gathers_every_pass = false, gathers_once = false;
  bool reduces_every_pass = false;
  bool gathers_overlap = true, reductions_overlap = true;
};

struct ShardingCosts {
  CollectiveRules rules;
  std::vector<StageCollectives> kinds;  // empty: nothing is known
  double update = 0.0;                  // s
};

ShardingCosts sharding_costs(const Run& run, const RankParameters& rank, const StageCounts& counts);

// Neither split in the gradients of data and of weights nor joined with forward passes.
bool has_whole_backward_passes(PipelineSchedule schedule);

// `costs`: none where only compute is known.
Seconds step_bound(StepShape shape, const StageCounts& counts, std::size_t recompute,
                   const LayerBounds& layers, const ShardingCosts* costs);

// Of the stages of each kind.
std::vector<StageParameters> stage_parameters(const RankParameters& rank,
                                              const StageCounts& counts);

}  // namespace llmsim::sim
