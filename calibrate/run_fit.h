// Fits coefficients and error bars to the step times of whole runs.
//
// Ten factors of a run's time are fitted: the framework's efficiency, collective_efficiency,
// misaligned_gemm_rate, misaligned_batch_rate, host.factor, host.per_moe_block,
// host.per_low_precision_gemm and host.per_step, and the device's training_rate and
// memory_fraction.  The logarithm of a factor's value over its prior is a sum of effects
// (mixed_model.h), one for each level of a hierarchy:
//
//   factor                 levels                                               prior
//   efficiency             all; each framework on the line to the run's         1
//   training_rate          architecture ("Hopper"); device                      1
//   collective_efficiency  all; the first framework on the line                 1
//   host.factor            all; the first framework on the line                 1
//   misaligned_gemm_rate, misaligned_batch_rate
//                          all                                                  1
//   host.per_moe_block, host.per_low_precision_gemm, host.per_step
//                          all                                                  frameworks.json
//   memory_fraction        none of its own                                      measured
//
// The model is ln measured = ln predicted + study + cell + noise.  A study is a group of runs, once
// with and once without experts (or expert or context ranks); a cell is its runs on one device, in
// one framework and precision.  A study's hosts, network, memory-bound kernels and work between
// steps differ from the usual ones, so it has effects of its own on host.factor,
// collective_efficiency, memory_fraction and host.per_step.  A study counts once however many rows
// it has, since its rows share its effect.  The spreads of effects are estimated; a level that the
// data do not move stays at its prior, with the spread of the prior.  An effect without runs has
// the spread of its level: devices and frameworks that were never measured are less certain.
//
// The model is linear in the logarithms around the current values; it is solved and made linear
// again until it settles.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/layout_fit.h"
#include "calibrate/measured_runs.h"
#include "calibrate/mixed_model.h"
#include "hwdb/store/database.h"

namespace llmsim::calibrate {

// The factors that are fitted.
enum class RunFactor {
  Efficiency,
  TrainingRate,
  CollectiveEfficiency,
  HostCalls,
  MoeHostCalls,
  LowPrecisionHostCalls,
  StepHost,
  MisalignedGemms,
  MisalignedBatches,
  MemoryRate
};
inline constexpr std::size_t kRunFactors = 10;

using RunFactors = std::array<double, kRunFactors>;  // ln(value / prior), by RunFactor

// The kinds of effects: `MixedModel::classes` in this order.
enum class Level {
  AllEfficiency,
  Framework,
  Architecture,
  Device,
  AllCollectives,
  Collectives,
  AllHosts,
  Hosts,
  MoeHosts,
  Study,
  MoeStudy,
  Cell,
  StudyHosts,
  StudyNetwork,
  LowPrecisionHosts,
  StepHosts,
  StudySteps,
  MisalignedGemms,
  MisalignedBatches,
  StudyMemory
};
inline constexpr std::size_t kLevels = 20;
const char* name_of(Level level);

using Effect = LevelEffect<Level>;

// How far one study moves one effect: fitted to all less fitted without it.
struct Influence {
  std::string group;
  double shift = 0.0;
};

// The 5 and 95 % quantiles after fewer than kFewRuns runs (site_fit.h), and
// after more; see learning_curve.h.
struct SiteQuantiles {
  std::pair<double, double> few{-1.645, 1.645}, some{-1.645, 1.645};
};

struct RunFit {
  std::vector<Effect> effects;
  MixedFit fit;
  // By run: ln(predicted / measured) at the priors, fitted, and fitted without its group; the
  // standard deviation of the last as a prediction.
  std::vector<double> before, fitted, left_out, deviations;
  std::vector<RunFactors> factors;                // by run, fitted
  std::vector<std::vector<Influence>> influence;  // by effect, the strongest first
  // Degrees of freedom by which the variance of a study's noise is known before it has runs, from
  // the spread of those of all studies (statistics.h).
  double noise_runs = 0.0;
  // Of (ln measured - ln predicted) / deviation of left-out runs, each group once: the 5 and 95 %
  // quantiles of their distribution (statistics.h).
  std::pair<double, double> quantiles{};
  LayoutFit layouts;             // `without`: by group
  SiteQuantiles site_quantiles;  // the same after some runs of the group

  double spread(Level level) const { return fit.spreads[static_cast<std::size_t>(level)]; }
};

// The run with the factors applied.
sim::Run fitted_run(const MeasuredRun& measured, const RunFactors& factors);

// `threads` 0: all cores.
RunFit run_fit(const MeasuredRuns& runs, unsigned threads = 0);

// The rows of hwdb/facts/coefficients.json: the fitted factors of every framework and accelerator
// that an effect moves, the errors of predictions, and what layouts differ by.  Their fitted_from
// begins with kRunFit.
std::vector<hwdb::Coefficient> fitted_rows(const RunFit& fit);

}  // namespace llmsim::calibrate
