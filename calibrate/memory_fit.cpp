#include "calibrate/memory_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "calibrate/backtest.h"
#include "calibrate/mixed_model.h"
#include "calibrate/statistics.h"
#include "hwdb/frameworks/frameworks.h"
#include "hwdb/text/rounding.h"
#include "sim/base/uncertainty.h"
#include "sim/predict.h"

namespace llmsim::calibrate {
namespace {

using Effects = std::vector<std::size_t>;

constexpr double kGapStep = 0.05;  // of a numerical derivative
constexpr int kMostLinearisations = 30;
constexpr double kGapsSettled = 1e-4;  // of ln(gaps), between two of them
constexpr double kClearly = 2.0;       // standard errors from zero
constexpr int kMemoryRowDigits = 3;    // errors are of some per cent

// Priors.  What is written down of allocators (frameworks.json) is known within a factor of 1.6;
// what is allocated is counted tensor by tensor, to some per cent where nothing was forgotten.
// What is forgotten for a new study tell the nine studies with peaks that were predicted before
// anyone looked at them (tests/validation/first_contact): medians of 5, 10, 11, 13, 21, 26, 26, 33
// and 78 %, Student's t of scale 24 %.  The studies of a fit were looked at: they count as nine
// more each with its own error.
struct MemoryLevelRow {
  const char* name;
  EffectClass prior;
};
constexpr std::array<MemoryLevelRow, kMemoryLevels> kMemoryLevelRows = {{
    {"gaps of all", {0.30, kGiven, false}},
    {"gaps of a family", {0.40, 4.0, false}},
    {"gaps of a study", {0.50, 4.0, true}},
    {"all", {0.03, kGiven, false}},
    {"family", {0.03, 4.0, false}},
    {"study", {0.24, 9.0, true}},
    {"kind of a study", {0.04, 4.0, true}},
}};

sim::Memory memory_at(sim::Run run, double gaps) {
  run.framework.reserve.gaps_factor *= std::exp(gaps);
  return sim::predict(run).memory;
}

double log_peak(const MeasuredPeak& peak, double gaps) {
  return std::log(comparable_peak(memory_at(peak.run, gaps), peak.measured).value());
}

// What moves every peak: the factor of gaps, and the error that remains.
struct PeakEffects {
  Effects gaps;
  std::size_t study_gaps = 0;
  Effects error;
};

class PeakHierarchy {
 public:
  PeakHierarchy() {
    effect(MemoryLevel::AllGaps, "");
    effect(MemoryLevel::All, "");
    for (const std::string& id : frameworks_.ids()) {
      effect(MemoryLevel::Gaps, family_of(id));
      effect(MemoryLevel::Family, family_of(id));
    }
  }

  std::string family_of(const std::string& framework) const {
    const std::vector<std::string> line = frameworks_.lineage(framework, "");
    return line.empty() ? framework : line.front();
  }

  std::size_t effect(MemoryLevel level, const std::string& id) { return index_.place(level, id); }

  PeakEffects of(const MeasuredPeak& peak, const std::string& group) {
    const std::string family = family_of(peak.run.framework.id);
    return {.gaps = {effect(MemoryLevel::AllGaps, ""), effect(MemoryLevel::Gaps, family)},
            .study_gaps = effect(MemoryLevel::StudyGaps, group),
            .error = {effect(MemoryLevel::All, ""), effect(MemoryLevel::Family, family),
                      effect(MemoryLevel::Study, group),
                      effect(MemoryLevel::Cell,
                             group + " " + peak.measured.memory_kind.value_or("reserved"))}};
  }

  const std::vector<MemoryEffect>& list() const { return index_.list(); }

 private:
  hwdb::Frameworks frameworks_ = hwdb::Frameworks::shipped();
  EffectIndex<MemoryLevel> index_;
};

double sum_of(const MixedFit& fit, const Effects& effects) {
  double sum = 0.0;
  for (const std::size_t k : effects) sum += fit.means[k];
  return sum;
}

// What moves peaks: the mean of the gaps where it is clearly not zero.
double clear(const MixedFit& fit, const Effects& effects) {
  Slopes sum;
  for (const std::size_t k : effects) sum.emplace_back(k, 1.0);
  const double mean = fit.mean_of(sum), deviation = std::sqrt(fit.variance_of(sum));
  return std::abs(mean) >= kClearly * deviation ? mean : 0.0;
}

double spread_of(const MixedFit& fit, MemoryLevel level) {
  return fit.spreads[static_cast<std::size_t>(level)];
}

// Of a run of an unknown study: in squares the mean and the variance of what all runs and those of
// its family have in common, the spreads of studies and cells, and noise.
double deviation_of(const MixedFit& fit, const Slopes& common) {
  const double mean = fit.mean_of(common), study = spread_of(fit, MemoryLevel::Study),
               row = std::hypot(spread_of(fit, MemoryLevel::Cell), fit.noise);
  return std::sqrt(mean * mean + fit.variance_of(common) + study * study + row * row);
}

// One of all and one of a family, those that exist.
Slopes both(const MemoryFit& fit, MemoryLevel all, MemoryLevel one, const std::string& family) {
  return EffectIndex(fit.effects).sum({{all, ""}, {one, family}});
}

class MemoryFitting {
 public:
  explicit MemoryFitting(const MeasuredMemory& memory) : memory_(memory) {
    for (const MeasuredPeak& peak : memory.peaks)
      behind_.push_back(hierarchy_.of(peak, memory.groups[peak.group]));
    for (const MemoryLevelRow& level : kMemoryLevelRows) model_.classes.push_back(level.prior);
    model_.noise.spread = 0.03;
    for (const MemoryEffect& effect : hierarchy_.list())
      model_.effects.push_back(static_cast<std::size_t>(effect.level));
    result_.fit.means.assign(model_.effects.size(), 0.0);
  }

