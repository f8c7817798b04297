// The parts of the model in all pipelines of a search, of which few differ: a number of layers with
// or without the ends of the model.  And what of the pipelines depends on nothing but them: which
// parts their stages hold, and how many passes through each are in flight.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "sim/pipeline/stage_order.h"
#include "sim/search/plan_problem.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

using PartId = std::uint16_t;  // the place in PartIndex::parts()

// Parts of a stage that are alike.
struct EqualParts {
  PartId id = 0;
  int count = 0;
};

// Stages one after the other whose parts are alike.
struct IndexedStages {
  int first = 0, last = 0;
  std::vector<std::size_t> chunks{};  // the place in `parts` of each
  std::vector<EqualParts> parts{};
  std::size_t sum = 0;  // the same for stages with as many layers in all, however they are cut
};

// Different parts of a stage, of those whose passes in flight are followed.
inline constexpr std::size_t kMostPartKinds = 4;

// Passes in flight when one begins.
struct HeldPasses {
  std::array<int, kMostPartKinds> passes{};  // by IndexedStages::parts
  std::size_t part = 0;                      // of the one that begins
  bool backward = false;

  bool no_less_than(const HeldPasses& other) const;
};

// Of a schedule whose passes repeat, for the first of the stages: those moments of which no other
// has as much of everything in flight (memory/step_walk.h says how many passes must be followed).
std::vector<HeldPasses> most_held(const PipelineShape& shape, const IndexedStages& stages);

class IndexedPipeline {
 public:
  using MostHeld = std::vector<std::vector<HeldPasses>>;  // by `stages`

  const DealtPipeline* dealt = nullptr;
  std::vector<PartId> parts{};  // in model order
  std::vector<PartId> distinct{};
  std::vector<std::size_t> places{};  // of each part, in `distinct`
  std::vector<IndexedStages> stages{};

  // By the micro-batches of the shape, which is the pipeline's.
  const MostHeld& held(const PipelineShape& shape);

 private:
  std::map<int, MostHeld> held_{};
};

class PartIndex {
 public:
  // `problem` must outlive the index.
  explicit PartIndex(const PlanProblem& problem);

  const std::vector<ModelChunk>& parts() const { return parts_; }
  std::size_t stages() const { return sums_.size(); }  // values of IndexedStages::sum
  std::vector<IndexedPipeline>& pipelines(int pp) { return pipelines_[pp]; }

 private:
  IndexedPipeline indexed(int pp, const DealtPipeline& dealt);
  PartId id_of(const ModelChunk& part);
  IndexedStages stages_at(const IndexedPipeline& pipeline, const StageLayout& layout, int stage);

  const PlanProblem& problem_;
  bool anywhere_;  // layers are alike wherever in the model they are
  std::vector<ModelChunk> parts_, sums_;
  std::map<int, std::vector<IndexedPipeline>> pipelines_{};  // by pp
};

}  // namespace llmsim::sim
