#include "calibrate/backtest.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string_view>

#include "calibrate/ablation.h"
#include "calibrate/setting.h"
#include "calibrate/statistics.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using hwdb::RunRecord;

constexpr std::size_t kSmallGroup = 3;

// --- one row ---

std::string verdict(const sim::Prediction& prediction) {
  if (prediction.feasible()) return "ok";
  const std::string& rule = prediction.infeasible->rule;
  return rule == "out of memory" || rule == "out of host memory" ? "oom" : "infeasible";
}

// None where the run breaks another rule.
std::optional<double> fit_probability(const sim::Prediction& prediction) {
  const std::string said = verdict(prediction);
  if (said == "infeasible") return std::nullopt;
  return prediction.memory.host.fits() ? prediction.memory.fit_probability() : 0.0;
}

bool usable(double value) { return std::isfinite(value) && value > 0.0; }

void set_measured(const RunRecord& record, BacktestRow& row) {
  row.id = record.id;
  row.group = record.group;
  row.scored = record.scored;
  if (!record.measured) return;
  row.measured_time = record.measured->step_time;
  row.measured_peak = record.measured->peak_memory;
  row.measured_outcome = record.measured->outcome;
}

bool is_arithmetic(const sim::TimeTerm& part) {
  for (int t = 0; t < sim::kNumTerms; ++t) {
    const auto term = static_cast<sim::Term>(t);
    if (counts_as_arithmetic(term) && part.name == std::string_view(name_of(term))) return true;
  }
  return false;
}

// "none" of a step that is all arithmetic.
std::string largest_wait(const std::vector<sim::TimeTerm>& step) {
  const sim::TimeTerm* largest = nullptr;
  for (const sim::TimeTerm& part : step) {
    if (!is_arithmetic(part) && (!largest || part.time > largest->time)) largest = &part;
  }
  return largest ? largest->name : "none";
}

void set_predicted(const RunRecord& record, const sim::Prediction& prediction, BacktestRow& row) {
  row.device = prediction.run.cluster.device.id;
  row.framework = prediction.run.framework.id;
  row.precision = name_of(prediction.run.strategy.precision);
  row.waits_for = largest_wait(prediction.breakdown);
  row.predicted_outcome = verdict(prediction);
  if (usable(prediction.step_time.value())) {
    row.predicted_time = prediction.step_time;
    row.predicted_rate = prediction.flops_per_device;
    row.predicted_tokens_per_second = prediction.tokens_per_second_per_device;
    row.interval = prediction.interval;
    if (row.measured_time)
      row.warnings = sim::implausible_measurement(prediction, *row.measured_time);
  }
  const sim::Bytes peak =
      comparable_peak(prediction.memory, record.measured.value_or(hwdb::Measured{}));
  if (usable(peak.value())) {
    row.predicted_peak = peak;
    row.peak_interval = prediction.memory.interval(peak, prediction.interval_level);
  }
  row.fit_probability = fit_probability(prediction);
  if (row.predicted_outcome == "infeasible") row.skipped = prediction.infeasible->message;
}

BacktestRow skipped_row(std::string id, std::string group, std::string reason) {
  BacktestRow row;
  row.id = std::move(id);
  row.group = std::move(group);
  row.skipped = std::move(reason);
  row.unread = true;
  return row;
}

// --- errors of one group ---

// The middle value, or the mean of the two middle ones.
struct Sample {
  std::vector<double> abs_errors, signed_errors, relative_errors, inside;
  int missed = 0;
  std::vector<double> memory_errors, memory_relative_errors, memory_inside;
  std::vector<double> ok_right, oom_right;  // 1 for a right verdict, 0 for a wrong one
  std::vector<double> brier_scores;
};

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

template <typename Quantity>
std::optional<bool> inside(const std::optional<std::pair<Quantity, Quantity>>& interval,
                           const std::optional<Quantity>& measured) {
  if (!interval || !measured) return std::nullopt;
  return interval->first <= *measured && *measured <= interval->second;
}

