// A step of the whole machine while it is put together: the passes of every part of the model, the pipeline that they go through,
// and the terms of the busiest stage.  step.h tells the times, timeline.h every event.
#pragma once

#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/pipeline/pipeline.h"
#include "sim/run.h"
#include "sim/schedule/communication.h"
#include "sim/schedule/data_exchange.h"
#include "sim/schedule/passes.h"

namespace llmsim::sim {

class StepSimulation {
 public:
  // `run` and `prices` must outlive the simulation.
  StepSimulation(const Run& run, const LayerPrices& prices);

  const Terms& terms() const { return terms_; }  // of the busiest stage
  double bubble() const { return bubble_; }      // idle share of it while the passes of all stages run
  int busiest() const { return busiest_; }
  const DataExchange& exchange() const { return exchange_; }

  const PipelineShape& shape() const { return shape_; }
  const std::vector<ChunkTimes>& chunks() const { return chunks_; }  // of every part of the model
  const PartPasses& passes(int stage, int chunk) const { return passes_[part_index(stage, chunk)]; }
  std::vector<ModelPart> parts_of(int stage) const;

  // What the joined passes of a stage hide, as (negative) exposed and slowed down time.
  Terms joined_terms(const ChunkTimes& forward, const ChunkTimes& backward) const;

 private:
  std::size_t part_index(int stage, int chunk) const { return static_cast<std::size_t>(layout_.part(stage, chunk)); }
  std::vector<ChunkTimes> chunk_times() const;
  PartPasses passes_of(std::size_t index) const;
  Terms stage_terms(int stage) const;
  Terms extra_terms(int stage) const;
  Terms joined_terms(int stage) const;
  int busiest_stage() const;
  Seconds longest_span(const PipelineTimes& pipeline) const;
  Seconds span(const PipelineTimes& pipeline, int stage) const;
  Seconds idle_time(const PipelineTimes& pipeline, int stage, Seconds longest) const;
  Seconds compute_time() const;
  Seconds longest_update() const;
  void add_closing_exchanges();

  const Run& run_;
  const Strategy& strategy_;
  const LayerPrices& prices_;
  std::vector<ModelPart> parts_;
  RankParameters rank_;
  DataExchange exchange_;
  PipelineShape shape_;
  StageLayout layout_;
  std::vector<PartPasses> passes_;
  std::vector<ChunkTimes> chunks_;
  int busiest_ = 0;
  Terms terms_;
  double bubble_ = 0.0;
};

}  // namespace llmsim::sim
