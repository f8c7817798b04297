// Measured runs made ready for fitting: resolved once, each with the coefficients that stand behind
// its prediction.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "calibrate/backtest.h"
#include "hwdb/database.h"
#include "hwdb/run_record.h"
#include "sim/run.h"

namespace llmsim::calibrate {

// A coefficient that whole runs may move.  ln(value / prior) has a normal prior of mean 0 and
// standard deviation `spread`.
struct RunCoefficient {
  std::string scope;  // "device" or "framework"
  std::string id;
  std::string key;  // see hwdb/coefficients.h and hwdb/frameworks.h
  double prior = 1.0;
  double spread = 0.1;
};

// One run whose step time is scored.
struct MeasuredRun {
  std::string id;
  std::size_t group = 0;                  // index into MeasuredRuns::groups
  sim::Run run;                           // as it resolves with all coefficients at their priors
  double measured = 0.0;                  // s
  std::vector<std::size_t> coefficients;  // indices of those that hold for this run
  bool fitted_to = false;                 // one of at most `most_per_group` of its group
};

struct MeasuredRuns {
  std::vector<RunCoefficient> coefficients;
  std::vector<std::string> groups;
  std::vector<MeasuredRun> runs;  // by group, in the order of the files
};

// What the fitted_from of coefficients that were fitted to runs begins with.
inline constexpr const char* kRunFit = "step times of ";

// The scored dense runs of `files` that the simulator can predict.  Of each group at most
// `most_per_group` runs, spread evenly over the order of the file, are marked to be fitted to.  A
// coefficient holds for a run where hwdb would use its row: for the device or framework itself and
// for those like it, unless something nearer (another row, a rule) sets the same key.  Rows of an
// earlier fit do not count where coefficients are to be fitted; with none, the model is that which
// ships.
MeasuredRuns measured_runs(std::span<const hwdb::RunFile> files,
                           std::vector<RunCoefficient> coefficients,
                           std::size_t most_per_group = 60);

// What the project fits to runs, given those it has: for every device and framework the keys below,
// where at least two groups tell about it.  A framework with fewer is left to the one that it is
// like.
//
//   device  training_rate           prior 1, spread 0.10: single kernels are known to a few per
//                                   cent, clocks under load to 10 %
//   framework  efficiency              prior of frameworks.json, spread 0.15
//   framework  collective_efficiency   prior of frameworks.json, spread 0.15
//   framework  host.per_kernel  prior of frameworks.json, spread 0.40: hosts differ by that much
std::vector<RunCoefficient> run_coefficients(std::span<const hwdb::RunFile> files);

// Puts a coefficient's value into a run for which it holds.
void set_value(sim::Run& run, const RunCoefficient& coefficient, double value);

}  // namespace llmsim::calibrate