void add_time(const BacktestRow& row, Sample& sample) {
  if (!row.scored.step_time || !row.measured_time) return;
  if (!row.predicted_time) {
    ++sample.missed;
    sample.abs_errors.push_back(kMissedError);
    sample.relative_errors.push_back(kMissedError);
    sample.inside.push_back(0.0);
    return;
  }
  const double ratio = *row.predicted_time / *row.measured_time;
  sample.abs_errors.push_back(std::abs(std::log(ratio)));
  sample.signed_errors.push_back(std::log(ratio));
  sample.relative_errors.push_back(std::abs(ratio - 1.0));
  sample.inside.push_back(row.time_inside() == true ? 1.0 : 0.0);
}

void add_memory(const BacktestRow& row, Sample& sample) {
  if (!row.scored.memory || !row.measured_peak) return;
  const double ratio = row.predicted_peak ? *row.predicted_peak / *row.measured_peak : 0.0;
  sample.memory_errors.push_back(row.predicted_peak ? std::abs(std::log(ratio)) : kMissedError);
  sample.memory_relative_errors.push_back(row.predicted_peak ? std::abs(ratio - 1.0)
                                                             : kMissedError);
  sample.memory_inside.push_back(row.peak_inside() == true ? 1.0 : 0.0);
}

void add_outcome(const BacktestRow& row, Sample& sample) {
  if (!row.scored.outcome || !row.measured_outcome) return;
  const double right = row.predicted_outcome == row.measured_outcome ? 1.0 : 0.0;
  if (*row.measured_outcome == "ok") sample.ok_right.push_back(right);
  if (*row.measured_outcome == "oom") sample.oom_right.push_back(right);
  if (*row.measured_outcome != "ok" && *row.measured_outcome != "oom") return;
  const double ran = *row.measured_outcome == "ok" ? 1.0 : 0.0;
  const double miss = row.fit_probability ? *row.fit_probability - ran : kMissedError;
  sample.brier_scores.push_back(miss * miss);
}

void merge_times(const Sample& from, Sample& to) {
  append(to.abs_errors, from.abs_errors);
  append(to.signed_errors, from.signed_errors);
  append(to.relative_errors, from.relative_errors);
  append(to.inside, from.inside);
  to.missed += from.missed;
}

void set_times(const Sample& sample, GroupErrors& group) {
  group.scored = static_cast<int>(sample.abs_errors.size());
  group.missed = sample.missed;
  group.median_abs_error = median_if_any(sample.abs_errors);
  group.mean_abs_error = mean_if_any(sample.abs_errors);
  group.mape = mean_if_any(sample.relative_errors);
  group.bias = mean_if_any(sample.signed_errors);
  group.coverage = mean_if_any(sample.inside);
}

int right(const Sample& sample) {
  return static_cast<int>(std::accumulate(sample.ok_right.begin(), sample.ok_right.end(), 0.0) +
                          std::accumulate(sample.oom_right.begin(), sample.oom_right.end(), 0.0));
}

GroupErrors group_errors(const std::string& name, const Sample& sample) {
  GroupErrors group;
  group.group = name;
  if (sample.abs_errors.size() >= kSmallGroup) set_times(sample, group);
  group.memory_scored = static_cast<int>(sample.memory_errors.size());
  group.memory_median_abs_error = median_if_any(sample.memory_errors);
  group.memory_coverage = mean_if_any(sample.memory_inside);
  group.outcomes = static_cast<int>(sample.ok_right.size() + sample.oom_right.size());
  group.outcomes_right = right(sample);
  return group;
}

std::vector<GroupErrors> all_group_errors(const std::map<std::string, Sample>& samples) {
  std::vector<GroupErrors> groups;
  Sample small;
  for (const auto& [name, sample] : samples) {
    if (sample.abs_errors.size() < kSmallGroup) merge_times(sample, small);
    GroupErrors group = group_errors(name, sample);
    if (group.scored > 0 || group.memory_scored > 0 || group.outcomes > 0)
      groups.push_back(std::move(group));
  }
  if (!small.abs_errors.empty()) {
    GroupErrors pooled;
    pooled.group = "(small groups)";
    set_times(small, pooled);
    groups.insert(groups.begin(), pooled);
  }
  return groups;
}

