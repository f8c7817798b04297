// One optimizer step of the whole machine: the passes of every stage, the pipeline, the
// data-parallel exchange, the update.
//
// A step ends with the last event of any stage or, where stages need not wait for one another
// between steps, after the longest time from a stage's first event to its last
// (updates_unsynchronised in strategy/stages.h).  It is cut into named terms of the busiest stage,
// whose passes take longest, that add up to the step time: what it computed (by pass and kind),
// what it waited for (exposed collectives, launches, host link), and the pipeline bubble: how long
// it is idle in the simulated pipeline, before, between and after its passes until the last stage
// has ended its passes and closing collectives (closing_collectives in stage_work.h).  What the
// passes as they were simulated and their terms disagree about would be a term of its own, the
// remainder; it is rounding, and listed only where it is more.
//
// StepSimulation is a step of the whole machine while it is put together: the passes of every chunk
// of the model, the pipeline that they go through, and the terms of the busiest stage; timeline.h
// draws its events.
//
// The optimizer streams gradients, weights and states at the achieved memory bandwidth, or
// computes on the vector units where that takes longer; sharded optimizers own a share of the
// parameters; Muon multiplies besides (orthogonalisation.h); an optimizer that runs inside the
// backward pass takes no norm of all gradients. Offloaded, the CPU streams fp32 gradients, weights
// and states at a rank's share of host memory bandwidth, slower where its optimizer is not fused;
// it scales the gradients (their norm was taken on the device), and new weights go up where the
// device keeps a copy.
//
// Sources: those of its parts; the spread between devices, stas00/ml-engineering (step.cpp); the
// cut into terms is ours.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "sim/cost/chunk_table.h"
#include "sim/cost/layer_prices.h"
#include "sim/memory/shards.h"
#include "sim/pipeline/pipeline.h"
#include "sim/run.h"
#include "sim/schedule/communication.h"
#include "sim/schedule/data_parallel_collectives.h"
#include "sim/schedule/passes.h"

namespace llmsim::sim {

// A named part of the step time.
struct TimeTerm {
  const char* name = "";
  Seconds time{};
};

struct StepTimes {
  Seconds total{};
  std::vector<TimeTerm> breakdown;  // adds up to total
  std::vector<CommunicationTerm> communication;
  double bubble = 0.0;  // idle share of the busiest stage while the passes of all stages run
  Seconds bound{};      // StepSimulation::bound()
};

StepTimes simulate_step(const Run& run, const LayerPrices& prices);

// Only the total, for searches.
Seconds step_time(const Run& run, const LayerPrices& prices);

// How much slower the slowest of n equal devices is: the expected largest of n normal
// deviations (base/uncertainty.h).
double straggler_share(const Cluster& cluster);

// The passes of a chunk, and what they take of a step, all micro-batches together.
struct ChunkStep {
  ChunkPassTimes passes{};
  ChunkTimes times{};
  Terms all{};
  Seconds all_time{};
  Seconds extra{};  // of the first forward and the last backward pass beyond the others
};

// The passes of chunks under one mesh and sharding, which pipelines of a search share: each is
// worked out when it is first asked for.
class SharedPasses {
 public:
  // `run` and `rank` must outlive it.
  SharedPasses(const Run& run, const RankParameters& rank);
  SharedPasses(const SharedPasses&) = delete;

  const DataParallelCollectives& exchange() const { return exchange_; }
  // Of the run's pipeline and recomputation as they are now, with their prices.
  const ChunkStep& of(const LayerPrices& prices, const ModelChunk& chunk);

 private:
  const Run& run_;
  const RankParameters& rank_;
  DataParallelCollectives exchange_;
  ChunkTable<ChunkStep> chunks_;
};

class StepSimulation {
 public:
  // `run` and `prices` must outlive the simulation.
  StepSimulation(const Run& run, const LayerPrices& prices);

