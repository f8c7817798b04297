#include "sim/schedule/pipeline.h"

#include <algorithm>
#include <cassert>

namespace llmsim::sim {
namespace {

// Micro-batches that go through one chunk before the next under interleaving: the number of stages, or the next larger number
// that leaves no last group smaller than the stages, which would wait for itself.
int group_size(const PipelineShape& shape) {
  int size = shape.stages;
  const auto leaves_a_small_group = [&] {
    const int rest = shape.num_microbatches % size;
    return rest > 0 && rest < shape.stages;
  };
  while (size < shape.num_microbatches && leaves_a_small_group()) ++size;
  return size;
}

// The k-th forward (or backward) pass of a stage: groups of micro-batches go through chunk after chunk.
PipelinePass interleaved_pass(int k, const PipelineShape& shape, int group, bool backward) {
  const int first = k / (group * shape.virtual_stages) * group;
  const int size = std::min(group, shape.num_microbatches - first);
  const int within = k - first * shape.virtual_stages;
  const int chunk = within / size;
  return {
      .chunk = backward ? shape.virtual_stages - 1 - chunk : chunk, .microbatch = first + within % size, .backward = backward};
}

// Forward passes that a stage runs before its first backward pass.
int warmup_passes(const PipelineShape& shape, int stage) {
  const int total = shape.num_microbatches * shape.virtual_stages;
  switch (shape.schedule) {
    case PipelineSchedule::GPipe: return total;
    case PipelineSchedule::OneForwardOneBackward: return std::min(total, shape.stages - stage - 1);
    case PipelineSchedule::Interleaved:
      return std::min(total, 2 * (shape.stages - stage - 1) + (shape.virtual_stages - 1) * group_size(shape));
  }
  return total;
}

// A stage's passes in order, generated one at a time.
class StageOrder {
 public:
  StageOrder(const PipelineShape& shape, int stage)
      : shape_(shape),
        total_(shape.num_microbatches * shape.virtual_stages),
        warmup_(warmup_passes(shape, stage)),
        group_(group_size(shape)) {}

  bool done() const { return forwards_ + backwards_ == 2 * total_; }

  PipelinePass current() const {
    const bool backward = next_is_backward();
    return interleaved_pass(backward ? backwards_ : forwards_, shape_, group_, backward);
  }

  void advance() { next_is_backward() ? ++backwards_ : ++forwards_; }

 private:
  // Warm-up forwards, then one forward and one backward in turn, then the remaining backwards.
  bool next_is_backward() const {
    if (forwards_ == total_) return true;
    return forwards_ - backwards_ > warmup_;
  }

  const PipelineShape& shape_;
  int total_;
  int warmup_;
  int group_;
  int forwards_ = 0;
  int backwards_ = 0;
};

// Runs the stages' orders against each other.
class PipelineSimulation {
 public:
  PipelineSimulation(const PipelineShape& shape, std::span<const ChunkTimes> chunks)
      : shape_(shape),
        chunks_(chunks),
        parts_(shape.stages * shape.virtual_stages),
        forward_end_(static_cast<std::size_t>(parts_) * shape.num_microbatches, Seconds(-1.0)),
        backward_end_(forward_end_),
        clock_(static_cast<std::size_t>(shape.stages)) {
    for (int stage = 0; stage < shape.stages; ++stage) orders_.emplace_back(shape, stage);
  }

  void run() {
    bool progressed = true;
    while (progressed) {
      progressed = false;
      for (int stage = 0; stage < shape_.stages; ++stage) {
        while (!orders_[stage].done() && step(stage)) progressed = true;
      }
    }
  }

  std::vector<Seconds> finish_times() const {
    assert(std::all_of(orders_.begin(), orders_.end(), [](const StageOrder& order) { return order.done(); }));
    return clock_;
  }