// --- overall ---

// Mean over the groups that have the figure.
std::optional<double> mean_over(const std::vector<GroupErrors>& groups,
                                std::optional<double> GroupErrors::*figure) {
  std::vector<double> values;
  for (const GroupErrors& group : groups) {
    if (group.*figure) values.push_back(*(group.*figure));
  }
  return mean_if_any(values);
}

void set_outcomes(const Sample& all, OverallErrors& overall) {
  overall.outcomes = static_cast<int>(all.ok_right.size() + all.oom_right.size());
  overall.outcomes_right = right(all);
  if (overall.outcomes == 0) return;
  overall.outcome_accuracy = static_cast<double>(overall.outcomes_right) / overall.outcomes;
  std::vector<double> classes;
  for (const auto* verdicts : {&all.ok_right, &all.oom_right}) {
    if (const std::optional<double> fraction = mean_if_any(*verdicts)) classes.push_back(*fraction);
  }
  overall.balanced_outcome_accuracy = mean_if_any(classes);
  overall.brier_score = mean_if_any(all.brier_scores);
}

OverallErrors overall_errors(const std::vector<GroupErrors>& groups, const Sample& all) {
  OverallErrors overall;
  for (const GroupErrors& group : groups) {
    overall.groups += group.scored > 0 ? 1 : 0;
    overall.scored += group.scored;
    overall.missed += group.missed;
    overall.memory_scored += group.memory_scored;
  }
  overall.macro_median_abs_error = mean_over(groups, &GroupErrors::median_abs_error);
  overall.macro_mean_abs_error = mean_over(groups, &GroupErrors::mean_abs_error);
  overall.coverage = mean_over(groups, &GroupErrors::coverage);
  overall.memory_mape = mean_if_any(all.memory_relative_errors);
  overall.memory_macro_median_abs_error = mean_over(groups, &GroupErrors::memory_median_abs_error);
  overall.memory_coverage = mean_over(groups, &GroupErrors::memory_coverage);
  set_outcomes(all, overall);
  return overall;
}

void set_errors(Backtest& result) {
  std::map<std::string, Sample> samples;
  Sample all;
  for (const BacktestRow& row : result.rows) {
    Sample& sample = samples[row.group];
    add_time(row, sample);
    for (Sample* target : {&sample, &all}) {
      add_memory(row, *target);
      add_outcome(row, *target);
    }
  }
  result.groups = all_group_errors(samples);
  result.overall = overall_errors(result.groups, all);
}

// Largest of a figure over the stages that a measurement speaks of.
sim::Bytes largest(const sim::Memory& memory, const std::string& scope,
                   sim::Bytes sim::StageMemory::*figure) {
  if (scope == "last-stage") return memory.stages.back().*figure;
  if (scope == "first-or-last-stage")
    return std::max(memory.stages.front().*figure, memory.stages.back().*figure);
  sim::Bytes most{};
  for (const sim::StageMemory& stage : memory.stages) most = std::max(most, stage.*figure);
  return most;
}

constexpr double kOnTheLine = 1e-6;
constexpr int kFewestTriples = 3;

using ByBatch = std::map<int, double>;  // global batch -> seconds

struct Triples {
  int all = 0;
  int on_the_line = 0;
};

bool is_exact(const hwdb::RunRecord& record) {
  return record.scored.step_time && record.measured && record.measured->step_time &&
         record.training.strategy.contains("global_batch") &&
         rounding(*record.measured) < kOnTheLine;
}

double off_the_line(ByBatch::const_iterator first) {
  const auto middle = std::next(first), last = std::next(middle);
  const double part =
      static_cast<double>(middle->first - first->first) / (last->first - first->first);
  return std::abs(first->second + part * (last->second - first->second) - middle->second) /
         middle->second;
}

void count(const ByBatch& times, Triples& triples) {
  auto first = times.begin();
  for (std::size_t i = 2; i < times.size(); ++i, ++first) {
    ++triples.all;
    triples.on_the_line += off_the_line(first) < kOnTheLine ? 1 : 0;
  }
}

}  // namespace

