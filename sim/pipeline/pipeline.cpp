#include "sim/pipeline/pipeline.h"

#include <algorithm>
#include <cassert>

#include "sim/cost/contention.h"
#include "sim/pipeline/repeating_pipeline.h"

namespace llmsim::sim {
namespace {

// Runs the stages' orders against each other.
class PipelineSimulation {
 public:
  PipelineSimulation(const PipelineShape& shape, const StageLayout& layout,
                     std::span<const ChunkTimes> chunks)
      : shape_(shape),
        chunks_per_stage_(layout.chunks()),
        chunks_(chunks),
        num_chunks_(layout.model_chunks()),
        forward_end_(static_cast<std::size_t>(num_chunks_) *
                         static_cast<std::size_t>(shape.num_microbatches),
                     Seconds(-1.0)),
        backward_end_(forward_end_),
        start_(static_cast<std::size_t>(shape.stages)),
        clock_(start_),
        idle_(start_),
        next_(start_.size()) {
    orders_.reserve(start_.size());
    for (int stage = 0; stage < shape.stages; ++stage) {
      orders_.push_back(stage_order(shape, stage));
      for (int chunk = 0; chunk < chunks_per_stage_; ++chunk)
        places_.push_back(layout.place(stage, chunk));
    }
    if (shape.schedule == PipelineSchedule::DualPipe) add_joined();
  }

  // With `events`: appends each stage's.
  void run(std::vector<std::vector<PassEvent>>* events = nullptr) {
    events_ = events;
    if (events_) events_->resize(orders_.size());
    bool progressed = true;
    while (progressed) {
      progressed = false;
      for (std::size_t stage = 0; stage < orders_.size(); ++stage) {
        while (next_[stage] < orders_[stage].size() && step(stage)) progressed = true;
      }
    }
  }

  PipelineTimes times() const {
    for (std::size_t stage = 0; stage < orders_.size(); ++stage)
      assert(next_[stage] == orders_[stage].size());
    return {.makespan = *std::max_element(clock_.begin(), clock_.end()),
            .start = start_,
            .finish = clock_,
            .idle = idle_};
  }

 private:
  // Runs the stage's next pass, or the next two that go together, if their inputs exist.
  bool step(std::size_t stage) {
    const PipelinePass* const first = &orders_[stage][next_[stage]];
    const std::size_t count = first->joins_next ? 2 : 1;
    const std::span<const PipelinePass> passes(first, count);
    Seconds start = clock_[stage];
    for (const PipelinePass& pass : passes) {
      const Seconds ready = input_ready(pass, part_of(stage, pass));
      if (ready < Seconds(0.0)) return false;
      start = std::max(start, ready);
    }
    const Seconds end = start + duration(stage, passes);
    for (const PipelinePass& pass : passes) {
      finish(pass, part_of(stage, pass), end);
      if (events_) (*events_)[stage].push_back({pass, start, end});
    }
    if (next_[stage] == 0) {
      start_[stage] = start;
    } else {
      idle_[stage] += start - clock_[stage];
    }
    clock_[stage] = end;
    next_[stage] += count;
    return true;
  }

  const ChunkTimes& times_of(std::size_t stage, std::size_t chunk) const {
    return chunks_[static_cast<std::size_t>(places_[2 * stage + chunk])];
  }

  // Of two chunks a stage, by the chunk of the forward pass.
  void add_joined() {
    for (std::size_t stage = 0; stage < orders_.size(); ++stage) {
      for (std::size_t chunk = 0; chunk < 2; ++chunk)
        joined_.push_back(joined_passes(times_of(stage, chunk), times_of(stage, 1 - chunk),
                                        shape_.all_to_all_loss)
                              .total);
    }
  }

  Seconds duration(std::size_t stage, std::span<const PipelinePass> passes) const {
    if (passes.size() == 2) return joined_[2 * stage + static_cast<std::size_t>(passes[0].chunk)];
    const ChunkTimes& times = chunks_[static_cast<std::size_t>(part_of(stage, passes[0]))];
    switch (passes[0].kind) {
      case PassKind::Forward: return times.forward;
      case PassKind::Backward: return times.backward;
      case PassKind::DataGradient: return times.backward - times.weights;
      case PassKind::WeightGradient: return times.weights;
    }
    return {};
  }

  void finish(const PipelinePass& pass, int place, Seconds end) {
    if (pass.kind == PassKind::Forward) forward_end_[index(place, pass.microbatch)] = end;
    if (pass.kind == PassKind::Backward || pass.kind == PassKind::DataGradient)
      backward_end_[index(place, pass.microbatch)] = end;
  }