  // The passes alone: what the step takes at least (earliest_finishes), which spares searches the
  // events of most, and what simulate() then gives.
  struct Passes {};
  StepSimulation(const Run& run, const LayerPrices& prices, Passes);
  // With passes of the same run that others share, which must outlive it.
  StepSimulation(const Run& run, const LayerPrices& prices, const StageContents& contents,
                 SharedPasses& passes)
      : StepSimulation(run, prices, contents, &passes) {}
  StepSimulation(const StepSimulation&) = delete;
  Seconds bound() const;
  void simulate();

  const Terms& terms() const { return terms_; }  // of the busiest stage
  double bubble() const { return bubble_; }  // idle share of it while the passes of all stages run
  int busiest() const { return busiest_; }
  const DataParallelCollectives& exchange() const { return shared_->exchange(); }
  const StageContents& contents() const { return contents_; }

  const PipelineShape& shape() const { return shape_; }
  const std::vector<ChunkTimes>& chunks() const { return chunks_; }  // of every chunk of the model
  const ChunkTimes& times(int stage, int chunk) const { return chunks_[chunk_place(stage, chunk)]; }
  const ChunkPassTimes& passes(int stage, int chunk) const { return step(stage, chunk).passes; }
  std::vector<ModelChunk> chunks_of(int stage) const;
  // Of the stage's closing_collectives().
  Seconds closing_time(int stage) const { return closing_times_[contents_.stages().kind(stage)]; }

  // What the joined passes of a stage hide, as (negative) exposed and slowed down time.
  Terms joined_terms(const ChunkTimes& forward, const ChunkTimes& backward) const;

 private:
  // `passes`: null: its own.
  StepSimulation(const Run& run, const LayerPrices& prices, const StageContents& contents,
                 SharedPasses* passes);
  std::size_t chunk_place(int stage, int chunk) const {
    return static_cast<std::size_t>(layout_.place(stage, chunk));
  }
  void add_passes();
  const ChunkStep& step(int stage, int chunk) const {
    return *steps_[contents_.stages().chunk_kind(stage, chunk)];
  }
  Seconds extra_time(int stage) const;
  Terms joined_terms(int stage) const;
  int busiest_stage() const;
  Terms around_passes(Seconds between, Seconds idle) const;
  Seconds earliest_span() const;
  Seconds longest_until_norm(const PipelineTimes& pipeline) const;
  Seconds span(const PipelineTimes& pipeline, int stage) const;
  Seconds idle_time(const PipelineTimes& pipeline, int stage, Seconds between) const;

  const Run& run_;
  const Strategy& strategy_;
  const LayerPrices& prices_;
  StageContents contents_;
  std::optional<SharedPasses> own_passes_;
  SharedPasses* shared_;
  PipelineShape shape_;
  StageLayout layout_;
  std::vector<const ChunkStep*> steps_;  // of each kind of chunk (EqualStages)
  std::vector<ChunkTimes> chunks_;
  int busiest_ = 0;
  Terms work_{};                                     // of the busiest stage: all but its bubble
  double straggler_;                                 // share of what is computed
  std::vector<std::pair<Term, Seconds>> overheads_;  // after the last pass
  std::vector<Seconds> closing_times_;               // of each kind of stage (EqualStages)
  Terms terms_;
  double bubble_ = 0.0;
};

// Time of the update, but for what Muon multiplies.  `updated` are the trained values of the stage
// that has most.  Without gradient_clip the norm is not taken.  A framework that loops over its
// `tensors` takes as long as its host launches their kernels:
//
//   t = max(device time, tensors * kernels * host.factor * host.per_kernel)
//   kernels = 1 (gradients made zero) + those of one update + 3 with gradient_clip
//
// Source: torch/optim/adamw.py _single_tensor_adamw.
Seconds update_time(const Run& run, const StageParameters& updated, double tensors = 0.0);

// Time of the update of the stage whose ranks own most parameters, under Muon of that which takes
// longest: the others wait for it.  0 where the run has no optimizer step.
Seconds longest_update(const Run& run, const RankParameters& rank, const EqualStages& stages);

}  // namespace llmsim::sim
