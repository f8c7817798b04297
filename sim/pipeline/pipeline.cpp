#include "sim/pipeline/pipeline.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

#include "sim/cost/contention.h"

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
        parts_(layout.parts()),
        forward_end_(
            static_cast<std::size_t>(parts_) * static_cast<std::size_t>(shape.num_microbatches),
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
        part_.push_back(layout.part(stage, chunk));
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
    return chunks_[static_cast<std::size_t>(part_[2 * stage + chunk])];
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

  void finish(const PipelinePass& pass, int part, Seconds end) {
    if (pass.kind == PassKind::Forward) forward_end_[index(part, pass.microbatch)] = end;
    if (pass.kind == PassKind::Backward || pass.kind == PassKind::DataGradient)
      backward_end_[index(part, pass.microbatch)] = end;
  }

  int part_of(std::size_t stage, const PipelinePass& pass) const {
    return part_[stage * static_cast<std::size_t>(chunks_per_stage_) +
                 static_cast<std::size_t>(pass.chunk)];
  }

  // When the pass's input is on the stage; negative if it has not been made yet.  Weight gradients
  // follow their data gradients.
  Seconds input_ready(const PipelinePass& pass, int part) const {
    if (pass.kind == PassKind::WeightGradient) return Seconds(0.0);
    if (pass.kind == PassKind::Forward) {
      return part == 0 ? Seconds(0.0)
                       : arrival(forward_end_[index(part - 1, pass.microbatch)], part - 1,
                                 shape_.forward_transfer);
    }
    if (part == parts_ - 1) return forward_end_[index(part, pass.microbatch)];
    return arrival(backward_end_[index(part + 1, pass.microbatch)], part, shape_.backward_transfer);
  }

  // Of what has been sent between `part` and the part behind it, which the turn of a V keeps on its
  // stage.
  Seconds arrival(Seconds sent, int part, Seconds transfer) const {
    const bool turns = shape_.schedule == PipelineSchedule::ZbV && part == shape_.stages - 1;
    return sent < Seconds(0.0) || turns ? sent : sent + transfer;
  }

  std::size_t index(int part, int microbatch) const {
    return static_cast<std::size_t>(part) * static_cast<std::size_t>(shape_.num_microbatches) +
           static_cast<std::size_t>(microbatch);
  }

  const PipelineShape& shape_;
  int chunks_per_stage_;
  std::span<const ChunkTimes> chunks_;
  int parts_;
  std::vector<int> part_;        // of each chunk of each stage
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

// Two times that differ by less, relative to the clock, differ by rounding: each is a sum of up to
// some thousand durations.
constexpr double kRounding = 2e-13;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct StageState {
  Seconds clock{};
  Seconds idle{};    // until then, since its first pass began
  int forwards = 0;  // passes done
  int backwards = 0;
};

// When the last passes of one direction have ended, by part and micro-batch.
class PassEnds {
 public:
  // Of at least `kept` micro-batches.
  PassEnds(int parts, int kept) : passes_(at(parts)) {
    while (capacity_ < kept) capacity_ *= 2;
    ends_.resize(at(parts * capacity_));
  }

  bool has(int part, int microbatch) const { return passes_[at(part)] > microbatch; }
  int passes(int part) const { return passes_[at(part)]; }
  Seconds of(int part, int microbatch) const { return ends_[place(part, microbatch)]; }
  void add(int part, int microbatch, Seconds end) {
    ends_[place(part, microbatch)] = end;
    ++passes_[at(part)];
  }

 private:
  std::size_t place(int part, int microbatch) const {
    return at(part) * at(capacity_) + at(microbatch & (capacity_ - 1));
  }

  int capacity_ = 1;  // a power of two
  std::vector<Seconds> ends_;
  std::vector<int> passes_;  // done, of each part
};

// Whether all stages, and all that has been sent from part to part and not been used, are as they
// were `microbatches` micro-batches and `passes` passes of a stage ago, but for one difference in
// time.
bool repeats(std::span<const StageState> stages, std::span<const StageState> before,
             const PassEnds& forward, const PassEnds& backward, int parts, int microbatches,
             int passes) {
  const Seconds period = stages[0].clock - before[0].clock, rounding = kRounding * stages[0].clock;
  const auto later = [&](Seconds now, Seconds then) {
    const Seconds difference = now - then - period;
    return difference <= rounding && -difference <= rounding;
  };
  const auto unused_later = [&](const PassEnds& ends, int part, int reader) {
    for (int i = ends.passes(reader); i < ends.passes(part); ++i) {
      if (!later(ends.of(part, i), ends.of(part, i - microbatches))) return false;
    }
    return true;
  };
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const StageState &now = stages[stage], &then = before[stage];
    if (!later(now.clock, then.clock) || now.forwards - then.forwards != passes ||
        now.backwards - then.backwards != passes)
      return false;
  }
  for (int part = 0; part + 1 < parts; ++part) {
    if (!unused_later(forward, part, part + 1) || !unused_later(backward, part + 1, part))
      return false;
  }
  return true;
}

