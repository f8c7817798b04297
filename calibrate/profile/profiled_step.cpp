#include "calibrate/profile/profiled_step.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

namespace llmsim::calibrate {

namespace {

using hwdb::DeviceEvent;
using hwdb::KernelClass;
using hwdb::ProfileTrace;
using hwdb::TimeSpan;

// --- which steps ---

// Marked steps before the first of which the profiler starts.
constexpr std::size_t kWithWarmUp = 3;
// Kernels between two occurrences of a rare one that must be the same, and how many rare kernels
// are tried.
constexpr double kRepeats = 0.95;
constexpr std::size_t kTriedKernels = 16;

TimeSpan whole_span(const ProfileTrace& trace) {
  TimeSpan span{trace.events.front().start, trace.events.front().end()};
  for (const DeviceEvent& event : trace.events) span.end = std::max(span.end, event.end());
  return span;
}

std::optional<StepWindow> marked_window(const ProfileTrace& trace) {
  std::vector<TimeSpan> steps;
  for (const TimeSpan& step : trace.steps)
    if (step.length() > 0) steps.push_back(step);
  if (steps.size() >= kWithWarmUp) steps.erase(steps.begin());
  if (steps.empty()) return std::nullopt;
  return StepWindow{.span = {steps.front().start, steps.back().end},
                    .steps = static_cast<int>(steps.size()),
                    .marks = StepMarks::Profiler};
}

// Times at which a step ends and the next begins.
std::optional<StepWindow> window_between(const std::vector<std::int64_t>& bounds, StepMarks marks) {
  if (bounds.size() < 2 || bounds.back() <= bounds.front()) return std::nullopt;
  return StepWindow{.span = {bounds.front(), bounds.back()},
                    .steps = static_cast<int>(bounds.size() - 1),
                    .marks = marks};
}

// Bursts of optimizer kernels are what gaps of at least half the longest one part.
std::optional<StepWindow> optimizer_window(const ProfileTrace& trace) {
  std::vector<TimeSpan> updates;
  std::int64_t longest = 0;
  for (const DeviceEvent& event : trace.events) {
    if (trace.kernels(event) != KernelClass::Optimizer) continue;
    if (!updates.empty()) longest = std::max(longest, event.start - updates.back().end);
    updates.push_back({event.start, event.end()});
  }
  std::vector<std::int64_t> bounds;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const bool last = i + 1 == updates.size();
    if (last || updates[i + 1].start - updates[i].end > longest / 2)
      bounds.push_back(updates[i].end);
  }
  return window_between(bounds, StepMarks::Optimizer);
}

// Programs that mark each micro-batch have several marks from one update to the next.
bool marks_microbatches(const StepWindow& marked, const StepWindow& updates) {
  constexpr double kLonger = 1.5;
  const auto mean = [](const StepWindow& window) {
    return static_cast<double>(window.span.length()) / window.steps;
  };
  return mean(updates) > kLonger * mean(marked);
}

// Whether the kernels from each place of `places` to the next are alike, and most of all kernels.
bool repeats(const std::vector<std::uint32_t>& names, const std::vector<std::size_t>& places) {
  const std::size_t period = places[1] - places[0];
  std::size_t alike = 0, all = 0;
  if (2 * (places.back() - places.front() + period) < names.size()) return false;
  for (std::size_t i = 0; i + 1 < places.size(); ++i) {
    if (places[i + 1] - places[i] != period) return false;
    for (std::size_t k = places[i]; k < places[i + 1] && k + period < names.size(); ++k, ++all)
      alike += names[k] == names[k + period] ? 1 : 0;
  }
  return all > 0 && static_cast<double>(alike) >= kRepeats * static_cast<double>(all);
}

std::optional<StepWindow> periodic_window(const ProfileTrace& trace) {
  std::vector<std::uint32_t> names;
  std::vector<std::int64_t> starts;
  std::map<std::uint32_t, std::vector<std::size_t>> places;
  for (const DeviceEvent& event : trace.events) {
    if (trace.kernels(event) == KernelClass::Collective ||
        trace.kernels(event) == KernelClass::Copy)
      continue;
    places[event.name].push_back(names.size());
    names.push_back(event.name);
    starts.push_back(event.start);
  }
  std::vector<const std::vector<std::size_t>*> rare;
  for (const auto& [name, of_name] : places)
    if (of_name.size() >= 2) rare.push_back(&of_name);
  std::ranges::stable_sort(rare, {}, [](const auto* of_name) { return of_name->size(); });
  for (std::size_t i = 0; i < std::min(rare.size(), kTriedKernels); ++i) {
    if (!repeats(names, *rare[i])) continue;
    std::vector<std::int64_t> bounds;
    for (const std::size_t place : *rare[i]) bounds.push_back(starts[place]);
    return window_between(bounds, StepMarks::Period);
  }
  return std::nullopt;
}

// --- exposed times ---

// The instants of a step that some work has taken.
class Cover {
 public:
  // What `work` has of the instants that are left, each piece once; spans are by start.
  template <class Visit>
  void take(const std::vector<std::pair<TimeSpan, std::size_t>>& work, const Visit& visit) {
    std::vector<TimeSpan> taken;
    std::size_t place = 0;
    std::int64_t until = std::numeric_limits<std::int64_t>::min();
    for (const auto& [span, index] : work) {
      const TimeSpan piece{std::max(span.start, until), span.end};
      if (piece.length() <= 0) continue;
      until = span.end;
      while (place < spans_.size() && spans_[place].end <= piece.start) ++place;
      visit(index, piece.length() - covered(piece, place));
      taken.push_back(piece);
    }
    merge(taken);
  }
  std::int64_t total() const {
    std::int64_t sum = 0;
    for (const TimeSpan& span : spans_) sum += span.length();
    return sum;
  }
  // Spans inside of `whole` that are not covered.
  std::size_t gaps(const TimeSpan& whole) const {
    if (spans_.empty()) return 1;
    return spans_.size() - 1 + (spans_.front().start > whole.start ? 1 : 0) +
           (spans_.back().end < whole.end ? 1 : 0);
  }

