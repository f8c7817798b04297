#include "calibrate/logged_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "calibrate/statistics.h"

namespace llmsim::calibrate {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kEnoughSteps = 5;

// --- the format ---

std::size_t steps_in(const TrainingLog& log, const LogFormat& format) {
  std::size_t count = 0;
  for (const LogStream& stream : log.streams)
    if (stream.format == &format) count += stream.steps.size();
  return count;
}

const LogFormat& best_format(const TrainingLog& log) {
  const LogFormat* best = nullptr;
  std::size_t most = 0;
  for (const LogFormat& format : log_formats()) {
    const std::size_t steps = steps_in(log, format);
    if (steps >= kEnoughSteps && !format.whole_run) return format;
    if (steps > most) most = steps, best = &format;
  }
  return *best;
}

// --- one run of several streams ---

std::set<std::int64_t> numbers_of(const LogStream& stream) {
  std::set<std::int64_t> numbers;
  for (const LoggedStep& step : stream.steps)
    if (step.number) numbers.insert(*step.number);
  return numbers;
}

// Whether at least half of the steps of the smaller of two streams are in the other.
bool share_steps(const LogStream& a, const LogStream& b) {
  const std::set<std::int64_t> of_a = numbers_of(a), of_b = numbers_of(b);
  const auto common = static_cast<std::size_t>(
      std::ranges::count_if(of_a, [&](std::int64_t n) { return of_b.contains(n); }));
  return common > 0 && 2 * common >= std::min(of_a.size(), of_b.size());
}

// Which streams are of one rank, one after the other: those of one label, and files without labels
// whose steps differ.
struct Ranks {
  std::vector<std::vector<LogStream*>> parts;
  std::vector<std::string> names;
};

std::string name_of(const LogStream& stream, const TrainingLog& log) {
  return stream.rank.empty() ? fs::path(log.files[stream.file]).filename().string()
                             : "rank " + stream.rank;
}

Ranks ranks_of(std::vector<LogStream>& streams, const TrainingLog& log) {
  Ranks ranks;
  for (LogStream& each : streams) {
    LogStream* const stream = &each;
    const auto continues = [&](const std::vector<LogStream*>& parts) {
      return parts.front()->rank == stream->rank &&
             std::ranges::none_of(parts, [&](const LogStream* p) {
               return p->file == stream->file || share_steps(*p, *stream);
             });
    };
    const auto place = std::ranges::find_if(ranks.parts, continues);
    if (place != ranks.parts.end()) {
      place->push_back(stream);
      continue;
    }
    ranks.parts.push_back({stream});
    std::string name = name_of(*stream, log);
    if (std::ranges::count(ranks.names, name) != 0)
      name += " of " + fs::path(log.files[stream->file]).filename().string();
    ranks.names.push_back(name);
  }
  return ranks;
}

// Steps of all ranks in the order of the first that has them.  Steps without numbers are those of
// the same place.  The readings move there.
std::vector<RunStep> run_steps(const Ranks& ranks) {
  std::vector<RunStep> steps;
  std::map<std::pair<std::size_t, std::int64_t>, std::size_t> places;
  for (std::size_t rank = 0; rank < ranks.parts.size(); ++rank) {
    std::size_t start = 0;
    std::int64_t place = 0;
    for (LogStream* part : ranks.parts[rank]) {
      for (LoggedStep& step : part->steps) {
        const std::pair key{start + step.start, step.number.value_or(place)};
        ++place;
        const auto [found, fresh] = places.try_emplace(key, steps.size());
        if (fresh) steps.push_back({.start = key.first, .number = step.number});
        steps[found->second].of_ranks.emplace_back(rank, std::move(step.readings));
      }
      start += part->steps.back().start + 1;
    }
  }
  std::ranges::stable_sort(steps, {}, &RunStep::start);
  return steps;
}

// --- times ---

// Median rounding of those that say it; none where fewer than half of the steps do.
std::optional<double> rounding_of(const Witness& witness, const std::vector<RunStep>& steps) {
  std::vector<double> roundings;
  for (const RunStep& step : steps)
    for (const auto& [rank, readings] : step.of_ranks)
      if (witness.time_of(readings)) {
        roundings.push_back(readings[witness.what]->relative_rounding());
        break;
      }
  if (roundings.empty() || 2 * roundings.size() < steps.size()) return std::nullopt;
  return median(roundings);
}

// Timers of all micro-batches of a step, added; those of a step that is cut off are dropped.
std::vector<LoggedStep> added_micro_steps(const std::vector<LoggedStep>& steps, int micro_batches) {
  const auto parts = static_cast<std::size_t>(std::max(1, micro_batches));
  std::vector<LoggedStep> whole;
  for (std::size_t i = 0; i + parts <= steps.size(); i += parts) {
    whole.push_back(steps[i]);
    for (std::size_t k = 1; k < parts; ++k)
      if (const auto& part = steps[i + k].readings[Logged::MicroStepTime])
        whole.back().readings.add(Logged::MicroStepTime, *part);
  }
  return whole;
}

// Times of all micro-batches of an optimizer step, added, where each is on a line of its own, with
// the number of the step that it ends or precedes; steps with micro-batches that are not printed
// are dropped.
std::vector<LoggedStep> added_updates(const std::vector<LoggedStep>& lines) {
  const auto update_of = [](const LoggedStep& line) {
    const auto& update = line.readings[Logged::Update];
    return update ? std::llround(update->value) : 0LL;
  };
  std::vector<LoggedStep> whole;
  std::size_t begin = 0;  // of the lines behind the last end of a step
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const long long before = i > 0 ? update_of(lines[i - 1]) : 0;
    if (update_of(lines[i]) == before) continue;
    LoggedStep step = lines[i];
    const auto first = begin > 0 ? lines[begin - 1].number.value_or(0) : std::int64_t{0};
    const bool complete = lines[i].number && update_of(lines[i]) == before + 1 &&
                          *lines[i].number - first == static_cast<std::int64_t>(i + 1 - begin);
    for (std::size_t k = begin; k < i; ++k)
      if (const auto& time = lines[k].readings[Logged::MicroStepTime])
        step.readings.add(Logged::MicroStepTime, *time);
    step.number = update_of(lines[i]);
    if (complete) whole.push_back(step);
    begin = i + 1;
  }
  return whole;
}

