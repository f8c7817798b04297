#include "sim/strategy/stage_layout.h"

namespace llmsim::sim {

int StageLayout::chunks() const { return schedule == PipelineSchedule::DualPipe ? 2 : virtual_stages; }

int StageLayout::parts() const { return schedule == PipelineSchedule::DualPipe ? stages : stages * virtual_stages; }

int StageLayout::part(int stage, int chunk) const {
  const bool upwards = chunk == 1 && (schedule == PipelineSchedule::ZbV || schedule == PipelineSchedule::DualPipe);
  return upwards ? parts() - 1 - stage : chunk * stages + stage;
}

int StageLayout::chunk_microbatches() const {
  return schedule == PipelineSchedule::DualPipe ? num_microbatches / 2 : num_microbatches;
}

StageLayout stage_layout(const Strategy& strategy) {
  return {.schedule = strategy.schedule,
          .stages = strategy.pipeline_parallel,
          .virtual_stages = strategy.virtual_stages,
          .num_microbatches = strategy.num_microbatches()};
}

bool splits_backward(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::ZbH1 || schedule == PipelineSchedule::ZbV;
}

bool updates_unsynchronised(PipelineSchedule schedule) { return splits_backward(schedule); }

}  // namespace llmsim::sim