 private:
  std::int64_t covered(const TimeSpan& piece, std::size_t place) const {
    std::int64_t sum = 0;
    for (; place < spans_.size() && spans_[place].start < piece.end; ++place)
      sum += std::min(piece.end, spans_[place].end) - std::max(piece.start, spans_[place].start);
    return sum;
  }
  void merge(const std::vector<TimeSpan>& taken) {
    std::vector<TimeSpan> both(spans_.size() + taken.size()), merged;
    std::ranges::merge(spans_, taken, both.begin(), {}, &TimeSpan::start, &TimeSpan::start);
    for (const TimeSpan& span : both) {
      if (!merged.empty() && span.start <= merged.back().end)
        merged.back().end = std::max(merged.back().end, span.end);
      else
        merged.push_back(span);
    }
    spans_ = std::move(merged);
  }

  std::vector<TimeSpan> spans_;  // apart, by start
};

// Nanoseconds of all steps of a window.
struct Nanoseconds {
  std::int64_t kernels = 0, busy = 0, exposed = 0;

  KernelTotal of_step(int steps) const {
    const auto mean = [&](std::int64_t sum) { return static_cast<double>(sum) / steps; };
    return {mean(kernels), sim::Seconds(1e-9 * mean(busy)), sim::Seconds(1e-9 * mean(exposed))};
  }
};

using Work = std::vector<std::pair<TimeSpan, std::size_t>>;

void sort_by_start(Work& work) {
  std::ranges::stable_sort(work, {}, [](const auto& one) { return one.first.start; });
}

// Which calls are the same: group and kind.
using CallKey = std::tuple<std::string, std::string, int, int>;

CallKey key_of(const hwdb::CollectiveCall& call) {
  return {call.group, call.description, call.ranks, call.kind ? static_cast<int>(*call.kind) : -1};
}

// A trace while its step is put together.
struct Profiled {
  const ProfileTrace& trace;
  StepWindow window;
  std::vector<DeviceEvent> calls{};   // of collectives, inside of the window
  std::vector<std::int64_t> waits{};  // of each call
};

TimeSpan clipped(const TimeSpan& span, const TimeSpan& window) {
  return {std::max(span.start, window.start), std::min(span.end, window.end)};
}

TimeSpan span_in(const Profiled& profiled, const DeviceEvent& event) {
  return clipped({event.start, event.end()}, profiled.window.span);
}

Profiled profiled_of(const ProfileTrace& trace) {
  Profiled profiled{.trace = trace, .window = step_window(trace)};
  for (const DeviceEvent& event : trace.events)
    if (trace.kernels(event) == KernelClass::Collective && span_in(profiled, event).length() > 0)
      profiled.calls.push_back(event);
  profiled.waits.assign(profiled.calls.size(), 0);
  return profiled;
}

// --- waiting ---

using Places = std::map<CallKey, std::vector<std::size_t>>;

Places places_of(const Profiled& profiled) {
  Places places;
  for (std::size_t i = 0; i < profiled.calls.size(); ++i) {
    const std::uint32_t detail = profiled.calls[i].detail;
    if (detail == hwdb::kNoDetail) continue;
    const hwdb::CollectiveCall& call = profiled.trace.collectives[detail];
    if (call.kind && *call.kind != sim::CollectiveKind::SendRecv) places[key_of(call)].push_back(i);
  }
  return places;
}

// The same calls on one rank: their places among its calls.
struct RankCalls {
  Profiled* rank;
  std::vector<std::size_t> places;

