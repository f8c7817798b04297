#include "calibrate/peak_learning.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "calibrate/in_parallel.h"
#include "calibrate/site_memory.h"
#include "calibrate/statistics.h"
#include "sim/base/uncertainty.h"

namespace llmsim::calibrate {
namespace {

using Peaks = std::vector<sim::PeakObservation>;

constexpr int kPeakDraws = 40;
constexpr std::size_t kFewestPeaks = 4, kMostPeaks = 60, kFewestScored = 3;
constexpr double PeaksLearned::*kLearnedValues[] = {&PeaksLearned::none, &PeaksLearned::scalar,
                                                    &PeaksLearned::site, &PeaksLearned::coverage,
                                                    &PeaksLearned::width};

struct PeakStudy {
  std::string name;
  Peaks peaks;
  sim::PeakSpreads spreads;
};

// `members`: of the peaks of one study, at most so many, evenly over the order of the file.
PeakStudy study_of_peaks(const MeasuredMemory& memory, const MemoryFit& fit,
                         const std::vector<std::size_t>& members) {
  PeakStudy study{.name = memory.groups[memory.peaks[members.front()].group],
                  .peaks = {},
                  .spreads = site_spreads(fit.deviations[members.front()])};
  const std::size_t taken = std::min(kMostPeaks, members.size());
  for (std::size_t i = 0; i < taken; ++i) {
    const MeasuredPeak& peak = memory.peaks[members[i * members.size() / taken]];
    study.peaks.push_back(
        peak_observation({.id = peak.id, .run = peak.run, .measured = peak.measured}));
  }
  return study;
}

double median_miss(const Peaks& rest, auto expected) {
  std::vector<double> errors;
  for (const sim::PeakObservation& of : rest)
    errors.push_back(std::abs(of.residual - expected(of)));
  return median(std::move(errors));
}

PeaksLearned learned_from(const Peaks& drawn, const Peaks& rest, const sim::PeakSpreads& spreads) {
  const Peaks known = weighted(drawn, spreads);
  std::vector<double> ratios;
  for (const sim::PeakObservation& of : drawn) ratios.push_back(of.residual);
  const double scalar = ratios.empty() ? 0.0 : median(ratios), reach = sim::student_quantile(0.95);
  PeaksLearned result{.known = static_cast<int>(drawn.size())};
  result.none = median_miss(rest, [](const auto&) { return 0.0; });
  result.scalar = median_miss(rest, [&](const auto&) { return scalar; });
  result.site =
      median_miss(rest, [&](const auto& of) { return expected_residual(known, spreads, of).mean; });
  for (const sim::PeakObservation& of : rest) {
    const ExpectedResidual expected = expected_residual(known, spreads, of);
    const auto count = static_cast<double>(rest.size());
    const bool inside = std::abs(of.residual - expected.mean) <= reach * expected.deviation;
    result.coverage += (inside ? 1.0 : 0.0) / count;
    result.width += 2.0 * reach * expected.deviation / count;
  }
  return result;
}

PeaksLearned mean_learned(const std::vector<PeaksLearned>& all) {
  PeaksLearned mean{.known = all.front().known};
  for (const auto value : kLearnedValues)
    for (const PeaksLearned& one : all) mean.*value += one.*value / static_cast<double>(all.size());
  return mean;
}

PeaksLearned after_peaks(const PeakStudy& study, std::size_t count) {
  std::mt19937 random(20261129);
  std::vector<PeaksLearned> draws;
  for (int draw = 0; draw < (count == 0 ? 1 : kPeakDraws); ++draw) {
    Peaks peaks = study.peaks;
    for (std::size_t i = 0; i < count; ++i)
      std::swap(peaks[i], peaks[i + random() % (peaks.size() - i)]);
    const auto middle = peaks.begin() + static_cast<std::ptrdiff_t>(count);
    draws.push_back(learned_from({peaks.begin(), middle}, {middle, peaks.end()}, study.spreads));
  }
  return mean_learned(draws);
}

double error_after_like(const PeakStudy& study) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < study.peaks.size(); ++i) {
    const sim::PeakObservation& of = study.peaks[i];
    double nearest = std::numeric_limits<double>::infinity();
    std::vector<double> alike;
    for (std::size_t j = 0; j < study.peaks.size(); ++j) {
      const double apart = peak_distance(of, study.peaks[j]);
      if (i == j || apart > nearest) continue;
      if (apart < nearest) alike.clear();
      nearest = apart;
      alike.push_back(
          std::abs(of.residual - expected_residual({study.peaks[j]}, study.spreads, of).mean));
    }
    errors.push_back(mean(alike));
  }
  return median(errors);
}

PeakCurve curve_of_peaks(const PeakStudy& study) {
  PeakCurve curve{.study = study.name,
                  .kind = study.peaks.front().kind,
                  .peaks = static_cast<int>(study.peaks.size()),
                  .after = {},
                  .like = error_after_like(study)};
  for (const int known : kPeaksKnown) {
    const auto count = static_cast<std::size_t>(known);
    if (study.peaks.size() >= count + kFewestScored)
      curve.after.push_back(after_peaks(study, count));
  }
  return curve;
}

}  // namespace

std::vector<PeakCurve> peak_curves(const MeasuredMemory& memory, const MemoryFit& fit) {
  std::vector<std::vector<std::size_t>> members(memory.groups.size());
  for (std::size_t i = 0; i < memory.peaks.size(); ++i) members[memory.peaks[i].group].push_back(i);
  std::erase_if(members, [](const auto& of) { return of.size() < kFewestPeaks; });
  std::vector<PeakCurve> curves(members.size());
  in_parallel(members.size(), 0, [&](std::size_t s) {
    curves[s] = curve_of_peaks(study_of_peaks(memory, fit, members[s]));
  });
  return curves;
}

std::vector<PeakCurveRow> mean_curves(const std::vector<PeakCurve>& studies) {
  std::vector<PeakCurveRow> rows;
  for (const char* kind : {"allocated", "reserved", "device", ""}) {
    const bool all = *kind == '\0';
    for (std::size_t k = 0; k < std::size(kPeaksKnown); ++k) {
      std::vector<PeaksLearned> of_studies;
      std::vector<double> none, site;
      for (const PeakCurve& study : studies) {
        if (k >= study.after.size() || !(all || study.kind == kind)) continue;
        of_studies.push_back(study.after[k]);
        none.push_back(study.after[k].none), site.push_back(study.after[k].site);
      }
      if (of_studies.empty()) continue;
      rows.push_back({.kind = all ? "all" : kind,
                      .studies = static_cast<int>(of_studies.size()),
                      .mean = mean_learned(of_studies),
                      .median_none = median(none),
                      .median_site = median(site)});
    }
  }
  return rows;
}

}  // namespace llmsim::calibrate
