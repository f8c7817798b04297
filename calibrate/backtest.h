// Back-tests: predictions held against measured runs, by group.
//
// With m measured and p predicted, the error of a row is ln(p / m); a group's error is the median
// of |ln(p / m)|, its bias the mean of ln(p / m), its coverage the fraction of measured times
// inside the predicted interval.  A scored row without a prediction counts as an error of 1 outside
// every interval.  Each group counts once: the macro error is the mean of the groups' errors.
// Groups with fewer than three scored times are pooled into one, named "(small groups)".  Memory
// errors are not pooled.  Peaks have errors, intervals and coverage alike.
//
// A verdict is a probability P that the run fits; with y = 1 for a run that ran and 0 for one that
// was out of memory, its Brier score is (P - y)^2: 0 for a sure and right verdict, 1 for a sure and
// wrong one, 1/4 for "nobody knows".  Host memory that does not suffice is P = 0.
// Source: Brier, Monthly Weather Review 78 (1950).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hwdb/runs/run_record.h"
#include "sim/predict.h"

namespace llmsim::calibrate {

// Error of a scored row without a prediction.
inline constexpr double kMissedError = 1.0;

// Which runs: Moe are those with experts, expert or context parallelism; Dense all others.
enum class Scope { Dense, Moe, All };

sim::NameTable<Scope> name_table(Scope);
bool in_scope(const hwdb::RunRecord& record, Scope scope);

// One measured run and its prediction.  Measured values are here whether they are scored or not.
struct BacktestRow {
  std::string id;
  std::string group;
  hwdb::Scored scored;
  // Of the prediction, where there is one: ids, the number format, and the key of the largest
  // component of the step that is no arithmetic.
  std::string device{}, framework{}, precision{}, waits_for{};
  std::optional<sim::Seconds> measured_time, predicted_time;
  std::optional<std::pair<sim::Seconds, sim::Seconds>> interval;
  std::optional<sim::Bytes> measured_peak, predicted_peak;
  std::optional<std::pair<sim::Bytes, sim::Bytes>> peak_interval;
  // Rates of a device, of exact GEMMs and causal attention.
  std::optional<sim::FlopsPerSecond> predicted_rate;
  std::optional<double> predicted_tokens_per_second;
  std::optional<double> fit_probability;
  // Predicted: "ok", "oom", "infeasible".
  std::optional<std::string> measured_outcome, predicted_outcome;
  std::optional<std::string> skipped;   // why there is no prediction
  std::vector<std::string> warnings{};  // measured values that cannot be right, see sim/predict.h
  bool unread = false;  // skipped because the run could not be read, or its id appeared before

  std::optional<double> time_error() const;  // ln(predicted / measured)
  std::optional<double> peak_error() const;
  // Whether the interval holds the measured value, both ends included.
  std::optional<bool> time_inside() const;
  std::optional<bool> peak_inside() const;
};

// Scored times and memory peaks of one group.  Errors of times are none where the
// group has none scored.
struct GroupErrors {
  std::string group;
  int scored = 0;  // scored times
  int missed = 0;  // of them, without a prediction
  std::optional<double> median_abs_error, mean_abs_error, mape, bias, coverage;
  int memory_scored = 0;
  std::optional<double> memory_median_abs_error, memory_coverage;
  int outcomes = 0, outcomes_right = 0;  // scored outcomes "ok" and "oom"
};

struct OverallErrors {
  int groups = 0;  // with scored times, pooled
  int scored = 0;
  int missed = 0;
  std::optional<double> macro_median_abs_error, macro_mean_abs_error, coverage;
  int memory_scored = 0;
  std::optional<double> memory_mape;  // mean |p - m| / m over all rows
  // Mean over groups of the median |ln(p / m)|
  std::optional<double> memory_macro_median_abs_error;
  std::optional<double> memory_coverage;  // mean over groups
  int outcomes = 0, outcomes_right = 0;
  std::optional<double> outcome_accuracy;  // right verdicts / verdicts
  // Mean of the fractions right among "ok" and among "oom".
  std::optional<double> balanced_outcome_accuracy;
  std::optional<double> brier_score;  // mean over verdicts
};

struct Backtest {
  std::vector<BacktestRow> rows;    // in the order of the files
  std::vector<GroupErrors> groups;  // by name
  OverallErrors overall;
};

// Predicts one run.  Throws Error where it cannot.
using Predictor = std::function<sim::Prediction(const hwdb::RunRecord&)>;

// The row of one run.
BacktestRow row_of(const hwdb::RunRecord& record, const Predictor& predict);

// Called before each prediction with the number of runs done and of all runs.
using Progress = std::function<void(std::size_t done, std::size_t all)>;

// Holds predictions against all runs in scope.  A run that could not be read, whose id appeared
// before, or that the predictor refuses becomes a row with the reason in `skipped`.
Backtest backtest(std::span<const hwdb::RunFile> files, Scope scope, const Predictor& predict,
                  const Progress& progress = {});

// The predicted peak that a measured one is compared with, by its kind and its scope:
//
//   kind    "allocated"             what the framework's allocator handed out
//           "device"                what it reserved, and the context of the driver
//           "reserved" or unknown   what it reserved
//   scope   "last-stage"            of the last pipeline stage
//           "first-or-last-stage"   the larger of the first stage's and the last one's
//           "max-rank" or unknown   the largest of all stages
sim::Bytes comparable_peak(const sim::Memory& memory, const hwdb::Measured& measured);

// Studies whose step times were computed, not measured.
//
// A step of n equal micro-batches takes a + b n, and on a machine only up to its noise.  Of three
// runs that differ in the global batch alone, n1 < n2 < n3, the middle one lies off the line
// through the others by
//
//   e = |t1 + (t3 - t1) (n2 - n1) / (n3 - n1) - t2| / t2
//
// Measured studies have e of 1e-3 and more.  A study is taken for computed where e < 1e-6 in at
// least three triples of neighbours and in more than half of them; times printed more coarsely than
// that do not decide.  Computed times are the output of another model of a step: vTrain's "ground
// truth" of one node has e < 1e-15 in all of 432 triples, and the cost of one more data rank in it
// is an entry of its table of all-reduces.  They are scored as published, but they are no evidence,
// so nothing is fitted to them.

// Names of the groups, of those that have scored step times.
std::set<std::string> computed_groups(std::span<const hwdb::RunFile> files);

// Studies that no fit may use, with the reason: computed ones, and those with an effect that the
// model does not have (RunFile::unmodelled).
std::map<std::string, std::string> unfitted_groups(std::span<const hwdb::RunFile> files);

}  // namespace llmsim::calibrate