bool has_only_elapsed_time(const LoggedStep& step) {
  Readings rest = step.readings;
  rest.set(Logged::ElapsedTime, std::nullopt), rest.set(Logged::WallTime, std::nullopt);
  return !rest.has_time();
}

// The time between two lines, over the steps between them.
std::optional<Reading> time_between(const LoggedStep& before, const LoggedStep& after) {
  const Logged clock = before.readings[Logged::WallTime] ? Logged::WallTime : Logged::ElapsedTime;
  const auto &then = before.readings[clock], &now = after.readings[clock];
  if (!then || !now || before.start != after.start) return std::nullopt;
  const bool numbered = before.number && after.number;
  const double count =
      numbered ? static_cast<double>(*after.number) - static_cast<double>(*before.number) : 1.0;
  if (count < 1.0) return std::nullopt;
  return Reading{(now->value - then->value) / count, 2.0 * now->rounding / count};
}

// Steps with times of their own, where the log has those of micro-batches or cumulated ones.
std::vector<LoggedStep> whole_steps(LogStream&& stream, const StepSize& size) {
  std::vector<LoggedStep> steps = std::move(stream.steps);
  if (steps.front().readings[Logged::Update])
    steps = added_updates(steps);
  else if (steps.front().readings[Logged::MicroStepTime])
    steps = added_micro_steps(steps, size.num_microbatches);
  if (!std::ranges::all_of(steps, has_only_elapsed_time)) return steps;
  for (std::size_t i = steps.size(); i-- > 1;)
    steps[i].readings.set(Logged::StepTime, time_between(steps[i - 1], steps[i]));
  return steps;
}

}  // namespace

bool Witness::is_rate_of_data() const {
  return what == Logged::SamplesPerSecond || what == Logged::TokensPerSecond ||
         what == Logged::DeviceTokensPerSecond;
}

std::optional<double> Witness::time_of(const Readings& readings) const {
  const std::optional<Reading>& reading = readings[what];
  if (!reading) return std::nullopt;
  const double time = work > 0.0 ? work / reading->value : reading->value;
  return std::isfinite(time) && time > 0.0 ? std::optional(time) : std::nullopt;
}

std::optional<double> Witness::time_of(const RunStep& step) const {
  std::optional<double> longest;
  for (const auto& [rank, readings] : step.of_ranks)
    if (const auto time = time_of(readings)) longest = std::max(longest.value_or(0.0), *time);
  return longest;
}

std::vector<Witness> witnesses(const std::vector<RunStep>& steps, const StepSize& size) {
  const double batch = size.global_batch, tokens = batch * size.seq_len;
  std::vector<Witness> found;
  for (Witness witness :
       {Witness{Logged::StepTime}, Witness{Logged::PartTime}, Witness{Logged::MicroStepTime},
        Witness{Logged::StepsPerSecond, 1.0}, Witness{Logged::SamplesPerSecond, batch},
        Witness{Logged::TokensPerSecond, tokens},
        Witness{Logged::DeviceTokensPerSecond, tokens / size.num_devices}}) {
    const std::optional<double> rounding = rounding_of(witness, steps);
    if (!rounding) continue;
    witness.rounding = *rounding;
    found.push_back(witness);
  }
  return found;
}

StepSize step_size(const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  return {.global_batch = s.global_batch,
          .seq_len = run.model.seq_len,
          .num_devices = run.cluster.num_devices,
          .num_microbatches = s.global_batch / std::max(1, s.dp * s.micro_batch)};
}

LoggedRun logged_run(TrainingLog log, const StepSize& size) {
  LoggedRun run{.format = &best_format(log)};
  std::vector<LogStream> streams;
  for (LogStream& stream : log.streams) {
    if (stream.format != run.format) continue;
    streams.push_back({.format = stream.format, .rank = stream.rank, .file = stream.file});
    streams.back().steps = whole_steps(std::move(stream), size);
    if (streams.back().steps.empty()) streams.pop_back();
  }
  Ranks ranks = ranks_of(streams, log);
  run.steps = run_steps(ranks);
  run.ranks = std::move(ranks.names);
  return run;
}

}  // namespace llmsim::calibrate
