#include "calibrate/log_summary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "calibrate/statistics.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

// --- the summary ---

constexpr double kFineRounding = 0.005;
constexpr double kAgreement = 0.02;
constexpr double kStraggler = 1.05;
constexpr double kTFLOPS = 1e12;

std::optional<double> median_of(Logged what, const std::vector<RunStep>& steps,
                                const SteadyPhase& phase) {
  std::vector<double> values;
  for (const std::size_t i : phase.steps)
    if (const auto& reading = steps[i].readings()[what]; reading && reading->value > 0.0)
      values.push_back(reading->value);
  return median_if_any(values);
}

// Steps of another global batch than the run's, as while it is ramped up.
std::size_t leave_out_other_batches(std::vector<RunStep>& steps, const StepSize& size,
                                    const std::string& where) {
  std::optional<double> other;
  const std::size_t count = std::erase_if(steps, [&](const RunStep& step) {
    const auto& batch = step.readings()[Logged::GlobalBatch];
    if (!batch || std::abs(batch->value - size.global_batch) <= std::max(batch->rounding, 0.5))
      return false;
    other = batch->value;
    return true;
  });
  if (steps.empty() && other)
    throw Error(where + ": the log has a global batch of " + std::to_string(std::llround(*other)) +
                " sequences, the run training.global_batch = " + std::to_string(size.global_batch) +
                "; name the run that was trained");
  return count;
}

void add_numbers(const std::vector<RunStep>& steps, LogSummary& result) {
  std::vector<double> distances;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& number = steps[i].number;
    if (!number) continue;
    result.first_step = std::min(result.first_step.value_or(*number), *number);
    result.last_step = std::max(result.last_step.value_or(*number), *number);
    if (i > 0 && steps[i - 1].number && steps[i - 1].start == steps[i].start)
      distances.push_back(static_cast<double>(*number - *steps[i - 1].number));
  }
  const double distance = median_if_any(distances).value_or(1.0);
  result.steps_per_line =
      std::max(std::int64_t{1}, static_cast<std::int64_t>(std::min(distance, 1e15)));
}

// How people and run files say what step times are read from; step times themselves need no saying.
struct TimeSource {
  Logged what;
  const char *shown, *derived_from;
};
constexpr TimeSource kTimeSources[] = {
    {Logged::StepsPerSecond, "steps/s", "steps_per_s"},
    {Logged::SamplesPerSecond, "samples/s", "samples_per_s"},
    {Logged::TokensPerSecond, "tokens/s", "tokens_per_s of the run"},
    {Logged::DeviceTokensPerSecond, "tokens/s of one device", "tokens_per_s_per_device"},
    {Logged::PartTime, "the sum of its timers", "sum of forward, backward and step timers"},
    {Logged::MicroStepTime, "the sum of its micro-step timers",
     "sum of forward, backward and step timers"},
    {Logged::StepTime, "step time", nullptr}};

const TimeSource& source_of(Logged what) {
  return *std::ranges::find(kTimeSources, what, &TimeSource::what);
}

// The first that is fine, else the finest; none where no number gives a time.
std::optional<Witness> chosen_witness(const std::vector<Witness>& all) {
  const auto fine = std::ranges::find_if(
      all, [](const Witness& witness) { return witness.rounding <= kFineRounding; });
  const auto best =
      fine != all.end() ? fine : std::ranges::min_element(all, {}, &Witness::rounding);
  return best != all.end() ? std::optional(*best) : std::nullopt;
}

// Median of the times by one witness over those by another.
std::optional<double> median_ratio(const Witness& a, const Witness& b,
                                   const std::vector<RunStep>& steps, const SteadyPhase& phase) {
  std::vector<double> ratios;
  for (const std::size_t i : phase.steps) {
    const auto of_a = a.time_of(steps[i].readings()), of_b = b.time_of(steps[i].readings());
    if (of_a && of_b) ratios.push_back(*of_a / *of_b);
  }
  return median_if_any(std::move(ratios));
}

