#include "sim/pipeline/repeating_pipeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory_resource>
#include <optional>
#include <utility>
#include <vector>

namespace llmsim::sim {
namespace {

// Two times that differ by less, relative to the clock, differ by rounding: each is a sum of up to
// some thousand durations.
constexpr double kRounding = 2e-13;

// Bytes of the stack for the values of most simulations; those of long pipelines need others too.
constexpr std::size_t kArena = 1 << 16;

// Groups that are compared at most.
constexpr int kLongestRepetition = 63;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

Seconds later_of(Seconds one, Seconds other) { return one < other ? other : one; }

// Of an input that a pass does not need: the stage is free later than that.
constexpr Seconds kNoInput{-std::numeric_limits<double>::infinity()};

// Values of a simulation, in the memory that it has for all of them.
using Arena = std::pmr::memory_resource;
template <class Value>
using Values = std::pmr::vector<Value>;

// Of each stage, when all have done the passes of so many groups.
struct Moment {
  std::span<Seconds> clock;   // end of its last pass
  std::span<Seconds> idle;    // until then, since its first pass began
  std::span<Seconds> before;  // end of the last backward pass but one, where chunks are interleaved
};

// The last of them.
class Moments {
 public:
  Moments(int stages, int longest_repetition, Arena* arena)
      : stages_(at(stages)),
        kept_(longest_repetition + 1),
        times_(kKinds * stages_ * at(kept_), arena) {}

  Moment after(int groups) {
    const std::span<Seconds> all =
        std::span(times_).subspan(at(groups % kept_) * kKinds * stages_, kKinds * stages_);
    return {.clock = all.first(stages_),
            .idle = all.subspan(stages_, stages_),
            .before = all.last(stages_)};
  }

 private:
  static constexpr std::size_t kKinds = 3;
  std::size_t stages_;
  int kept_;
  Values<Seconds> times_;
};

// Whether a time is a period later than another.
class Later {
 public:
  Later(Seconds period, Seconds clock) : period_(period), rounding_(kRounding * clock) {}

  bool operator()(Seconds now, Seconds then) const {
    const Seconds difference = now - then - period_;
    return difference <= rounding_ && -difference <= rounding_;
  }
  bool operator()(std::span<const Seconds> now, std::span<const Seconds> then) const {
    return std::equal(now.begin(), now.end(), then.begin(), *this);
  }

 private:
  Seconds period_, rounding_;
};

// What both schedules have in common.
struct RepeatingShape {
  RepeatingShape(const PipelineShape& shape, std::span<const ChunkTimes> times)
      : stages(shape.stages),
        chunks(shape.virtual_stages),
        group(shape.virtual_stages == 1 ? 1 : microbatch_group(shape)),
        microbatches(shape.num_microbatches),
        // Of stage 0, as if there were enough of them.
        warmup(chunks == 1 ? stages - 1 : 2 * (stages - 1) + (chunks - 1) * group),
        forward_transfer(shape.forward_transfer),
        backward_transfer(shape.backward_transfer),
        part_times(times) {}

  int longest_repetition() const {
    return std::min(kLongestRepetition, group == 1 ? 2 * stages : 4);
  }
  int passes() const { return microbatches * chunks; }    // of each direction on a stage
  int passes_of_group() const { return group * chunks; }  // of all but an uneven last one

  int stages, chunks, group, microbatches, warmup;
  Seconds forward_transfer, backward_transfer;
  std::span<const ChunkTimes> part_times;
};

PipelineTimes stage_times(std::span<const Seconds> start, std::span<const Seconds> finish,
                          std::span<const Seconds> idle) {
  return {.start = {start.begin(), start.end()},
          .finish = {finish.begin(), finish.end()},
          .idle = {idle.begin(), idle.end()}};
}

// 1F1B.
class OneChunkSweeps {
 public:
  OneChunkSweeps(const RepeatingShape& shape, Arena* arena)
      : shape_(shape),
        start_(at(shape.stages), arena),
        clock_(at(shape.stages), arena),
        idle_(at(shape.stages), arena),
        backward_(at(shape.stages), arena) {}