  MemoryFit result() {
    linearise();
    result_.before = residuals_;
    for (int i = 0; i < kMostLinearisations; ++i) {
      const std::vector<double> last = result_.fit.means;
      result_.fit = fit(model_);
      linearise();
      if (change_of_gaps(last) < kGapsSettled) break;
    }
    for (std::size_t i = 0; i < memory_.peaks.size(); ++i)
      result_.fitted.push_back(residual(i, clear(result_.fit, behind_[i].gaps)));
    result_.groups = memory_.groups;
    result_.effects = hierarchy_.list();
    leave_out();
    const std::vector<Outcome> all = outcomes();
    result_.outcomes = outcome_fit(all, {.study_share = study_share()});
    for (std::size_t i = 0; i < all.size(); ++i) result_.said.push_back(said(all[i], i));
    return std::move(result_);
  }

 private:
  double change_of_gaps(const std::vector<double>& last) const {
    double change = 0.0;
    for (std::size_t k = 0; k < last.size(); ++k)
      change = std::max(change, std::abs(result_.fit.means[k] - last[k]));
    return change;
  }

  void linearise() {
    model_.observations.resize(memory_.peaks.size());
    residuals_.resize(memory_.peaks.size());
    for (std::size_t i = 0; i < memory_.peaks.size(); ++i) {
      const MeasuredPeak& peak = memory_.peaks[i];
      const double gaps = sum_of(result_.fit, behind_[i].gaps), at = log_peak(peak, gaps);
      const double slope = (log_peak(peak, gaps + kGapStep) - at) / kGapStep;
      residuals_[i] = at - std::log(peak.measured.peak_memory->value());
      Observation& o = model_.observations[i];
      o = {.value = slope * gaps - residuals_[i], .slopes = {}};
      for (const std::size_t k : behind_[i].gaps) o.slopes.emplace_back(k, slope);
      o.slopes.emplace_back(behind_[i].study_gaps, slope);
      for (const std::size_t k : behind_[i].error) o.slopes.emplace_back(k, 1.0);
    }
  }

  // Each group in turn is predicted by the model fitted to the others, its spreads kept.
  void leave_out() {
    result_.left_out.resize(memory_.peaks.size());
    result_.deviations.resize(memory_.peaks.size());
    result_.influence.assign(model_.effects.size(),
                             std::vector<double>(memory_.groups.size(), 0.0));
    std::set<std::size_t> with_peaks;
    for (const MeasuredPeak& peak : memory_.peaks) with_peaks.insert(peak.group);
    for (const std::size_t g : with_peaks) {
      MixedModel rest = model_;
      rest.observations.clear();
      for (std::size_t i = 0; i < memory_.peaks.size(); ++i)
        if (memory_.peaks[i].group != g) rest.observations.push_back(model_.observations[i]);
      const MixedFit& without = without_[g] = fit(rest, &result_.fit);
      for (std::size_t i = 0; i < memory_.peaks.size(); ++i)
        if (memory_.peaks[i].group == g) predict_left_out(i, without);
      for (std::size_t k = 0; k < model_.effects.size(); ++k)
        result_.influence[k][g] = result_.fit.means[k] - without.means[k];
    }
  }

  double residual(std::size_t i, double gaps) const {
    const MeasuredPeak& peak = memory_.peaks[i];
    return log_peak(peak, gaps) - std::log(peak.measured.peak_memory->value());
  }

  void predict_left_out(std::size_t i, const MixedFit& without) {
    result_.left_out[i] = residual(i, clear(without, behind_[i].gaps));
    result_.deviations[i] =
        deviation_of(without, {{behind_[i].error[0], 1.0}, {behind_[i].error[1], 1.0}});
  }