// 1F1B and interleaved pipelines of many micro-batches, whose passes repeat.
//
// The stages run group after group of micro-batches (microbatch_group; of 1F1B a micro-batch is a
// group), and what happens from a moment on depends on three things alone: how far each stage is in
// its order, when it is free, and when what has been sent but not used yet arrives.  Where two
// moments n groups apart agree in all three, but for D seconds added to every time, everything
// after the second repeats what came after the first: n groups more take D more.  Whole repetitions
// are then left out, and their D added at the end, so that only warm-up, transient, the last groups
// (which may be uneven) and the cool-down are simulated.
//
// Moments are compared when stage 0 waits for its next group and no other stage can go on.  Such a
// repetition comes as a rule after a few groups, with n up to about the number of stages where
// transfers are in the critical path; with nearly equal stages it can come late, and until it comes
// every pass is simulated.
//
// Tests hold it to the events of all passes.
class RepeatingPipeline {
 public:
  RepeatingPipeline(const PipelineShape& shape, std::span<const ChunkTimes> chunks)
      : stages_(shape.stages),
        chunks_(shape.virtual_stages),
        parts_(shape.stages * shape.virtual_stages),
        group_(shape.virtual_stages == 1 ? 1 : microbatch_group(shape)),
        microbatches_(shape.num_microbatches),
        forward_transfer_(shape.forward_transfer),
        backward_transfer_(shape.backward_transfer),
        times_(chunks),
        state_(at(stages_)),
        start_(at(stages_)),
        next_forward_(at(stages_), {.size = std::min(group_, microbatches_)}),
        next_backward_(next_forward_),
        // No more micro-batches wait between two parts than are in flight on the stage of the
        // first.
        forward_(parts_, std::min(microbatches_, warmup_passes(shape, 0) + 1 +
                                                     (longest_repetition() + 1) * group_)),
        backward_(forward_),
        history_(at(stages_) * kMoments) {
    for (int stage = 0; stage < stages_; ++stage) warmup_.push_back(warmup_passes(shape, stage));
  }

  PipelineTimes times() {
    Seconds left_out;
    for (int groups = 1; left_out == Seconds(0.0) && groups + 1 < microbatches_ / group_;
         ++groups) {
      run_until(groups * group_ * chunks_);
      left_out = leave_out_repetitions(groups);
    }
    run_until(std::numeric_limits<int>::max());
    PipelineTimes times{.makespan = {}, .start = start_, .finish = {}, .idle = {}};
    for (const StageState& stage : state_) {
      times.finish.push_back(stage.clock + left_out);
      times.idle.push_back(stage.idle);
    }
    times.makespan = *std::max_element(times.finish.begin(), times.finish.end());
    return times;
  }

 private:
  static constexpr std::size_t kMoments = 64;

  int longest_repetition() const {
    return std::min<int>(kMoments - 1, group_ == 1 ? 2 * stages_ : 4);
  }

  // Runs all passes that need no more than `forwards` forward passes of stage 0.
  void run_until(int forwards) {
    limit_ = forwards;
    for (bool progressed = true; progressed;) {
      progressed = false;
      for (int stage = 0; stage < stages_; ++stage) progressed |= run_stage(stage);
      for (int stage = stages_ - 2; stage > 0; --stage) progressed |= run_stage(stage);
    }
  }

