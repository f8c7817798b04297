#include "calibrate/residuals.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "calibrate/statistics.h"

namespace llmsim::calibrate {
namespace {

// Scored figures of one study in one class.
struct StudyErrors {
  int runs = 0;
  std::vector<double> times, inside, peaks;
};
using Class = std::map<std::string, StudyErrors>;  // by study

bool has_time(const BacktestRow& row) { return row.scored.step_time && row.time_error(); }

bool has_peak(const BacktestRow& row) { return row.scored.memory && row.peak_error(); }

void add(const BacktestRow& row, StudyErrors& study) {
  ++study.runs;
  if (has_time(row)) {
    study.times.push_back(*row.time_error());
    study.inside.push_back(row.time_inside() == true);
  }
  if (has_peak(row)) study.peaks.push_back(*row.peak_error());
}

double size_of(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  return median(std::move(errors));
}

// The mean over studies of a figure of those that have such errors; none where none has.
template <typename Figure>
std::optional<double> over_studies(const Class& studies, std::vector<double> StudyErrors::*errors,
                                   Figure figure) {
  std::vector<double> figures;
  for (const auto& [name, study] : studies) {
    if (!(study.*errors).empty()) figures.push_back(figure(study.*errors));
  }
  return figures.empty() ? std::nullopt : std::optional(mean(figures));
}

Residual residual_of(const std::string& by, const std::string& value, const Class& studies) {
  Residual result;
  result.by = by, result.value = value;
  result.studies = static_cast<int>(studies.size());
  for (const auto& [name, study] : studies) result.runs += study.runs;
  const auto middle = [](const std::vector<double>& errors) { return median(errors); };
  result.error = over_studies(studies, &StudyErrors::times, size_of);
  result.bias = over_studies(studies, &StudyErrors::times, middle);
  result.coverage = over_studies(studies, &StudyErrors::inside, mean);
  result.memory_error = over_studies(studies, &StudyErrors::peaks, size_of);
  result.memory_bias = over_studies(studies, &StudyErrors::peaks, middle);
  return result;
}

}  // namespace

std::vector<Residual> residuals(const Backtest& backtest) {
  constexpr std::pair<const char*, std::string BacktestRow::*> kKinds[] = {
      {"device", &BacktestRow::device},
      {"framework", &BacktestRow::framework},
      {"precision", &BacktestRow::precision},
      {"waits for", &BacktestRow::waits_for}};
  std::vector<Residual> all;
  for (const auto& [by, value] : kKinds) {
    std::map<std::string, Class> classes;
    for (const BacktestRow& row : backtest.rows) {
      if (has_time(row) || has_peak(row)) add(row, classes[row.*value][row.group]);
    }
    const auto first = static_cast<std::ptrdiff_t>(all.size());
    for (const auto& [name, studies] : classes) all.push_back(residual_of(by, name, studies));
    std::stable_sort(all.begin() + first, all.end(),
                     [](const Residual& a, const Residual& b) { return a.studies > b.studies; });
  }
  return all;
}

}  // namespace llmsim::calibrate