  // Of the variance of an error, what the peaks of a study have in common.
  double study_share() const {
    const double study = result_.spread(MemoryLevel::Study),
                 row = std::hypot(result_.spread(MemoryLevel::Cell), result_.fit.noise);
    return study * study / (study * study + row * row);
  }

  std::vector<Outcome> outcomes() const {
    std::vector<Outcome> all;
    for (const MeasuredOutcome& outcome : memory_.outcomes) {
      const std::string family = hierarchy_.family_of(outcome.run.framework.id);
      const sim::Memory memory = memory_at(outcome.run, std::log(result_.gaps_factor(family)));
      all.push_back({.group = outcome.group,
                     .room = std::log(memory.capacity / memory.needed()),
                     .scale = result_.error_of(family),
                     .ran = outcome.ran});
    }
    return all;
  }

  // That it fits, by what is known without its group.
  double said(const Outcome& outcome, std::size_t i) const {
    const std::string family = hierarchy_.family_of(memory_.outcomes[i].run.framework.id);
    const auto without = without_.find(outcome.group);
    const MixedFit& others = without == without_.end() ? result_.fit : without->second;
    const double scale =
        deviation_of(others, both(result_, MemoryLevel::All, MemoryLevel::Family, family)) *
        std::exp(result_.outcomes.log_scale_without(outcome.group));
    return sim::student_probability(outcome.room / scale);
  }

  const MeasuredMemory& memory_;
  PeakHierarchy hierarchy_;
  std::vector<PeakEffects> behind_;  // by peak
  MixedModel model_;
  std::vector<double> residuals_;
  std::map<std::size_t, MixedFit> without_;  // fitted to the peaks of the other groups
  MemoryFit result_;
};

// --- rows ---

std::string told_by(const MemoryFit& fit, const Slopes& effects) {
  std::map<std::string, double> shifts;
  for (std::size_t g = 0; g < fit.groups.size(); ++g) {
    double& shift = shifts[fit.groups[g]];
    for (const auto& [k, slope] : effects) shift += slope * fit.influence[k][g];
  }
  return group_shifts_text(kMemoryFit, shifts);
}

hwdb::Coefficient memory_row(const std::string& family, const std::string& key, double value,
                             std::optional<double> error, const std::string& from) {
  return {.scope = "framework",
          .id = family,
          .key = key,
          .value = hwdb::rounded(value, kMemoryRowDigits),
          .standard_error =
              error ? std::optional(hwdb::rounded(*error, kMemoryRowDigits)) : std::nullopt,
          .evidence = sim::Evidence::Fitted,
          .source = "hierarchical fit (calibrate/memory_fit.h)",
          .fitted_from = from};
}

}  // namespace

const char* name_of(MemoryLevel level) {
  return kMemoryLevelRows[static_cast<std::size_t>(level)].name;
}

double MemoryFit::error_of(const std::string& family) const {
  return deviation_of(fit, both(*this, MemoryLevel::All, MemoryLevel::Family, family));
}

double MemoryFit::needed_error_of(const std::string& family) const {
  return error_of(family) * std::exp(outcomes.log_scale);
}

std::pair<double, double> MemoryFit::gaps_of(const std::string& family) const {
  const Slopes gaps = both(*this, MemoryLevel::AllGaps, MemoryLevel::Gaps, family);
  return {fit.mean_of(gaps), std::sqrt(fit.variance_of(gaps))};
}

double MemoryFit::gaps_factor(const std::string& family) const {
  const auto [mean, deviation] = gaps_of(family);
  return std::abs(mean) >= kClearly * deviation ? std::exp(mean) : 1.0;
}

MemoryFit memory_fit(const MeasuredMemory& memory) { return MemoryFitting(memory).result(); }

std::vector<hwdb::Coefficient> fitted_rows(const MemoryFit& fit) {
  std::vector<hwdb::Coefficient> rows;
  const std::string all = kMemoryFit + std::string("all groups");
  for (const MemoryEffect& effect : fit.effects) {
    if (effect.level != MemoryLevel::Family) continue;
    const double gaps = fit.gaps_factor(effect.id);
    rows.push_back(
        memory_row(effect.id, "reserve.gaps_factor", gaps, gaps * fit.gaps_of(effect.id).second,
                   told_by(fit, both(fit, MemoryLevel::AllGaps, MemoryLevel::Gaps, effect.id)) +
                       (gaps == 1.0 ? "; not clearly different from 1, which stays" : "")));
    rows.push_back(
        memory_row(effect.id, "errors.memory", fit.error_of(effect.id), std::nullopt, all));
    rows.push_back(memory_row(effect.id, "errors.needed_memory", fit.needed_error_of(effect.id),
                              std::nullopt, all));
  }
  return rows;
}

}  // namespace llmsim::calibrate