  std::int64_t& wait(std::size_t i) const { return rank->waits[places[i]]; }
  std::int64_t duration(std::size_t i) const { return rank->calls[places[i]].duration; }
};

void add_waits(const std::vector<RankCalls>& ranks) {
  const std::size_t calls = ranks.front().places.size();
  const bool equal = std::ranges::all_of(
      ranks, [&](const RankCalls& rank) { return rank.places.size() == calls; });
  if (ranks.size() < 2 || !equal) return;
  for (std::size_t i = 0; i < calls; ++i) {
    std::int64_t wire = std::numeric_limits<std::int64_t>::max();
    for (const RankCalls& rank : ranks) wire = std::min(wire, rank.duration(i));
    for (const RankCalls& rank : ranks) rank.wait(i) = rank.duration(i) - wire;
  }
}

void add_waits(std::vector<Profiled>& ranks) {
  std::map<CallKey, std::vector<RankCalls>> same;
  for (Profiled& rank : ranks)
    for (auto& [key, places] : places_of(rank)) same[key].push_back({&rank, std::move(places)});
  for (const auto& [key, calls] : same) add_waits(calls);
}

// --- one rank ---

// What is counted of a rank, in nanoseconds.
struct Counts {
  std::array<Nanoseconds, hwdb::kNumKernelClasses> classes{};
  Nanoseconds attention_forward;
  std::vector<Nanoseconds> names, shapes;
  std::map<CallKey, std::size_t> groups;
  std::vector<ProfiledCollective> collectives;
  std::vector<Nanoseconds> of_collectives;
  std::vector<std::int64_t> wire, waiting_exposed;  // of collectives
  std::int64_t loading = 0;
};

void add_kernel(Counts& counts, const ProfileTrace& trace, const DeviceEvent& event,
                const Nanoseconds& added) {
  const auto add = [&](Nanoseconds& sum) {
    sum.kernels += added.kernels;
    sum.busy += added.busy;
    sum.exposed += added.exposed;
  };
  const hwdb::KernelName& name = trace.names[event.name];
  add(counts.classes[static_cast<std::size_t>(name.kernels)]);
  add(counts.names[event.name]);
  if (name.kernels == KernelClass::Attention && !name.backward) add(counts.attention_forward);
  if (name.kernels == KernelClass::Gemm && event.detail != hwdb::kNoDetail)
    add(counts.shapes[event.detail]);
}

// The kernels of a level, and what of the step is theirs.
void take_kernels(Counts& counts, Cover& cover, const Profiled& rank, bool copies) {
  Work work;
  for (std::size_t i = 0; i < rank.trace.events.size(); ++i) {
    const DeviceEvent& event = rank.trace.events[i];
    const KernelClass kernels = rank.trace.kernels(event);
    const TimeSpan span = span_in(rank, event);
    if (kernels == KernelClass::Collective || (kernels == KernelClass::Copy) != copies ||
        span.length() <= 0)
      continue;
    add_kernel(counts, rank.trace, event, {.kernels = 1, .busy = span.length()});
    work.emplace_back(span, i);
  }
  cover.take(work, [&](std::size_t index, std::int64_t exposed) {
    add_kernel(counts, rank.trace, rank.trace.events[index], {.exposed = exposed});
  });
}

std::size_t group_of(Counts& counts, const Profiled& rank, const DeviceEvent& event) {
  const hwdb::CollectiveCall call = event.detail == hwdb::kNoDetail
                                        ? hwdb::CollectiveCall{}
                                        : rank.trace.collectives[event.detail];
  const auto [found, is_new] = counts.groups.try_emplace(key_of(call), counts.collectives.size());
  if (is_new) {
    counts.collectives.push_back({.call = call});
    counts.collectives.back().call.message = sim::Bytes(0.0);
    counts.of_collectives.emplace_back();
    counts.wire.push_back(0);
    counts.waiting_exposed.push_back(0);
  }
  counts.collectives[found->second].call.message += call.message;
  return found->second;
}

void take_collectives(Counts& counts, Cover& cover, const Profiled& rank) {
  std::vector<std::size_t> groups;
  Work wires, waits;
  for (std::size_t i = 0; i < rank.calls.size(); ++i) {
    const DeviceEvent& event = rank.calls[i];
    const std::size_t group = group_of(counts, rank, event);
    const TimeSpan span = span_in(rank, event);
    const std::int64_t arrival = std::clamp(event.start + rank.waits[i], span.start, span.end);
    add_kernel(counts, rank.trace, event, {.kernels = 1, .busy = span.length()});
    counts.of_collectives[group].kernels += 1;
    counts.of_collectives[group].busy += span.length();
    counts.wire[group] += span.end - arrival;
    wires.push_back({{arrival, span.end}, i});
    waits.push_back({{span.start, arrival}, i});
    groups.push_back(group);
  }
  for (Work* work : {&wires, &waits}) {
    sort_by_start(*work);
    cover.take(*work, [&](std::size_t index, std::int64_t exposed) {
      add_kernel(counts, rank.trace, rank.calls[index], {.exposed = exposed});
      counts.of_collectives[groups[index]].exposed += exposed;
      if (work == &waits) counts.waiting_exposed[groups[index]] += exposed;
    });
  }
}

void take_loading(Counts& counts, Cover& cover, const Profiled& rank) {
  Work work;
  for (const TimeSpan& span : rank.trace.loading)
    if (const TimeSpan inside = clipped(span, rank.window.span); inside.length() > 0)
      work.emplace_back(inside, 0);
  cover.take(work, [&](std::size_t, std::int64_t exposed) { counts.loading += exposed; });
}

// Of nanoseconds of all steps, a step's.
sim::Seconds mean_of(std::int64_t sum, int steps) {
  return sim::Seconds(1e-9 * static_cast<double>(sum) / steps);
}

// Collectives, GEMMs by shape and kernels by name, each of which ran, of a step in the mean.
void add_lists(ProfiledStep& step, const Counts& counts, const Profiled& rank) {
  const int steps = rank.window.steps;
  for (std::size_t i = 0; i < counts.collectives.size(); ++i) {
    ProfiledCollective& collective = step.collectives.emplace_back(counts.collectives[i]);
    collective.call.message /= steps;
    collective.total = counts.of_collectives[i].of_step(steps);
    collective.wire = mean_of(counts.wire[i], steps);
    collective.waiting_exposed = mean_of(counts.waiting_exposed[i], steps);
  }
  for (std::size_t i = 0; i < counts.shapes.size(); ++i)
    if (counts.shapes[i].kernels > 0)
      step.gemms.push_back({rank.trace.shapes[i], counts.shapes[i].of_step(steps)});
  for (std::size_t i = 0; i < counts.names.size(); ++i)
    if (counts.names[i].kernels > 0)
      step.kernels.push_back(
          {rank.trace.names[i].text, rank.trace.names[i].kernels, counts.names[i].of_step(steps)});
  std::ranges::stable_sort(step.kernels, [](const ProfiledKernel& a, const ProfiledKernel& b) {
    return a.total.busy > b.total.busy;
  });
}

ProfiledStep step_of(const Profiled& rank) {
  Counts counts;
  counts.names.resize(rank.trace.names.size());
  counts.shapes.resize(rank.trace.shapes.size());
  Cover cover;
  take_kernels(counts, cover, rank, false);
  take_collectives(counts, cover, rank);
  take_kernels(counts, cover, rank, true);
  const std::size_t gaps = cover.gaps(rank.window.span);
  take_loading(counts, cover, rank);

  const int steps = rank.window.steps;
  const std::int64_t length = rank.window.span.length();
  ProfiledStep step{.file = rank.trace.file,
                    .rank = rank.trace.rank,
                    .world_size = rank.trace.world_size,
                    .window = rank.window,
                    .step = mean_of(length, steps),
                    .attention_forward = counts.attention_forward.of_step(steps),
                    .loading = mean_of(counts.loading, steps),
                    .idle = mean_of(length - cover.total(), steps),
                    .gaps = static_cast<double>(gaps) / steps,
                    .predicted = rank.trace.predicted};
  for (std::size_t i = 0; i < counts.classes.size(); ++i)
    step.classes[i] = counts.classes[i].of_step(steps);
  add_lists(step, counts, rank);
  return step;
}

}  // namespace

sim::NameTable<StepMarks> name_table(StepMarks) {
  static constexpr auto kNames =
      sim::in_order<StepMarks>({"profiler", "optimizer", "period", "none"});
  return kNames;
}

StepWindow step_window(const ProfileTrace& trace) {
  const auto marked = marked_window(trace), updates = optimizer_window(trace);
  if (marked && !(updates && marks_microbatches(*marked, *updates))) return *marked;
  if (updates) return *updates;
  if (const auto periodic = periodic_window(trace)) return *periodic;
  return {.span = whole_span(trace)};
}

sim::Seconds ProfiledStep::waiting() const {
  sim::Seconds sum;
  for (const ProfiledCollective& collective : collectives) sum += collective.waiting_exposed;
  return sum;
}

std::vector<ProfiledStep> profiled_steps(std::span<const ProfileTrace> traces) {
  std::vector<Profiled> ranks;
  for (const ProfileTrace& trace : traces) ranks.push_back(profiled_of(trace));
  add_waits(ranks);
  std::vector<ProfiledStep> steps;
  for (const Profiled& rank : ranks) steps.push_back(step_of(rank));
  return steps;
}

}  // namespace llmsim::calibrate