std::string disagreement(const Witness& rate, const Witness& time, double ratio,
                         const StepSize& size) {
  return std::string("by the printed ") + source_of(rate.what).shown + " a step takes " +
         three_digits(ratio) + " times the printed " + source_of(time.what).shown +
         "; check global_batch = " + std::to_string(size.global_batch) +
         ", seq_len = " + std::to_string(size.seq_len) +
         " and num_devices = " + std::to_string(size.num_devices) + " of the run";
}

// Rates of data that the size of a step turns into another time than the printed.
void compare_witnesses(const std::vector<Witness>& all, const std::vector<RunStep>& steps,
                       const StepSize& size, LogSummary& result) {
  if (all.front().is_rate_of_data()) return;
  for (const Witness& rate : all) {
    if (!rate.is_rate_of_data()) continue;
    const auto ratio = median_ratio(rate, all.front(), steps, result.phase);
    if (ratio &&
        std::abs(*ratio - 1.0) > std::max(kAgreement, rate.rounding + all.front().rounding))
      result.warnings.push_back(disagreement(rate, all.front(), *ratio, size));
  }
}

void add_stragglers(const LoggedRun& run, const Witness& witness, LogSummary& result) {
  std::vector<std::vector<double>> times(run.ranks.size());
  for (const std::size_t i : result.phase.steps)
    for (const auto& [rank, readings] : run.steps[i].of_ranks)
      if (const auto time = witness.time_of(readings)) times[rank].push_back(*time);
  std::vector<double> medians;
  for (const std::vector<double>& of_rank : times)
    if (!of_rank.empty()) medians.push_back(median(of_rank));
  if (medians.size() < 3) return;
  const double usual = median(medians);
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const double slowdown = median_if_any(times[rank]).value_or(usual) / usual;
    if (slowdown > kStraggler) result.stragglers.push_back({run.ranks[rank], slowdown});
  }
  std::ranges::stable_sort(result.stragglers, std::greater<>(), &Straggler::slowdown);
}

// Times by a witness; steps without one are dropped.
std::vector<double> times_of(std::vector<RunStep>& steps, const Witness& witness) {
  std::vector<double> times;
  std::erase_if(steps, [&](const RunStep& step) {
    const auto time = witness.time_of(step);
    if (time) times.push_back(*time);
    return !time;
  });
  return times;
}

std::vector<std::size_t> starts_of(const std::vector<RunStep>& steps) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (steps[i].start != steps[i - 1].start) starts.push_back(i);
  return starts;
}

// Whether the lines of a format have the time on a clock, and no step time.
bool has_clock_alone(const TrainingLog& log, const LogFormat& format) {
  const auto has = [&](Logged what) {
    return std::ranges::any_of(log.streams, [&](const LogStream& stream) {
      return stream.format == &format &&
             std::ranges::any_of(stream.steps, [&](const LoggedStep& step) {
               return step.readings[what].has_value();
             });
    });
  };
  return has(Logged::WallTime) && !has(Logged::StepTime);
}

void add_steps(TrainingLog log, const StepSize& size, LogSummary& result) {
  const std::string where = sim::joined(log.files, ", ");
  std::set<const LogFormat*> by_clock;
  for (const LogStream& stream : log.streams)
    if (has_clock_alone(log, *stream.format)) by_clock.insert(stream.format);
  LoggedRun run = logged_run(std::move(log), size);
  result.steps = run.steps.size();
  add_numbers(run.steps, result);
  result.other_batch = leave_out_other_batches(run.steps, size, where);
  const std::vector<Witness> all = witnesses(run.steps, size);
  const std::optional<Witness> chosen = chosen_witness(all);
  if (!chosen)
    throw Error(where + ": the lines of " + std::string(run.format->name) +
                " are too few, or most lack a step time and a rate, or a step's micro-batches are "
                "not all printed: no training step is read");
  const std::vector<double> times = times_of(run.steps, *chosen);
  const std::vector<std::size_t> starts = starts_of(run.steps);
  result.format = run.format->name;
  result.ranks = run.ranks.size();
  result.restarts = starts.size();
  result.from = chosen->what;
  result.rounding = chosen->rounding;
  result.phase = steady_phase(times, starts);
  result.device_tokens_per_second =
      median_of(Logged::DeviceTokensPerSecond, run.steps, result.phase);
  result.device_flops_per_second = median_of(Logged::DeviceFlopsPerSecond, run.steps, result.phase);
  result.mfu = median_of(Logged::Mfu, run.steps, result.phase);
  result.other_work = run.format->other_work;
  result.by_wall_clock = chosen->what == Logged::StepTime && by_clock.contains(run.format);
  compare_witnesses(all, run.steps, size, result);
  add_stragglers(run, *chosen, result);
}

