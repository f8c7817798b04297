#include "calibrate/learning_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>

#include "calibrate/site_fit.h"
#include "calibrate/statistics.h"

namespace llmsim::calibrate {
namespace {

constexpr int kDraws = 40;
constexpr std::size_t kFewestRuns = 6;
constexpr double Learned::*kValues[] = {&Learned::none, &Learned::scalar,   &Learned::step,
                                        &Learned::site, &Learned::coverage, &Learned::width};

double squared(double x) { return x * x; }

// A study as a site: rows whose residuals are those of the fit to the other studies.
struct Study {
  std::vector<SiteRow> rows;
  SitePriors priors;
  std::pair<double, double> quantiles;
};

Study study_of(const MeasuredRuns& runs, const RunFit& fit,
               const std::vector<std::size_t>& members) {
  std::vector<SiteRun> site;
  for (const std::size_t i : members)
    site.push_back(
        {runs.runs[i].id, fitted_run(runs.runs[i], fit.knobs[i]), runs.runs[i].measured});
  const SiteCells cells = site_cells(site);
  const double dense = squared(fit.spread(Level::Study)),
               moe = squared(fit.spread(Level::MoeStudy)), cell = squared(fit.spread(Level::Cell)),
               noise = squared(fit.fit.noise);
  Study study;
  study.quantiles = fit.quantiles;
  study.priors.spreads = {.step = 0.0,
                          .memory = fit.spread(Level::StudyMemory),
                          .network = fit.spread(Level::StudyNetwork),
                          .host = fit.spread(Level::StudyHosts)};
  double knobs = 0.0;
  for (std::size_t k = 0; k < members.size(); ++k) {
    const std::size_t i = members[k];
    SiteRow row = site_row(site[k]);
    row.residual = -fit.left_out[i];
    row.cell = cells.of_run[k];
    study.rows.push_back(row);
    const double known = (runs.runs[i].moe ? moe : dense) + cell + noise +
                         squared(row.slopes.memory * study.priors.spreads.memory) +
                         squared(row.slopes.network * study.priors.spreads.network) +
                         squared(row.slopes.host * study.priors.spreads.host);
    knobs += std::max(0.0, squared(fit.deviations[i]) - known);
  }
  study.priors.spreads.step = std::sqrt(dense + knobs / static_cast<double>(members.size()));
  study.priors.noise = std::sqrt(noise), study.priors.noise_runs = fit.noise_runs;
  for (const hwdb::SiteCell& of : cells.cells) {
    const double ranks = of.kind == hwdb::CellKind::Dense ? 0.0 : std::max(0.0, moe - dense);
    study.priors.cells.push_back(std::sqrt(cell + ranks));
  }
  return study;
}

// What the rest took beyond its prediction, in logarithms.
double median_size(const std::vector<SiteRow>& rest, auto predicted) {
  std::vector<double> errors;
  for (const SiteRow& row : rest) errors.push_back(std::abs(row.residual - predicted(row)));
  return median(std::move(errors));
}

MixedFit without_rates(std::vector<SiteRow> rows, const SitePriors& priors) {
  for (SiteRow& row : rows) row.slopes = {.step = row.slopes.step};
  return site_posterior(rows, priors);
}

// `drawn` rows update, the rest is scored.
Learned learned(const Study& study, const std::vector<SiteRow>& drawn,
                const std::vector<SiteRow>& rest) {
  const MixedFit step = without_rates(drawn, study.priors),
                 site = site_posterior(drawn, study.priors);
  std::vector<double> ratios;
  for (const SiteRow& row : drawn) ratios.push_back(row.residual);
  const double scalar = ratios.empty() ? 0.0 : median(ratios);
  Learned result;
  result.none = median_size(rest, [](const SiteRow&) { return 0.0; });
  result.scalar = median_size(rest, [&](const SiteRow&) { return scalar; });
  result.step = median_size(rest, [&](SiteRow row) {
    row.slopes = {.step = row.slopes.step};
    return step.mean_of(site_slopes(row));
  });
  result.site =
      median_size(rest, [&](const SiteRow& row) { return site.mean_of(site_slopes(row)); });
  for (const SiteRow& row : rest) {
    const auto slopes = site_slopes(row);
    const double error = std::sqrt(site.variance_of(slopes) + squared(site.noise));
    const double z = (row.residual - site.mean_of(slopes)) / error;
    const auto count = static_cast<double>(rest.size());
    result.coverage += (z >= study.quantiles.first && z <= study.quantiles.second) / count;
    result.width += error * (study.quantiles.second - study.quantiles.first) / count;
  }
  return result;
}

Learned mean_of(const std::vector<Learned>& all) {
  Learned mean;
  for (const auto value : kValues) {
    for (const Learned& one : all) mean.*value += one.*value / static_cast<double>(all.size());
  }
  return mean;
}

// The first `count` of the rows after a shuffle, and the others.
std::pair<std::vector<SiteRow>, std::vector<SiteRow>> drawn_from(std::vector<SiteRow> rows,
                                                                 std::size_t count,
                                                                 std::mt19937& random) {
  for (std::size_t i = 0; i < count; ++i)
    std::swap(rows[i], rows[i + random() % (rows.size() - i)]);
  const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(count);
  return {{rows.begin(), middle}, {middle, rows.end()}};
}

StudyCurve curve_of(const std::string& name, const Study& study) {
  StudyCurve curve{.study = name, .runs = static_cast<int>(study.rows.size()), .after = {}};
  for (const int count : kLearnedFrom) {
    std::mt19937 random(20261101);
    std::vector<Learned> draws;
    for (int draw = 0; draw < (count == 0 ? 1 : kDraws); ++draw) {
      const auto [drawn, rest] = drawn_from(study.rows, static_cast<std::size_t>(count), random);
      draws.push_back(learned(study, drawn, rest));
    }
    curve.after.push_back(mean_of(draws));
  }
  return curve;
}

}  // namespace

std::vector<StudyCurve> learning_curves(const MeasuredRuns& runs, const RunFit& fit) {
  std::vector<std::vector<std::size_t>> members(runs.groups.size());
  for (std::size_t i = 0; i < runs.runs.size(); ++i) members[runs.runs[i].group].push_back(i);
  std::vector<StudyCurve> curves;
  for (std::size_t g = 0; g < members.size(); ++g) {
    if (members[g].size() >= kFewestRuns)
      curves.push_back(curve_of(runs.groups[g], study_of(runs, fit, members[g])));
  }
  return curves;
}

std::vector<Learned> mean_curve(const std::vector<StudyCurve>& studies) {
  std::vector<Learned> means;
  for (std::size_t k = 0; k < std::size(kLearnedFrom) && !studies.empty(); ++k) {
    std::vector<Learned> of_studies;
    for (const StudyCurve& study : studies) of_studies.push_back(study.after[k]);
    means.push_back(mean_of(of_studies));
  }
  return means;
}

}  // namespace llmsim::calibrate