  bool run_stage(int stage) {
    bool progressed = false;
    while (step(stage)) progressed = true;
    return progressed;
  }

  // The stage's next pass, if its input exists.
  bool step(int stage) {
    const StageState& state = state_[at(stage)];
    const int total = microbatches_ * chunks_;
    if (state.backwards == total) return false;
    const bool backward =
        state.forwards == total || state.forwards - state.backwards > warmup_[at(stage)];
    return backward ? step_back(stage) : step_forward(stage);
  }

  bool step_forward(int stage) {
    StageState& state = state_[at(stage)];
    if (stage == 0 && state.forwards >= limit_) return false;
    PassCursor& next = next_forward_[at(stage)];
    const int microbatch = next.microbatch(), part = next.turn * stages_ + stage;
    Seconds start = state.clock;
    if (part > 0) {
      if (!forward_.has(part - 1, microbatch)) return false;
      start = std::max(start, forward_.of(part - 1, microbatch) + forward_transfer_);
    }
    if (state.forwards++ == 0) {
      start_[at(stage)] = start;
    } else {
      state.idle += start - state.clock;
    }
    state.clock = start + times_[at(part)].forward;
    forward_.add(part, microbatch, state.clock);
    next.advance(group_, chunks_, microbatches_);
    return true;
  }

  bool step_back(int stage) {
    StageState& state = state_[at(stage)];
    PassCursor& next = next_backward_[at(stage)];
    const int microbatch = next.microbatch();
    const int part = (chunks_ - 1 - next.turn) * stages_ + stage;
    Seconds start = state.clock;
    if (part < parts_ - 1) {
      if (!backward_.has(part + 1, microbatch)) return false;
      start = std::max(start, backward_.of(part + 1, microbatch) + backward_transfer_);
    }
    ++state.backwards;
    state.idle += start - state.clock;
    state.clock = start + times_[at(part)].backward;
    backward_.add(part, microbatch, state.clock);
    next.advance(group_, chunks_, microbatches_);
    return true;
  }

  // After `groups` groups.  The time of what has been left out, whose idle time the stages get;
  // none while nothing repeats.
  Seconds leave_out_repetitions(int groups) {
    const auto moment = [&](int number) {
      return std::span(history_).subspan(at(number) % kMoments * at(stages_), at(stages_));
    };
    std::copy(state_.begin(), state_.end(), moment(groups).begin());
    for (int back = 1; back <= std::min(groups - 1, longest_repetition()); ++back) {
      const std::span<const StageState> then = moment(groups - back);
      const int microbatches = back * group_;
      if (!repeats(state_, then, forward_, backward_, parts_, microbatches, microbatches * chunks_))
        continue;
      const int repetitions = (microbatches_ / group_ - groups - 1) / back;
      for (int stage = 0; stage < stages_; ++stage)
        state_[at(stage)].idle += repetitions * (state_[at(stage)].idle - then[at(stage)].idle);
      microbatches_ -= repetitions * microbatches;
      return repetitions * (state_[0].clock - then[0].clock);
    }
    return Seconds(0.0);
  }

  int stages_;
  int chunks_;  // of a stage
  int parts_;
  int group_;
  int microbatches_;  // without those that are left out
  Seconds forward_transfer_, backward_transfer_;
  std::span<const ChunkTimes> times_;  // by part
  int limit_ = 0;                      // forward passes of stage 0
  std::vector<int> warmup_;
  std::vector<StageState> state_;
  std::vector<Seconds> start_;
  std::vector<PassCursor> next_forward_, next_backward_;
  PassEnds forward_, backward_;
  std::vector<StageState> history_;  // of the last kMoments moments
};

bool repeats(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::OneForwardOneBackward ||
         schedule == PipelineSchedule::Interleaved;
}

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
  if (repeats(shape.schedule)) return RepeatingPipeline(shape, chunks).times();
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
    for (std::size_t part = stage; part < chunks.size(); part += stages)
      work += chunks[part].forward + chunks[part].backward;
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