  int part_of(std::size_t stage, const PipelinePass& pass) const {
    return places_[stage * static_cast<std::size_t>(chunks_per_stage_) +
                   static_cast<std::size_t>(pass.chunk)];
  }

  // When the pass's input is on the stage; negative if it has not been made yet.  Weight gradients
  // follow their data gradients.
  Seconds input_ready(const PipelinePass& pass, int place) const {
    if (pass.kind == PassKind::WeightGradient) return Seconds(0.0);
    if (pass.kind == PassKind::Forward) {
      return place == 0 ? Seconds(0.0)
                        : arrival(forward_end_[index(place - 1, pass.microbatch)], place - 1,
                                  shape_.forward_transfer);
    }
    if (place == num_chunks_ - 1) return forward_end_[index(place, pass.microbatch)];
    return arrival(backward_end_[index(place + 1, pass.microbatch)], place,
                   shape_.backward_transfer);
  }

  // Of what has been sent between `place` and the place behind it, which the turn of a V keeps on its
  // stage.
  Seconds arrival(Seconds sent, int place, Seconds transfer) const {
    const bool turns = is_v_shaped(shape_.schedule) && place == shape_.stages - 1;
    return sent < Seconds(0.0) || turns ? sent : sent + transfer;
  }

  std::size_t index(int place, int microbatch) const {
    return static_cast<std::size_t>(place) * static_cast<std::size_t>(shape_.num_microbatches) +
           static_cast<std::size_t>(microbatch);
  }

  const PipelineShape& shape_;
  int chunks_per_stage_;
  std::span<const ChunkTimes> chunks_;
  int num_chunks_;
  std::vector<int> places_;      // of each chunk of each stage
  std::vector<Seconds> joined_;  // time of joined passes of each stage, by the forward one's chunk
  std::vector<Seconds> forward_end_;
  std::vector<Seconds> backward_end_;
  std::vector<Seconds> start_;
  std::vector<Seconds> clock_;
  std::vector<Seconds> idle_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<PipelinePass>> orders_;
  std::vector<std::vector<PassEvent>>* events_ = nullptr;
};

}  // namespace

JoinedPasses joined_passes(const ChunkTimes& forward, const ChunkTimes& backward, double loss) {
  const Seconds ahead = forward.forward - forward.forward_all_to_all,
                back = backward.backward - backward.backward_all_to_all;
  const ExposedTimes one = run_overlapped(forward.forward_all_to_all, back, loss);
  const ExposedTimes other = run_overlapped(backward.backward_all_to_all, ahead, loss);
  const Seconds exposed = one.exposed + other.exposed, slowdown = one.slowdown + other.slowdown;
  return {.forward = {.exposed = one.exposed, .slowdown = other.slowdown},
          .backward = {.exposed = other.exposed, .slowdown = one.slowdown},
          .total = ahead + back + exposed + slowdown,
          .hidden = forward.forward_all_to_all + backward.backward_all_to_all - exposed,
          .slowdown = slowdown};
}

PipelineTimes simulate_pipeline(const PipelineShape& shape, std::span<const ChunkTimes> chunks) {
  if (shape.stages == 1 && shape.virtual_stages == 1) {
    const Seconds end = shape.num_microbatches * (chunks[0].forward + chunks[0].backward);
    return {.makespan = end, .start = {Seconds(0.0)}, .finish = {end}, .idle = {Seconds(0.0)}};
  }
  if (passes_repeat(shape.schedule)) return repeating_pipeline_times(shape, chunks);
  PipelineSimulation simulation(shape, shape.layout(), chunks);
  simulation.run();
  return simulation.times();
}

std::vector<Seconds> earliest_finishes(const PipelineShape& shape,
                                       std::span<const ChunkTimes> chunks) {
  const auto stages = static_cast<std::size_t>(shape.stages);
  std::vector<Seconds> end(stages);
  Seconds start;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    Seconds work;
    for (std::size_t place = stage; place < chunks.size(); place += stages)
      work += chunks[place].forward + chunks[place].backward;
    end[stage] = start + shape.num_microbatches * work;
    start += chunks[stage].forward + shape.forward_transfer;
  }
  for (std::size_t stage = stages - 1; stage > 0; --stage) {
    end[stage - 1] =
        std::max(end[stage - 1], end[stage] + shape.backward_transfer + chunks[stage - 1].backward);
  }
  return end;
}

std::vector<std::vector<PassEvent>> pipeline_events(const PipelineShape& shape,
                                                    std::span<const ChunkTimes> chunks) {
  std::vector<std::vector<PassEvent>> events;
  PipelineSimulation(shape, shape.layout(), chunks).run(&events);
  return events;
}

}  // namespace llmsim::sim
