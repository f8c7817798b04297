#include "sim/pipeline/repeating_pipeline.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace llmsim::sim {
namespace {

// Two times that differ by less, relative to the clock, differ by rounding: each is a sum of up to
// some thousand durations.
constexpr double kRounding = 2e-13;

struct StageState {
  Seconds clock{};
  Seconds idle{};    // until then, since its first pass began
  int forwards = 0;  // passes done
  int backwards = 0;
};

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
        times_(chunks) {
    const auto p = static_cast<std::size_t>(stages_), parts = static_cast<std::size_t>(parts_);
    const PassCursor begin{.size = std::min(group_, microbatches_)};
    state_.resize(p), start_.resize(p), history_.resize(p * kMoments);
    next_forward_.resize(p, begin), next_backward_.resize(p, begin);
    for (int stage = 0; stage < stages_; ++stage) warmup_.push_back(warmup_passes(shape, stage));
    // No more micro-batches wait between two parts than are in flight on the stage of the first.
    const int kept = warmup_[0] + 1 + (longest_repetition() + 1) * group_;
    while (capacity_ < std::min(microbatches_, kept)) capacity_ *= 2;
    forward_end_.resize(parts * static_cast<std::size_t>(capacity_));
    backward_end_.resize(forward_end_.size());
    forwards_of_.resize(parts), backwards_of_.resize(parts);
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
      if (forwards_of_[at(part - 1)] <= microbatch) return false;
      start = std::max(start, forward_end_[place(part - 1, microbatch)] + forward_transfer_);
    }
    if (state.forwards++ == 0) {
      start_[at(stage)] = start;
    } else {
      state.idle += start - state.clock;
    }
    state.clock = start + times_[at(part)].forward;
    forward_end_[place(part, microbatch)] = state.clock;
    ++forwards_of_[at(part)];
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
      if (backwards_of_[at(part + 1)] <= microbatch) return false;
      start = std::max(start, backward_end_[place(part + 1, microbatch)] + backward_transfer_);
    }
    ++state.backwards;
    state.idle += start - state.clock;
    state.clock = start + times_[at(part)].backward;
    backward_end_[place(part, microbatch)] = state.clock;
    ++backwards_of_[at(part)];
    next.advance(group_, chunks_, microbatches_);
    return true;
  }

  // After `groups` groups.  The time of what has been left out, whose idle time the stages get;
  // none while nothing repeats.
  Seconds leave_out_repetitions(int groups) {
    const std::size_t now = static_cast<std::size_t>(groups) % kMoments;
    std::copy(state_.begin(), state_.end(), moment(now));
    for (int back = 1; back <= std::min(groups - 1, longest_repetition()); ++back) {
      if (!repeats(back, moment(static_cast<std::size_t>(groups - back) % kMoments))) continue;
      const int repetitions = (microbatches_ / group_ - groups - 1) / back;
      const auto then = moment(static_cast<std::size_t>(groups - back) % kMoments);
      const Seconds period = state_[0].clock - then->clock;
      for (int stage = 0; stage < stages_; ++stage)
        state_[at(stage)].idle += repetitions * (state_[at(stage)].idle - then[stage].idle);
      microbatches_ -= repetitions * back * group_;
      return repetitions * period;
    }
    return Seconds(0.0);
  }

  // Whether all is as it was `back` groups ago.
  bool repeats(int back, std::vector<StageState>::const_iterator then) const {
    const Seconds period = state_[0].clock - then->clock, rounding = kRounding * state_[0].clock;
    const auto later = [&](Seconds now, Seconds before) {
      const Seconds difference = now - before - period;
      return difference <= rounding && -difference <= rounding;
    };
    for (int stage = 0; stage < stages_; ++stage) {
      if (!later(state_[at(stage)].clock, then[stage].clock)) return false;
    }
    const int passes = back * group_ * chunks_, microbatches = back * group_;
    for (int stage = 0; stage < stages_; ++stage) {
      if (state_[at(stage)].forwards - then[stage].forwards != passes) return false;
      if (state_[at(stage)].backwards - then[stage].backwards != passes) return false;
    }
    for (int part = 0; part + 1 < parts_; ++part) {
      for (int i = forwards_of_[at(part + 1)]; i < forwards_of_[at(part)]; ++i) {
        if (!later(forward_end_[place(part, i)], forward_end_[place(part, i - microbatches)]))
          return false;
      }
      for (int i = backwards_of_[at(part)]; i < backwards_of_[at(part + 1)]; ++i) {
        if (!later(backward_end_[place(part + 1, i)],
                   backward_end_[place(part + 1, i - microbatches)]))
          return false;
      }
    }
    return true;
  }

  std::vector<StageState>::iterator moment(std::size_t number) {
    return history_.begin() + static_cast<std::ptrdiff_t>(number) * stages_;
  }

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

  std::size_t place(int part, int microbatch) const {
    return static_cast<std::size_t>(part) * static_cast<std::size_t>(capacity_) +
           static_cast<std::size_t>(microbatch & (capacity_ - 1));
  }

  int stages_;
  int chunks_;  // of a stage
  int parts_;
  int group_;
  int microbatches_;  // without those that are left out
  Seconds forward_transfer_, backward_transfer_;
  std::span<const ChunkTimes> times_;  // by part
  int capacity_ = 1;                   // micro-batches whose ends are kept, a power of two
  int limit_ = 0;                      // forward passes of stage 0
  std::vector<int> warmup_;
  std::vector<StageState> state_;
  std::vector<Seconds> start_;
  std::vector<PassCursor> next_forward_, next_backward_;
  std::vector<Seconds> forward_end_, backward_end_;  // by part and micro-batch
  std::vector<int> forwards_of_, backwards_of_;      // passes of each part
  std::vector<StageState> history_;                  // of the last kMoments moments
};

}  // namespace

PipelineTimes repeating_pipeline_times(const PipelineShape& shape,
                                       std::span<const ChunkTimes> chunks) {
  return RepeatingPipeline(shape, chunks).times();
}

}  // namespace llmsim::sim