void add_warnings(LogSummary& result) {
  if (result.out_of_memory && result.has_time())
    result.warnings.emplace_back("after its last step the run was out of memory");
  if (!result.has_time()) return;
  if (!result.other_work.empty())
    result.warnings.push_back("a step of this log is training with " + result.other_work +
                              ": its time is that of the whole loop, and is not scored");
  if (result.by_wall_clock)
    result.warnings.emplace_back(
        "step times are the time between two lines, with all that the program does between them");
  if (result.of_whole_run())
    result.warnings.emplace_back(
        "the log has one mean over all steps, with warm-up and evaluations: the step time is an "
        "upper bound");
  else if (result.phase.steps.size() < 3)
    result.warnings.emplace_back("fewer than three steps count: log more of them");
  if (result.rounding > kAgreement)
    result.warnings.emplace_back(
        "the printed numbers have so few digits that the step time is uncertain by " +
        three_digits(100.0 * result.rounding) + " %");
}

// What loggers that print from the last stage say of memory holds for that stage.
std::optional<std::string> memory_scope(const LogSummary& summary, int pipeline_parallel) {
  if (pipeline_parallel == 1 || summary.ranks > 1) return "max-rank";
  if (summary.format.starts_with("torchtitan") || summary.format == "nanotron") return "last-stage";
  return std::nullopt;
}

}  // namespace

bool LogSummary::of_whole_run() const {
  return std::ranges::any_of(
      log_formats(), [&](const LogFormat& row) { return row.name == format && row.whole_run; });
}

double LogSummary::noise() const { return std::max(phase.spread, rounding); }

LogSummary summary(TrainingLog log, const StepSize& size) {
  LogSummary result;
  result.peak_allocated = log.peak_allocated;
  result.peak_reserved = log.peak_reserved;
  result.out_of_memory = log.out_of_memory;
  if (!log.streams.empty()) add_steps(std::move(log), size, result);
  add_warnings(result);
  return result;
}

hwdb::Measured measured(const LogSummary& summary, int pipeline_parallel) {
  hwdb::Measured result;
  result.outcome = summary.out_of_memory ? "oom" : "ok";
  if (summary.has_time()) {
    result.step_time = sim::Seconds(summary.phase.median);
    if (const char* const from = source_of(summary.from).derived_from)
      result.step_time_derived_from = from;
    result.tokens_per_second_per_device = summary.device_tokens_per_second;
    if (summary.device_flops_per_second)
      result.reported_tflops_per_device = *summary.device_flops_per_second / kTFLOPS;
    result.reported_mfu = summary.mfu;
  }
  const bool allocated = summary.peak_allocated.has_value();
  result.peak_memory = allocated ? summary.peak_allocated : summary.peak_reserved;
  if (!result.peak_memory) return result;
  result.memory_kind = allocated ? "allocated" : "reserved";
  result.memory_scope = memory_scope(summary, pipeline_parallel);
  return result;
}

hwdb::Scored scored(const LogSummary& summary, const hwdb::Measured& measured,
                    int pipeline_parallel) {
  hwdb::Scored result;
  result.step_time = measured.step_time.has_value() && summary.rounding <= kAgreement &&
                     summary.other_work.empty();
  result.memory = measured.peak_memory && !summary.out_of_memory &&
                  (pipeline_parallel == 1 || measured.memory_scope);
  result.outcome = !summary.out_of_memory || !summary.has_time();
  return result;
}

}  // namespace llmsim::calibrate
