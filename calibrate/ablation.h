// Ablations: what a setting is worth, as a ratio, measured and predicted.
//
// Two scored runs of one study with the same model, hardware and global batch that differ in one
// setting (setting.h) are a pair: measured ratio r = t(on) / t(off), predicted ratio likewise,
// error |ln(predicted ratio / measured ratio)|.  The error of a whole prediction that both runs
// share cancels, so a ratio says whether the model understands the setting.  Of the values that a
// setting takes between otherwise equal runs any two are paired, but only neighbours where the
// values are numbers (micro-batch, topology); of repeated runs the fastest counts, as a slow repeat
// is the network's or the node's.  Two recipes of one number format are the setting "recipe".
// Studies that state a relative speed-up, or pairs whose records differ in text only, come from a
// file (hwdb/runs/comparison.h).
//
// A pair decides a sign where the measured ratio is outside the noise: |ln r| > max(2 n, q, 0.02),
// with n the larger relative noise that the runs state and q the sum of the rounding errors of the
// two printed values (half a unit of the last non-zero digit; at least two digits are taken as
// printed).  Repeats of one program on one machine differ by 2 %.  Pairs inside the noise are
// listed and their errors count; their signs do not.
//
// Two settings are scored separately: topology, trades of tensor, pipeline and data ranks on the
// same devices, which change everything at once; and software, releases of one framework whose
// changes nobody lists.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/backtest.h"
#include "hwdb/runs/comparison.h"
#include "hwdb/runs/run_record.h"

namespace llmsim::calibrate {

struct AblationPair {
  std::string setting, group;
  std::string off, on;  // values of the setting
  // Ids of the runs; for stated speed-ups of runs without values, the name of the comparison.
  std::string off_id, on_id;
  std::optional<double> measured_time, predicted_time;  // ratios on / off
  std::optional<double> measured_peak, predicted_peak;
  double noise = 0.0;     // |ln ratio| of times that a sign needs
  bool computed = false;  // the study's times were computed, not measured (backtest.h)

  bool decides() const;                      // the measured times differ by more than noise
  bool right() const;                        // the predicted ratio lies on the same side of 1
  std::optional<double> time_error() const;  // |ln(predicted / measured)|; 1 without prediction
  std::optional<double> peak_error() const;
};

struct AblationErrors {
  std::string setting;
  int pairs = 0;  // with measured times
  int decided = 0, right = 0;
  std::optional<double> median_error, worst_error;
  int memory_pairs = 0;
  std::optional<double> memory_median_error;

  std::optional<double> sign_accuracy() const;
};

struct Ablations {
  std::vector<AblationPair> pairs;       // by setting, group and runs
  std::vector<AblationErrors> settings;  // by name, without the next two
  AblationErrors topology, software;
  AblationErrors all;       // over `settings`
  AblationErrors measured;  // of them, those of studies that measured their times
  // Of them, those with values that are no numbers: on or off, one kind or another.
  AblationErrors switched;
  std::optional<double> study_median_error;  // mean over (setting, study) of the median error
  // Mean over (setting, study) of the fraction of right signs.
  std::optional<double> study_sign_accuracy;
};

// All pairs of runs in `backtest` whose records differ in one setting, and the comparisons.
// Comparisons that bring runs of their own are predicted with `predict`.  Throws Error for a
// comparison that names an unknown run.
Ablations ablations(std::span<const hwdb::RunFile> files,
                    std::span<const hwdb::Comparison> comparisons, const Backtest& backtest,
                    const Predictor& predict);

// The relative rounding error of the printed value that a measured time comes from: half a unit of
// its last digit.
double rounding(const hwdb::Measured& measured);

}  // namespace llmsim::calibrate
