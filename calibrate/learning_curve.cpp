#include "calibrate/learning_curve.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "calibrate/in_parallel.h"
#include "calibrate/site_fit.h"
#include "calibrate/statistics.h"

namespace llmsim::calibrate {
namespace {

constexpr int kDraws = 40;
constexpr std::size_t kFewestRuns = 6;
constexpr double Learned::*kValues[] = {&Learned::none,  &Learned::scalar, &Learned::step,
                                        &Learned::rates, &Learned::site,   &Learned::coverage,
                                        &Learned::width};

double squared(double x) { return x * x; }

// A study and what its site knows of layouts.
struct Study {
  std::vector<SiteRow> rows;
  SitePriors plain, priors;  // without layouts, with them
};

Study with_layouts(const SiteStudy& of, const sim::LayoutErrors& layouts) {
  Study study{.rows = of.rows, .plain = of.priors, .priors = of.priors};
  study.priors.layouts = layouts;
  study.priors.noise = layouts.run;
  return study;
}

SiteStudy study_of(const MeasuredRuns& runs, const RunFit& fit,
                   const std::vector<std::size_t>& members) {
  if (members.empty()) return {};
  std::vector<SiteRun> site;
  for (const std::size_t i : members)
    site.push_back(
        {runs.runs[i].id, fitted_run(runs.runs[i], fit.factors[i]), runs.runs[i].measured});
  const SiteCells cells = site_cells(site);
  const double dense = squared(fit.spread(Level::Study)),
               moe = squared(fit.spread(Level::MoeStudy)), cell = squared(fit.spread(Level::Cell)),
               noise = squared(fit.fit.noise);
  SiteStudy study;
  study.priors.spreads = {.step = 0.0,
                          .memory = fit.spread(Level::StudyMemory),
                          .network = fit.spread(Level::StudyNetwork),
                          .host = fit.spread(Level::StudyHosts)};
  double factors = 0.0;
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
    factors += std::max(0.0, squared(fit.deviations[i]) - known);
  }
  study.priors.spreads.step = std::sqrt(dense + factors / static_cast<double>(members.size()));
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

SitePosterior without_rates(std::vector<SiteRow> rows, const SitePriors& priors) {
  for (SiteRow& row : rows) row.slopes = {.step = row.slopes.step};
  return site_posterior(rows, priors);
}

// Of ln(measured) of a row beside those that updated the site.
double deviation(const SitePosterior& site, const SiteRow& row) {
  return std::sqrt(site.variance_of(row) + squared(site.fit.noise));
}

// What it took beyond its prediction, in such deviations.
double standardised(const SitePosterior& site, const SiteRow& row) {
  return (row.residual - site.mean_of(row)) / deviation(site, row);
}

// A prediction without runs knows nothing of layouts.
SitePosterior posterior_of(const Study& study, const std::vector<SiteRow>& drawn) {
  return site_posterior(drawn, drawn.empty() ? study.plain : study.priors);
}

// `drawn` rows update, the rest is scored; 90 % intervals reach over `quantiles`.
Learned learned(const Study& study, const std::vector<SiteRow>& drawn,
                const std::vector<SiteRow>& rest, std::pair<double, double> quantiles) {
  const SitePosterior step = without_rates(drawn, study.plain),
                      rates = site_posterior(drawn, study.plain), site = posterior_of(study, drawn);
  std::vector<double> ratios;
  for (const SiteRow& row : drawn) ratios.push_back(row.residual);
  const double scalar = ratios.empty() ? 0.0 : median(ratios);
  Learned result;
  result.none = median_size(rest, [](const SiteRow&) { return 0.0; });
  result.scalar = median_size(rest, [&](const SiteRow&) { return scalar; });
  result.step = median_size(rest, [&](SiteRow row) {
    row.slopes = {.step = row.slopes.step};
    return step.mean_of(row);
  });
  result.rates = median_size(rest, [&](const SiteRow& row) { return rates.mean_of(row); });
  result.site = median_size(rest, [&](const SiteRow& row) { return site.mean_of(row); });
  for (const SiteRow& row : rest) {
    const double z = standardised(site, row);
    const auto count = static_cast<double>(rest.size());
    result.coverage += (z >= quantiles.first && z <= quantiles.second) / count;
    result.width += deviation(site, row) * (quantiles.second - quantiles.first) / count;
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

// `scored` is called for each draw of `count` rows with them and the rest.
void for_each_draw(const Study& study, int count, auto scored) {
  std::mt19937 random(20261101);
  for (int draw = 0; draw < (count == 0 ? 1 : kDraws); ++draw) {
    const auto [drawn, rest] = drawn_from(study.rows, static_cast<std::size_t>(count), random);
    scored(drawn, rest);
  }
}

std::pair<double, double> quantiles_after(int count, const RunFit& fit) {
  if (count == 0) return fit.quantiles;
  return count < kFewRuns ? fit.site_quantiles.few : fit.site_quantiles.some;
}

StudyCurve curve_of(const std::string& name, const Study& study, const RunFit& fit) {
  StudyCurve curve{.study = name, .runs = static_cast<int>(study.rows.size()), .after = {}};
  for (const int count : kLearnedFrom) {
    std::vector<Learned> draws;
    for_each_draw(study, count, [&](const auto& drawn, const auto& rest) {
      draws.push_back(learned(study, drawn, rest, quantiles_after(count, fit)));
    });
    curve.after.push_back(mean_of(draws));
  }
  return curve;
}

bool is_large(const SiteStudy& study) { return study.rows.size() >= kFewestRuns; }

using Weighted = std::vector<std::pair<double, double>>;

// Of the rest after each of some numbers of runs, a weight of one for each draw.
Weighted standardised_rest(const Study& study, const std::vector<int>& counts) {
  Weighted values;
  for (const int count : counts) {
    for_each_draw(study, count, [&](const auto& drawn, const auto& rest) {
      const SitePosterior site = posterior_of(study, drawn);
      for (const SiteRow& row : rest)
        values.emplace_back(standardised(site, row), 1.0 / static_cast<double>(rest.size()));
    });
  }
  return values;
}

std::pair<double, double> quantiles_of(const std::vector<Study>& studies,
                                       const std::vector<int>& counts, unsigned threads) {
  std::vector<Weighted> by_study(studies.size());
  in_parallel(studies.size(), threads,
              [&](std::size_t s) { by_study[s] = standardised_rest(studies[s], counts); });
  Weighted all;
  for (const Weighted& of : by_study) all.insert(all.end(), of.begin(), of.end());
  return {weighted_quantile(all, 0.05), weighted_quantile(all, 0.95)};
}

}  // namespace

std::vector<SiteStudy> site_studies(const MeasuredRuns& runs, const RunFit& fit, unsigned threads) {
  std::vector<std::vector<std::size_t>> members(runs.groups.size());
  for (std::size_t i = 0; i < runs.runs.size(); ++i) members[runs.runs[i].group].push_back(i);
  std::vector<SiteStudy> studies(runs.groups.size());
  in_parallel(runs.groups.size(), threads,
              [&](std::size_t g) { studies[g] = study_of(runs, fit, members[g]); });
  return studies;
}

std::vector<StudyCurve> learning_curves(const MeasuredRuns& runs, const RunFit& fit) {
  const std::vector<SiteStudy> studies = site_studies(runs, fit);
  std::vector<StudyCurve> curves(studies.size());
  in_parallel(studies.size(), 0, [&](std::size_t g) {
    if (is_large(studies[g]))
      curves[g] = curve_of(runs.groups[g], with_layouts(studies[g], fit.layouts.without[g]), fit);
  });
  std::erase_if(curves, [](const StudyCurve& curve) { return curve.after.empty(); });
  return curves;
}

SiteQuantiles site_quantiles(const std::vector<SiteStudy>& studies, const LayoutFit& layouts,
                             unsigned threads) {
  std::vector<Study> large;
  for (std::size_t g = 0; g < studies.size(); ++g)
    if (is_large(studies[g])) large.push_back(with_layouts(studies[g], layouts.without[g]));
  if (large.empty()) return {};
  return {.few = quantiles_of(large, {1, 2}, threads),
          .some = quantiles_of(large, {3, 5}, threads)};
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
