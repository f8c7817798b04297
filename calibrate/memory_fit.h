// Fits what allocators waste and how wrong predicted memory is to measured peaks.
//
// Observation i is the logarithm of a measured peak over the one it is compared with (backtest.h),
//
//   ln measured - ln predicted(gaps) = all + family + study + cell + noise
//
// with Student's t for studies, cells and noise (mixed_model.h); a cell is the peaks of one kind
// ("allocated", "reserved", "device") of a study, so that a study counts once.  What an allocator
// reserves beyond what it hands out is scaled by reserve.gaps_factor = e^(all + family + study),
// which moves peaks of reserved memory and not those of allocated memory.  A family is the first
// framework on the line of those that a framework is like.  A factor closer to 1 than two standard
// deviations is set to 1.
//
// The error of a run of a study that is not known adds in squares
//
//   mean and variance of all + family, spread of studies, of cells, noise
//
// The means of all and family are part of the error: they are no mechanism, so no peak is moved by
// them.  What no study tells about has the spread of its level.
//
// Outcomes, that a run fitted into its devices or did not, say the same of what a run needs
// (outcome_fit.h): how far its error is that of peaks, and that it has no bias.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "calibrate/measured_runs.h"
#include "calibrate/mixed_model.h"
#include "calibrate/outcome_fit.h"
#include "hwdb/store/database.h"

namespace llmsim::calibrate {

// The kinds of effects: `MixedModel::classes` in this order.
enum class MemoryLevel { AllGaps, Gaps, StudyGaps, All, Family, Study, Cell };
inline constexpr std::size_t kMemoryLevels = 7;
const char* name_of(MemoryLevel level);

using MemoryEffect = LevelEffect<MemoryLevel>;

struct MemoryFit {
  std::vector<std::string> groups;
  std::vector<MemoryEffect> effects;
  MixedFit fit;
  // By peak: ln(predicted / measured) at the priors, with the fitted gaps, and with those fitted
  // without its group; the scale of the last as a prediction.
  std::vector<double> before, fitted, left_out, deviations;
  // By effect and group: fitted to all less fitted without the group.
  std::vector<std::vector<double>> influence;
  OutcomeFit outcomes;
  // By outcome of the measured ones: the probability that it fits, by the fit without its group.
  std::vector<double> said;

  double spread(MemoryLevel level) const { return fit.spreads[static_cast<std::size_t>(level)]; }
  // Scale of the error of a run of an unknown study under a family of frameworks.
  double error_of(const std::string& family) const;
  // The same of what a run needs of its device, which outcomes tell.
  double needed_error_of(const std::string& family) const;
  // Logarithm of the gaps: mean and standard deviation.
  std::pair<double, double> gaps_of(const std::string& family) const;
  // e^mean where that is two standard deviations from 0, else 1.
  double gaps_factor(const std::string& family) const;
};

MemoryFit memory_fit(const MeasuredMemory& memory);

// The rows of hwdb/facts/coefficients.json, by family of frameworks.  Their
// fitted_from begins with kMemoryFit.
std::vector<hwdb::Coefficient> fitted_rows(const MemoryFit& fit);

}  // namespace llmsim::calibrate
