#include "sim/strategy/stage_layout.h"

namespace llmsim::sim {

int StageLayout::chunks() const { return schedule == PipelineSchedule::DualPipe ? 2 : virtual_stages; }

int StageLayout::parts() const { return schedule == PipelineSchedule::DualPipe ? stages : stages * virtual_stages; }

bool StageLayout::goes_up(int chunk) const {
  return chunk == 1 && (schedule == PipelineSchedule::ZbV || schedule == PipelineSchedule::DualPipe);
}

int StageLayout::part(int stage, int chunk) const { return goes_up(chunk) ? parts() - 1 - stage : chunk * stages + stage; }

bool StageLayout::ends_meet() const {
  return stages == 1 || schedule == PipelineSchedule::ZbV || schedule == PipelineSchedule::DualPipe;
}

std::optional<int> StageLayout::next_stage(int stage, int chunk, bool backward) const {
  if (stages == 1 || part(stage, chunk) == (backward ? 0 : parts() - 1)) return std::nullopt;
  const int next = stage + (goes_up(chunk) != backward ? -1 : 1);
  if (schedule == PipelineSchedule::ZbV && (next < 0 || next == stages)) return std::nullopt;
  return (next + stages) % stages;
}

int StageLayout::chunk_microbatches() const {
  return schedule == PipelineSchedule::DualPipe ? num_microbatches / 2 : num_microbatches;
}

StageLayout stage_layout(const Strategy& strategy) {
  return {.schedule = strategy.pipeline_schedule,
          .stages = strategy.pp,
          .virtual_stages = strategy.virtual_stages,
          .num_microbatches = strategy.num_microbatches()};
}

bool splits_backward(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::ZbH1 || schedule == PipelineSchedule::ZbV;
}

bool updates_unsynchronised(PipelineSchedule schedule) { return splits_backward(schedule); }

}  // namespace llmsim::sim