  void run_to(Moment moment) {
    sweep();
    std::copy(clock_.begin(), clock_.end(), moment.clock.begin());
    std::copy(idle_.begin(), idle_.end(), moment.idle.begin());
  }
  bool repeats(const Moment&, const Moment&, int, int, const Later&) const { return true; }
  void wait_longer(std::span<const Seconds> idle) {
    for (std::size_t stage = 0; stage < idle_.size(); ++stage) idle_[stage] += idle[stage];
  }
  PipelineTimes run_to_end() {
    while (done_ < shape_.microbatches) sweep();
    drain();
    return stage_times(start_, clock_, idle_);
  }

 private:
  // The next forward pass of each stage and the backward pass after it.
  void sweep() {
    const std::size_t last = clock_.size() - 1;
    const std::size_t first_back = last - std::min(last, at(done_));
    Seconds input = kNoInput;
    for (std::size_t stage = 0; stage <= last; ++stage) {
      Seconds clock = clock_[stage];
      const Seconds start = later_of(clock, input);
      if (done_ == 0)
        start_[stage] = start;
      else
        idle_[stage] += start - clock;
      clock = start + shape_.part_times[stage].forward;
      input = clock + shape_.forward_transfer;
      clock_[stage] = clock;
      if (stage >= first_back) back(stage);
    }
    ++done_;
  }

  void back(std::size_t stage) {
    const Seconds clock = clock_[stage];
    const Seconds start = stage + 1 == clock_.size()
                              ? clock
                              : later_of(clock, backward_[stage + 1] + shape_.backward_transfer);
    idle_[stage] += start - clock;
    clock_[stage] = backward_[stage] = start + shape_.part_times[stage].backward;
  }

  // Backward passes after the last forward pass: of stage s the last p - s - 1, or all.
  void drain() {
    const int last = shape_.stages - 1, microbatches = shape_.microbatches;
    for (int sweep = microbatches; sweep < microbatches + last; ++sweep)
      for (int stage = std::max(0, last - sweep); stage < last - (sweep - microbatches); ++stage)
        back(at(stage));
  }

  const RepeatingShape& shape_;
  Values<Seconds> start_, clock_, idle_;
  Values<Seconds> backward_;  // ends of the last ones
  int done_ = 0;              // forward passes of each stage
};

// Of stage 0 or the last one: its passes of a direction go through one chunk for a group of
// micro-batches, then through the next.
struct ChunkTurn {
  int chunk = -1;               // in the order of the direction; none yet
  int begin = 0;                // its first pass
  int size = 0;                 // micro-batches of the group
  int first_of_next_group = 0;  // micro-batch

  int end() const { return begin + size; }

  void advance(const RepeatingShape& shape) {
    begin = end();
    if (++chunk > 0 && chunk < shape.chunks) return;
    chunk = 0;
    size = std::min(shape.group, shape.microbatches - first_of_next_group);
    first_of_next_group += size;
  }
};

// The last ends of a stage's passes of one direction.
class PassEnds {
 public:
  PassEnds(int kept, Arena* arena) : ends_(arena) {
    while (capacity_ < kept) capacity_ *= 2;
    ends_.resize(at(capacity_));
  }
  Seconds& operator[](int pass) { return ends_[at(pass & (capacity_ - 1))]; }
  Seconds operator[](int pass) const { return ends_[at(pass & (capacity_ - 1))]; }

 private:
  int capacity_ = 1;  // a power of two
  Values<Seconds> ends_;
};

// One direction of all stages.
struct Direction {
  ChunkTurn turn{};         // of the stage that has it first
  Seconds* time = nullptr;  // of the chunk that each stage is at
  // Of the passes of the last sweep and of the one before, which are the inputs of the last one.
  // There is a place more than stages, at the end at which a direction begins: its input comes from
  // the other end.
  Seconds* ends = nullptr;
  Seconds* inputs = nullptr;
};

// Passes of one sweep on stages one after the other: each starts when its stage is free and its
// input is there.
inline void run_stages(int first, int end, Seconds transfer, const Seconds* __restrict inputs,
                       const Seconds* __restrict time, Seconds* __restrict clock,
                       Seconds* __restrict idle, Seconds* __restrict ends) {
  for (int i = first; i < end; ++i) {
    const Seconds free = clock[i], start = later_of(free, inputs[i] + transfer);
    idle[i] += start - free;
    clock[i] = ends[i] = start + time[i];
  }
}

// Interleaved chunks.
class InterleavedSweeps {
 public:
  InterleavedSweeps(const RepeatingShape& shape, Arena* arena);