 private:
  // Runs the stage's next pass if its input exists.
  bool step(int stage) {
    const PipelinePass task = orders_[stage].current();
    const int part = task.chunk * shape_.stages + stage;
    const Seconds ready = input_ready(task, part);
    if (ready < Seconds(0.0)) return false;
    const ChunkTimes& times = chunks_[static_cast<std::size_t>(part)];
    const Seconds end = std::max(clock_[stage], ready) + (task.backward ? times.backward : times.forward);
    (task.backward ? backward_end_ : forward_end_)[index(part, task.microbatch)] = end;
    clock_[stage] = end;
    orders_[stage].advance();
    return true;
  }

  // When the pass's input is on the stage; negative if it has not been made yet.
  Seconds input_ready(const PipelinePass& task, int part) const {
    if (!task.backward) return part == 0 ? Seconds(0.0) : arrival(forward_end_[index(part - 1, task.microbatch)]);
    if (part == parts_ - 1) return forward_end_[index(part, task.microbatch)];
    return arrival(backward_end_[index(part + 1, task.microbatch)]);
  }

  Seconds arrival(Seconds sent) const { return sent < Seconds(0.0) ? sent : sent + shape_.transfer; }

  std::size_t index(int part, int microbatch) const {
    return static_cast<std::size_t>(part) * static_cast<std::size_t>(shape_.num_microbatches) +
           static_cast<std::size_t>(microbatch);
  }

  const PipelineShape& shape_;
  std::span<const ChunkTimes> chunks_;
  int parts_;
  std::vector<Seconds> forward_end_;
  std::vector<Seconds> backward_end_;
  std::vector<Seconds> clock_;
  std::vector<StageOrder> orders_;
};

std::vector<Seconds> simulated_finish_times(PipelineShape shape, int num_microbatches, std::span<const ChunkTimes> chunks) {
  shape.num_microbatches = num_microbatches;
  PipelineSimulation simulation(shape, chunks);
  simulation.run();
  return simulation.finish_times();
}

// Micro-batches after which the events are periodic, in rounds of all stages.
constexpr int kTransientRounds = 4;

std::vector<Seconds> finish_times(const PipelineShape& shape, std::span<const ChunkTimes> chunks) {
  const int m = shape.num_microbatches, round = shape.stages;
  if (shape.stages == 1 && shape.virtual_stages == 1) return {m * (chunks[0].forward + chunks[0].backward)};
  const int long_run = kTransientRounds * round + m % round, short_run = long_run - round;
  if (m <= long_run + round || shape.schedule == PipelineSchedule::GPipe) return simulated_finish_times(shape, m, chunks);
  std::vector<Seconds> end = simulated_finish_times(shape, long_run, chunks);
  const std::vector<Seconds> before = simulated_finish_times(shape, short_run, chunks);
  const double periods = static_cast<double>(m - long_run) / round;
  for (std::size_t stage = 0; stage < end.size(); ++stage) end[stage] += periods * (end[stage] - before[stage]);
  return end;
}

}  // namespace

PipelineShape pipeline_shape(const Strategy& strategy) {
  return {.schedule = strategy.schedule,
          .stages = strategy.pipeline_parallel,
          .virtual_stages = strategy.virtual_stages,
          .num_microbatches = strategy.num_microbatches(),
          .transfer = Seconds(0.0)};
}

std::vector<PipelinePass> stage_order(const PipelineShape& shape, int stage) {
  std::vector<PipelinePass> passes;
  for (StageOrder order(shape, stage); !order.done(); order.advance()) passes.push_back(order.current());
  return passes;
}

int messages_under_way(const PipelineShape& shape) {
  return shape.virtual_stages == 1 ? 1 : group_size(shape) - shape.stages + 1;
}

int peak_in_flight(const PipelineShape& shape, int stage) {
  const int total = shape.num_microbatches * shape.virtual_stages;
  return std::min(total, warmup_passes(shape, stage) + 1);
}

PipelineTimes simulate_pipeline(const PipelineShape& shape, std::span<const ChunkTimes> chunks) {
  PipelineTimes times;
  times.finish = finish_times(shape, chunks);
  times.makespan = *std::max_element(times.finish.begin(), times.finish.end());
  return times;
}

}  // namespace llmsim::sim
