#include "calibrate/leave_one_out.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

constexpr double kNegligible = 0.005;  // influence that is not worth naming
constexpr double kNarrowed = 0.9;      // of the prior's spread: what tells more is a fit

// The groups that tell about each coefficient.
std::vector<std::set<std::size_t>> groups_of(const MeasuredRuns& runs) {
  std::vector<std::set<std::size_t>> groups(runs.coefficients.size());
  for (const MeasuredRun& run : runs.runs) {
    for (const std::size_t k : run.coefficients) groups[k].insert(run.group);
  }
  return groups;
}

std::vector<Influence> influence_on(std::size_t k, const std::set<std::size_t>& groups,
                                    const LeaveOneOut& result) {
  std::vector<Influence> influence;
  influence.reserve(groups.size());
  for (const std::size_t g : groups)
    influence.push_back({g, result.fit.shifts[k] - result.shifts[g][k]});
  std::sort(influence.begin(), influence.end(), [](const Influence& a, const Influence& b) {
    return std::abs(a.shift) > std::abs(b.shift);
  });
  return influence;
}

double jackknife(const std::vector<Influence>& influence) {
  const double n = static_cast<double>(influence.size());
  double mean = 0.0, sum = 0.0;
  for (const Influence& i : influence) mean += i.shift / n;
  for (const Influence& i : influence) sum += std::pow(i.shift - mean, 2);
  return std::sqrt((n - 1.0) / n * sum);
}

std::vector<double> left_out_errors(const MeasuredRuns& runs, const LeaveOneOut& result,
                                    unsigned threads) {
  std::vector<double> errors(runs.runs.size());
  for (std::size_t g = 0; g < runs.groups.size(); ++g) {
    MeasuredRuns group{.coefficients = runs.coefficients, .groups = runs.groups, .runs = {}};
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < runs.runs.size(); ++i) {
      if (runs.runs[i].group != g) continue;
      group.runs.push_back(runs.runs[i]);
      places.push_back(i);
    }
    const std::vector<double> of_group = log_errors(group, result.shifts[g], threads);
    for (std::size_t i = 0; i < places.size(); ++i) errors[places[i]] = of_group[i];
  }
  return errors;
}

std::string printed(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// "step times of 3 groups: a +1.2 %, b -0.8 %": what each adds to the logarithm of the value.
std::string told_by(const MeasuredRuns& runs, const std::vector<Influence>& influence) {
  std::string text = kRunFit + std::to_string(influence.size()) + " groups";
  const char* separator = ": ";
  for (const Influence& i : influence) {
    if (std::abs(i.shift) < kNegligible) continue;
    text += separator + runs.groups[i.group] + printed(" %+.1f %%", 100.0 * i.shift);
    separator = ", ";
  }
  return text;
}

hwdb::Coefficient fitted_row(const MeasuredRuns& runs, const LeaveOneOut& result, std::size_t k) {
  const RunCoefficient& c = runs.coefficients[k];
  const double value = c.prior * std::exp(result.fit.shifts[k]);
  return {.scope = c.scope,
          .id = c.id,
          .key = c.key,
          .value = value,
          .standard_error = value * result.deviations[k],
          .evidence = sim::Evidence::Fitted,
          .source = "tests/validation/runs, prior " + printed("%.3g", c.prior) +
                    printed(" to %.0f %%", 100.0 * c.spread),
          .fitted_from = told_by(runs, result.influence[k])};
}

}  // namespace

LeaveOneOut leave_one_out(const MeasuredRuns& runs, unsigned threads) {
  LeaveOneOut result;
  result.fit = run_fit(runs, {.threads = threads});
  for (std::size_t g = 0; g < runs.groups.size(); ++g) {
    const RunFitOptions rest{
        .without = g, .start = result.fit.shifts, .misfit = result.fit.misfit, .threads = threads};
    result.shifts.push_back(run_fit(runs, rest).shifts);
  }
  result.before = log_errors(runs, std::vector<double>(runs.coefficients.size(), 0.0), threads);
  result.fitted = log_errors(runs, result.fit.shifts, threads);
  result.left_out = left_out_errors(runs, result, threads);
  const auto groups = groups_of(runs);
  for (std::size_t k = 0; k < runs.coefficients.size(); ++k) {
    result.influence.push_back(influence_on(k, groups[k], result));
    result.deviations.push_back(std::max(result.fit.deviations[k], jackknife(result.influence[k])));
  }
  return result;
}

std::vector<hwdb::Coefficient> fitted_rows(const MeasuredRuns& runs, const LeaveOneOut& result) {
  std::vector<hwdb::Coefficient> rows;
  for (std::size_t k = 0; k < runs.coefficients.size(); ++k) {
    if (result.fit.deviations[k] < kNarrowed * runs.coefficients[k].spread)
      rows.push_back(fitted_row(runs, result, k));
  }
  return rows;
}

Backtest backtest_of(
    std::span<const hwdb::RunFile> files, const MeasuredRuns& runs,
    const std::vector<double>& errors,
    const std::function<std::pair<double, double>(std::size_t run)>& log_interval) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < runs.runs.size(); ++i) index[runs.runs[i].id] = i;
  const auto predict = [&](const hwdb::RunRecord& record) {
    const auto found = index.find(record.id);
    if (found == index.end()) throw Error("no scored step time, or none that could be predicted");
    sim::Prediction prediction;
    const double predicted = runs.runs[found->second].measured * std::exp(errors[found->second]);
    const auto [low, high] = log_interval(found->second);
    prediction.step_time = sim::Seconds(predicted);
    prediction.interval = {sim::Seconds(predicted * std::exp(low)),
                           sim::Seconds(predicted * std::exp(high))};
    return prediction;
  };
  return backtest(files, Scope::Dense, predict);
}

}  // namespace llmsim::calibrate
