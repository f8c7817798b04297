#include "sim/schedule/stage_order.h"

#include <algorithm>

#include "sim/schedule/split_order.h"

namespace llmsim::sim {
namespace {

// The k-th forward (or backward) pass of a stage: groups of micro-batches go through chunk after chunk.
PipelinePass interleaved_pass(int k, const PipelineShape& shape, int group, bool backward) {
  const int first = k / (group * shape.virtual_stages) * group;
  const int size = std::min(group, shape.num_microbatches - first);
  const int within = k - first * shape.virtual_stages;
  const int chunk = within / size;
  return {.chunk = backward ? shape.virtual_stages - 1 - chunk : chunk,
          .microbatch = first + within % size,
          .kind = backward ? PassKind::Backward : PassKind::Forward};
}

// Warm-up forwards, then one forward and one backward in turn, then the remaining backwards.
std::vector<PipelinePass> whole_backward_order(const PipelineShape& shape, int stage) {
  const int total = shape.num_microbatches * shape.virtual_stages, warmup = warmup_passes(shape, stage);
  const int group = microbatch_group(shape);
  std::vector<PipelinePass> order;
  order.reserve(2 * static_cast<std::size_t>(total));
  int forwards = 0, backwards = 0;
  while (backwards < total) {
    const bool backward = forwards == total || forwards - backwards > warmup;
    order.push_back(interleaved_pass(backward ? backwards++ : forwards++, shape, group, backward));
  }
  return order;
}

// What passes in flight hold: a forward pass takes it, the last pass of the same micro-batch through the same chunk gives it
// back.
int most_in_flight(const std::vector<PipelinePass>& order) {
  int now = 0, most = 0;
  for (const PipelinePass& pass : order) {
    if (pass.kind == PassKind::Forward) most = std::max(most, ++now);
    if (pass.kind == PassKind::Backward || pass.kind == PassKind::WeightGradient) --now;
  }
  return most;
}

}  // namespace

StageLayout PipelineShape::layout() const {
  return {.schedule = schedule, .stages = stages, .virtual_stages = virtual_stages, .num_microbatches = num_microbatches};
}

PipelineShape pipeline_shape(const Strategy& strategy) {
  return {.schedule = strategy.pipeline_schedule,
          .stages = strategy.pp,
          .virtual_stages = strategy.virtual_stages,
          .num_microbatches = strategy.num_microbatches()};
}

int microbatch_group(const PipelineShape& shape) {
  int size = shape.stages;
  const auto leaves_a_small_group = [&] {
    const int rest = shape.num_microbatches % size;
    return rest > 0 && rest < shape.stages;
  };
  while (size < shape.num_microbatches && leaves_a_small_group()) ++size;
  return size;
}

int warmup_passes(const PipelineShape& shape, int stage) {
  const int total = shape.num_microbatches * shape.virtual_stages;
  switch (shape.schedule) {
    case PipelineSchedule::OneForwardOneBackward: return std::min(total, shape.stages - stage - 1);
    case PipelineSchedule::Interleaved:
      return std::min(total, 2 * (shape.stages - stage - 1) + (shape.virtual_stages - 1) * microbatch_group(shape));
    default: return total;
  }
}

std::vector<PipelinePass> stage_order(const PipelineShape& shape, int stage) {
  switch (shape.schedule) {
    case PipelineSchedule::ZbH1: return zb_h1_order(shape, stage);
    case PipelineSchedule::ZbV: return zb_v_order(shape, stage);
    case PipelineSchedule::DualPipe: return dualpipe_order(shape, stage);
    default: return whole_backward_order(shape, stage);
  }
}

int messages_under_way(const PipelineShape& shape) {
  return shape.virtual_stages == 1 ? 1 : microbatch_group(shape) - shape.stages + 1;
}

int peak_in_flight(const PipelineShape& shape, int stage) {
  switch (shape.schedule) {
    case PipelineSchedule::ZbH1:
    case PipelineSchedule::ZbV:
    case PipelineSchedule::DualPipe: return most_in_flight(stage_order(shape, stage));
    default: return std::min(shape.num_microbatches * shape.virtual_stages, warmup_passes(shape, stage) + 1);
  }
}

}  // namespace llmsim::sim