BacktestRow row_of(const RunRecord& record, const Predictor& predict) {
  BacktestRow row;
  set_measured(record, row);
  try {
    set_predicted(record, predict(record), row);
  } catch (const Error& error) {
    row.skipped = error.what();
  }
  return row;
}

std::optional<double> BacktestRow::time_error() const {
  return log_ratio(measured_time, predicted_time);
}

std::optional<double> BacktestRow::peak_error() const {
  return log_ratio(measured_peak, predicted_peak);
}
std::optional<bool> BacktestRow::time_inside() const { return inside(interval, measured_time); }
std::optional<bool> BacktestRow::peak_inside() const {
  return inside(peak_interval, measured_peak);
}

sim::NameTable<Scope> name_table(Scope) {
  static constexpr sim::Named<Scope> kScopes[] = {
      {Scope::Dense, "dense"}, {Scope::Moe, "moe"}, {Scope::All, "all"}};
  return kScopes;
}

bool in_scope(const RunRecord& record, Scope scope) {
  if (scope == Scope::All) return true;
  const bool moe = sim::states_object(record.model.fields, "moe") ||
                   sim::stated<int>(record.training.strategy, "ep").value_or(1) > 1 ||
                   sim::stated<int>(record.training.strategy, "cp").value_or(1) > 1;
  return moe == (scope == Scope::Moe);
}

sim::Bytes comparable_peak(const sim::Memory& memory, const hwdb::Measured& measured) {
  if (memory.stages.empty()) return memory.peak;
  const std::string kind = measured.memory_kind.value_or("reserved"),
                    scope = measured.memory_scope.value_or("");
  if (kind == "allocated") return largest(memory, scope, &sim::StageMemory::peak);
  const sim::Bytes reserved = largest(memory, scope, &sim::StageMemory::reserved);
  return kind == "device" ? reserved + memory.context : reserved;
}

Backtest backtest(std::span<const hwdb::RunFile> files, Scope scope, const Predictor& predict,
                  const Progress& progress) {
  Backtest result;
  std::set<std::string> seen;
  std::size_t done = 0, all = 0;
  for (const hwdb::RunFile& file : files) all += file.runs.size();
  for (const hwdb::RunFile& file : files) {
    for (const RunRecord& record : file.runs) {
      if (progress) progress(done, all);
      ++done;
      const bool first = seen.insert(record.id).second;
      if (!in_scope(record, scope)) continue;
      result.rows.push_back(
          first ? row_of(record, predict)
                : skipped_row(record.id, record.group,
                              file.file + ": run " + record.id + ": this id appears twice"));
    }
    for (const hwdb::RejectedRun& run : file.rejected)
      result.rows.push_back(skipped_row(run.id, file.group, run.reason));
  }
  set_errors(result);
  return result;
}

std::set<std::string> computed_groups(std::span<const hwdb::RunFile> files) {
  std::map<std::string, std::map<std::string, ByBatch>> studies;
  for (const hwdb::RunFile& file : files) {
    for (const hwdb::RunRecord& record : file.runs) {
      if (!is_exact(record)) continue;
      // What runs share that differ in the global batch alone.
      hwdb::RunRecord rest = record;
      rest.training.strategy.erase("global_batch");
      studies[record.group][all_but("global_batch", rest, settings_of(rest))].emplace(
          *sim::stated<int>(record.training.strategy, "global_batch"),
          record.measured->step_time->value());
    }
  }
  std::set<std::string> groups;
  for (const auto& [group, study] : studies) {
    Triples triples;
    for (const auto& [key, times] : study) count(times, triples);
    if (triples.on_the_line >= kFewestTriples && 2 * triples.on_the_line > triples.all)
      groups.insert(group);
  }
  return groups;
}

std::map<std::string, std::string> unfitted_groups(std::span<const hwdb::RunFile> files) {
  std::map<std::string, std::string> reasons;
  for (const std::string& group : computed_groups(files))
    reasons[group] = "its step times were computed";
  for (const hwdb::RunFile& file : files)
    if (!file.unmodelled.empty()) reasons[file.group] = file.unmodelled;
  return reasons;
}

}  // namespace llmsim::calibrate