  // The stages come to the moment one after the other, each in the sweep after that of the stage
  // before.
  void run_to(Moment moment) {
    moment_ += shape_.passes_of_group();
    run_before(moment_ - 2);
    for (int stage = 0; stage <= stages_; ++stage) {
      run_before(moment_ - 1 + stage);
      if (stage < stages_) moment.before[at(stage)] = now_.backward.ends[stage];
      if (stage == 1) at_moment_ = now_, columns_at_moment_ = columns_;
      if (stage == 0) continue;
      moment.clock[at(stage - 1)] = clock()[stage - 1];
      moment.idle[at(stage - 1)] = idle()[stage - 1];
    }
  }

  // Whether what has been sent and not been used yet ended a period later than `back` groups ago.
  bool repeats(const Moment& now, const Moment& then, int groups, int back,
               const Later& later) const {
    if (!later(now.before.subspan(1), then.before.subspan(1))) return false;
    const int passes = shape_.passes_of_group();
    for (int pass = (groups - 1) * passes; pass < groups * passes - shape_.warmup; ++pass) {
      if (!later(backward_of_first_[pass], backward_of_first_[pass - back * passes])) return false;
    }
    return true;
  }

  // At the moment.  What stages have done since then they do again: idle times are summed in the
  // order in which they come.
  void wait_longer(std::span<const Seconds> longer) {
    now_ = at_moment_;
    std::copy(columns_at_moment_.begin(), columns_at_moment_.end(), columns_.begin());
    idle()[0] += longer[0];
    for (int stage = 1; stage < stages_; ++stage) {
      run_before(moment_ + stage);
      idle()[stage] += longer[at(stage)];
    }
  }

  PipelineTimes run_to_end() {
    run_before(shape_.passes() + shape_.warmup);
    const std::size_t stages = at(stages_);
    return stage_times(start_, {clock(), stages}, {idle(), stages});
  }

 private:
  struct Progress {
    int sweep = 0;  // the next one
    Direction forward, backward;
  };

  // Of the last group that is compared: those that no other stage has used.
  static int kept_backward(const RepeatingShape& shape) {
    const bool some_unused = shape.group > 2 * (shape.stages - 1);
    return 1 +
           (some_unused ? (shape.longest_repetition() + 2) * shape.passes_of_group() : shape.group);
  }

  Seconds* column(int number) { return columns_.data() + number * (stages_ + 1); }
  Seconds* clock() { return column(0); }
  Seconds* idle() { return column(1); }

  void run_before(int end) {
    Progress now = now_;
    for (; now.sweep < end; ++now.sweep) sweep_forward(now), sweep_backward(now);
    now_ = now;
  }
  void sweep_forward(Progress& now);
  void sweep_backward(Progress& now);

  static constexpr std::size_t kColumns = 8;

  const RepeatingShape& shape_;
  int stages_;
  int moment_ = 0;           // forward passes of a stage
  Values<Seconds> columns_;  // of values of all stages
  Progress now_{};
  Values<Seconds> columns_at_moment_;
  Progress at_moment_{};
  Values<Seconds> start_;
  PassEnds forward_of_last_, backward_of_first_;  // stage
};

InterleavedSweeps::InterleavedSweeps(const RepeatingShape& shape, Arena* arena)
    : shape_(shape),
      stages_(shape.stages),
      columns_(kColumns * at(stages_ + 1), arena),
      columns_at_moment_(arena),
      start_(at(stages_), arena),
      forward_of_last_(shape.group + 1, arena),
      backward_of_first_(kept_backward(shape), arena) {
  now_.forward.time = column(2), now_.forward.ends = column(3), now_.forward.inputs = column(4);
  now_.backward.time = column(5), now_.backward.ends = column(6), now_.backward.inputs = column(7);
}

// Stage s is at pass t - s.
inline void InterleavedSweeps::sweep_forward(Progress& now) {
  Direction& own = now.forward;
  const int t = now.sweep, passes = shape_.passes();
  const int first = std::max(0, t - passes + 1), last = std::min(stages_ - 1, t);
  if (first > last) return;
  std::swap(own.ends, own.inputs);
  if (t < passes) {
    if (t == own.turn.end()) own.turn.advance(shape_);
    own.inputs[0] = own.turn.chunk > 0 ? forward_of_last_[t - own.turn.size] : kNoInput;
  }
  if (const int stage = t - own.turn.begin; stage < stages_)
    own.time[stage] = shape_.part_times[at(own.turn.chunk * stages_ + stage)].forward;
  run_stages(first, last + 1, shape_.forward_transfer, own.inputs, own.time, clock(), idle(),
             own.ends + 1);
  if (t < stages_) start_[at(t)] = std::exchange(idle()[t], Seconds{});
  if (last == stages_ - 1) forward_of_last_[t - last] = own.ends[stages_];
}

// The last stage, which has a micro-batch first, is at pass t + p - 1 - w_0, stage s at p - 1 - s
// fewer.
inline void InterleavedSweeps::sweep_backward(Progress& now) {
  Direction& own = now.backward;
  const int of_last = now.sweep + stages_ - 1 - shape_.warmup, passes = shape_.passes();
  const int first = std::max(0, stages_ - 1 - of_last),
            last = std::min(stages_ - 1, passes + stages_ - 2 - of_last);
  if (of_last < 0 || first > last) return;
  std::swap(own.ends, own.inputs);
  if (of_last < passes) {
    if (of_last == own.turn.end()) own.turn.advance(shape_);
    own.inputs[stages_] =
        own.turn.chunk > 0 ? backward_of_first_[of_last - own.turn.size] : kNoInput;
  }
  if (const int stage = stages_ - 1 - (of_last - own.turn.begin); stage >= 0) {
    const int chunk = shape_.chunks - 1 - own.turn.chunk;
    own.time[stage] = shape_.part_times[at(chunk * stages_ + stage)].backward;
  }
  run_stages(first, last + 1, shape_.backward_transfer, own.inputs + 1, own.time, clock(), idle(),
             own.ends);
  if (first == 0) backward_of_first_[of_last - stages_ + 1] = own.ends[0];
}

// The repetition that ends after so many groups: of how many groups it is; none.
template <class Sweeps>
std::optional<int> repeated_groups(const Sweeps& sweeps, const RepeatingShape& shape,
                                   Moments& moments, int groups) {
  const Moment now = moments.after(groups);
  for (int back = 1; back <= std::min(groups - 1, shape.longest_repetition()); ++back) {
    if ((groups - back) * shape.passes_of_group() < shape.warmup) break;
    const Moment then = moments.after(groups - back);
    const Later later(now.clock[0] - then.clock[0], now.clock[0]);
    if (later(now.clock, then.clock) && sweeps.repeats(now, then, groups, back, later)) return back;
  }
  return std::nullopt;
}

template <class Sweeps>
PipelineTimes times_of(RepeatingShape shape) {
  alignas(64) std::array<std::byte, kArena> buffer;
  std::pmr::monotonic_buffer_resource arena(buffer.data(), buffer.size());
  Sweeps sweeps(shape, &arena);
  Moments moments(shape.stages, shape.longest_repetition(), &arena);
  Seconds left_out{};
  for (int groups = 1; groups + 1 < shape.microbatches / shape.group; ++groups) {
    const Moment now = moments.after(groups);
    sweeps.run_to(now);
    const std::optional<int> back = repeated_groups(sweeps, shape, moments, groups);
    if (!back) continue;
    const int repetitions = (shape.microbatches / shape.group - groups - 1) / *back;
    if (repetitions == 0) continue;
    const Moment then = moments.after(groups - *back);
    for (std::size_t stage = 0; stage < now.idle.size(); ++stage)
      now.idle[stage] = repetitions * (now.idle[stage] - then.idle[stage]);
    sweeps.wait_longer(now.idle);
    shape.microbatches -= repetitions * *back * shape.group;
    left_out = repetitions * (now.clock[0] - then.clock[0]);
    break;
  }
  PipelineTimes times = sweeps.run_to_end();
  for (Seconds& finish : times.finish) finish += left_out;
  return times;
}

}  // namespace

bool passes_repeat(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::OneForwardOneBackward ||
         schedule == PipelineSchedule::Interleaved;
}

PipelineTimes repeating_pipeline_times(const PipelineShape& shape,
                                       std::span<const ChunkTimes> chunks) {
  const RepeatingShape repeating(shape, chunks);
  PipelineTimes times = repeating.chunks == 1 ? times_of<OneChunkSweeps>(repeating)
                                              : times_of<InterleavedSweeps>(repeating);
  times.makespan = *std::max_element(times.finish.begin(), times.finish.end());
  return times;
}

}  // namespace llmsim::sim
