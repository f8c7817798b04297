#include "calibrate/site_fit.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "hwdb/runs/run_resolver.h"
#include "sim/base/error.h"
#include "sim/cost/layer_prices.h"
#include "sim/schedule/step.h"
#include "sim/schedule/step_error.h"
#include "sim/strategy/validity.h"

namespace llmsim::calibrate {
namespace {

constexpr std::size_t kFirstCell = std::size(hwdb::kSiteEffects);
constexpr double kDifference = 0.02;    // of a numerical derivative
constexpr int kSiteLinearisations = 2;  // the second moves nothing by more than a thousandth

double squared(double x) { return x * x; }

double log_time(sim::Run run, const hwdb::SiteEffects& effects) {
  hwdb::apply_effects(run, effects);
  run.model.vocab_size = sim::trained_vocab_size(run);
  return std::log(sim::step_time(run, sim::layer_prices(run)).value());
}

double cell_variance(const SiteRun& run) { return squared(run.run.framework.errors.cell); }
double step_variance(const SiteRun& run) {
  const sim::PredictionErrors& errors = run.run.framework.errors;
  return squared(errors.site) + squared(errors.efficiency) +
         squared(run.run.cluster.device.achieved.training_rate_error);
}

// Of ln(measured / predicted), without a site.
double predicted_variance(const SiteRun& of) {
  sim::Run run = of.run;
  run.model.vocab_size = sim::trained_vocab_size(run);
  const sim::LayerPrices prices = sim::layer_prices(run);
  const sim::StepSlopes slopes = sim::step_slopes(run, prices, sim::simulate_step(run, prices));
  return squared(sim::step_error(run, slopes));
}

template <typename Property>
double mean_of(const std::vector<SiteRun>& runs, Property property) {
  double sum = 0.0;
  for (const SiteRun& run : runs) sum += property(run);
  return sum / static_cast<double>(runs.size());
}

double mean_error(const std::vector<SiteRun>& runs, double sim::PredictionErrors::*error) {
  return mean_of(runs, [&](const SiteRun& run) { return run.run.framework.errors.*error; });
}

// What errors.moe_site is above errors.site.
double mean_ranks_variance(const std::vector<SiteRun>& runs) {
  return mean_of(runs, [](const SiteRun& r) {
    const sim::PredictionErrors& errors = r.run.framework.errors;
    return std::max(0.0, squared(errors.moe_site) - squared(errors.site));
  });
}

SitePriors priors_of(const std::vector<SiteRun>& runs, const std::vector<hwdb::SiteCell>& cells,
                     const sim::LayoutErrors& layouts) {
  const double shared = mean_of(runs, cell_variance), ranks = mean_ranks_variance(runs);
  SitePriors priors;
  priors.spreads = {.step = std::sqrt(mean_of(runs, step_variance)),
                    .memory = mean_error(runs, &sim::PredictionErrors::memory_bound),
                    .network = mean_error(runs, &sim::PredictionErrors::collectives),
                    .host = mean_error(runs, &sim::PredictionErrors::hosts)};
  priors.layouts = layouts;
  priors.noise = layouts.run;
  if (layouts.error == 0.0)
    priors.noise = std::sqrt(
        mean_of(runs, [](const SiteRun& run) { return squared(run.run.framework.errors.run); }));
  priors.noise_runs = mean_error(runs, &sim::PredictionErrors::noise_runs);
  for (const hwdb::SiteCell& cell : cells)
    priors.cells.push_back(std::sqrt(shared + (cell.kind == hwdb::CellKind::Dense ? 0.0 : ranks)));
  return priors;
}

// Slopes of the effects of a site in a row, without those of layouts.
Slopes site_slopes(const SiteRow& row) {
  Slopes slopes;
  for (const auto& [key, words, value] : hwdb::kSiteEffects)
    slopes.emplace_back(slopes.size(), row.slopes.*value);
  slopes.emplace_back(kFirstCell + row.cell, row.slopes.step);
  return slopes;
}

Slopes layout_slopes(const SitePosterior& posterior, const sim::LayoutPoint& layout) {
  Slopes slopes;
  for (const double y : posterior.layouts.slopes(layout))
    slopes.emplace_back(posterior.first_layout() + slopes.size(), y);
  return slopes;
}

// Of all effects.
Slopes all_slopes(const SitePosterior& posterior, const SiteRow& row) {
  Slopes slopes = site_slopes(row);
  for (const auto& [k, y] : layout_slopes(posterior, row.layout))
    slopes.emplace_back(k, row.slopes.step * y);
  return slopes;
}

struct Linear {
  std::vector<SiteRow> rows;   // of the runs
  std::vector<SiteRow> parts;  // of the steps of profiled ones,
  std::vector<bool> profiled;  // which are these
  SitePriors priors;
  SitePosterior posterior;

  // Of a cell, without a layout.
  hwdb::SiteEffects effects(std::size_t cell) const {
    hwdb::SiteEffects effects;
    const std::vector<double>& means = posterior.fit.means;
    if (means.empty()) return effects;
    for (std::size_t k = 0; k < kFirstCell; ++k) effects.*hwdb::kSiteEffects[k].value = means[k];
    effects.step += means[kFirstCell + cell];
    return effects;
  }

  hwdb::SiteEffects effects(std::size_t cell, const sim::LayoutPoint& layout) const {
    hwdb::SiteEffects effects = this->effects(cell);
    if (!posterior.fit.means.empty())
      effects.step += posterior.fit.mean_of(layout_slopes(posterior, layout));
    return effects;
  }
};

// The rows around the effects so far, as if these were 0.
void linearise(const std::vector<SiteRun>& runs, const std::vector<std::size_t>& cells,
               Linear& linear) {
  std::vector<SiteRow> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const hwdb::SiteEffects at = linear.effects(cells[i], hwdb::layout_of(runs[i].run));
    SiteRow row = site_row(runs[i], at);
    row.cell = cells[i];
    for (const auto& [key, words, value] : hwdb::kSiteEffects)
      row.residual += row.slopes.*value * at.*value;
    rows.push_back(row);
  }
  linear.rows = std::move(rows);
}

// The rows of parts, which hold for all effects alike.
void add_parts(const std::vector<SiteRun>& runs, const std::vector<std::size_t>& cells,
               Linear& linear) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    linear.profiled.push_back(!runs[i].parts.empty());
    for (SiteRow row : runs[i].parts) {
      row.cell = cells[i];
      row.layout = hwdb::layout_of(runs[i].run);
      linear.parts.push_back(row);
    }
  }
}

// Slopes of effects without those of layouts, the mean of the rows that `counts`; with the effect
// of their cell, or without.
template <typename Counts>
std::vector<Slopes> slopes_of(const Linear& linear, bool with_cell, Counts counts) {
  std::vector<Slopes> all;
  for (const SiteRow& row : linear.rows) {
    if (!counts(row)) continue;
    all.push_back(site_slopes(row));
    if (!with_cell) all.back().pop_back();
  }
  return all;
}

double mean_variance(const Linear& linear, const std::vector<Slopes>& rows) {
  double sum = 0.0;
  for (const Slopes& slopes : rows) sum += linear.posterior.fit.variance_of(slopes);
  return sum / static_cast<double>(rows.size());
}

// The weights of k(x, P) that give the covariance of the layout x with the mean of some rows.
std::vector<double> layout_weights(const Linear& linear, const std::vector<Slopes>& rows) {
  const SitePosterior& posterior = linear.posterior;
  std::vector<double> shared(posterior.layouts.pivots().size(), 0.0);
  for (std::size_t j = 0; j < shared.size(); ++j) {
    for (const Slopes& slopes : rows) {
      for (const auto& [k, x] : slopes)
        shared[j] += x * posterior.fit.covariance[k][posterior.first_layout() + j] /
                     static_cast<double>(rows.size());
    }
  }
  return posterior.layouts.weights(std::move(shared));
}

// M of hwdb/runs/site_layouts.h: L^-T (C - 1) L^-1, C the covariance of the effects of the basis.
std::vector<std::vector<double>> layout_squares(const SitePosterior& posterior) {
  const std::size_t count = posterior.layouts.pivots().size();
  std::vector<std::vector<double>> half(count), whole(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < count; ++j) {
      const std::size_t first = posterior.first_layout();
      half[i].push_back(posterior.fit.covariance[first + i][first + j] - (i == j ? 1.0 : 0.0));
    }
    half[i] = posterior.layouts.weights(half[i]);
  }
  for (std::size_t j = 0; j < count; ++j) {
    std::vector<double> column;
    for (std::size_t i = 0; i < count; ++i) column.push_back(half[i][j]);
    column = posterior.layouts.weights(column);
    for (std::size_t i = j; i < count; ++i) whole[i].push_back(column[i]);
  }
  return whole;
}

hwdb::SiteLayouts layouts_of(const Linear& linear, const std::vector<hwdb::SiteCell>& cells) {
  const SitePosterior& posterior = linear.posterior;
  hwdb::SiteLayouts layouts;
  layouts.errors = posterior.layouts.errors();
  layouts.points = posterior.layouts.pivots();
  layouts.weights = posterior.layouts.weights(
      {posterior.fit.means.begin() + static_cast<std::ptrdiff_t>(posterior.first_layout()),
       posterior.fit.means.end()});
  layouts.squares = layout_squares(posterior);
  layouts.in_cell[""] =
      layout_weights(linear, slopes_of(linear, false, [](const SiteRow&) { return true; }));
  for (std::size_t c = 0; c < cells.size(); ++c)
    layouts.in_cell[key_of(cells[c])] = layout_weights(
        linear, slopes_of(linear, true, [c](const SiteRow& row) { return row.cell == c; }));
  return layouts;
}

hwdb::Site site_of(const std::vector<SiteRun>& runs, std::vector<hwdb::SiteCell> cells,
                   const Linear& linear) {
  const MixedFit& fit = linear.posterior.fit;
  hwdb::Site site;
  for (std::size_t k = 0; k < kFirstCell; ++k) {
    site.effects.*hwdb::kSiteEffects[k].value = fit.means[k];
    site.deviations.*hwdb::kSiteEffects[k].value = fit.deviation(k);
  }
  const double shared =
      mean_variance(linear, slopes_of(linear, false, [](const SiteRow&) { return true; }));
  site.error = std::sqrt(shared + mean_of(runs, cell_variance));
  site.moe_error = std::hypot(site.error, std::sqrt(mean_ranks_variance(runs)));
  site.run_error = fit.noise;
  const bool few = std::ssize(runs) < kFewRuns;
  using Errors = sim::PredictionErrors;
  site.faster = mean_error(runs, few ? &Errors::few_faster : &Errors::site_faster);
  site.slower = mean_error(runs, few ? &Errors::few_slower : &Errors::site_slower);
  for (std::size_t c = 0; c < cells.size(); ++c) {
    cells[c].step = linear.effects(c).step;
    cells[c].error = std::sqrt(mean_variance(
        linear, slopes_of(linear, true, [c](const SiteRow& row) { return row.cell == c; })));
  }
  site.layouts = layouts_of(linear, cells);
  site.cells = std::move(cells);
  return site;
}

bool is_timed(const hwdb::RunRecord& record) {
  return record.measured && record.measured->step_time;
}

SiteRun site_run(const hwdb::RunRecord& record, hwdb::RunResolver& resolver) {
  SiteRun run{.id = record.id,
              .run = resolver.resolve(record),
              .measured = record.measured->step_time->value()};
  const auto broken = sim::broken_rule(run.run.model, run.run.strategy, run.run.cluster);
  if (broken) throw Error(record.file + ": run " + record.id + ": " + broken->message);
  if (run.measured <= 0.0)
    throw Error(record.file + ": run " + record.id +
                ": measured.step_time_s is not positive; seconds are expected");
  run.run.facts.clear();
  return run;
}

std::string count_of(const std::vector<SiteRun>& runs) {
  return std::to_string(runs.size()) + (runs.size() == 1 ? " run" : " runs");
}

}  // namespace

std::size_t SitePosterior::first_layout() const { return kFirstCell + cells; }

double SitePosterior::mean_of(const SiteRow& row) const {
  return fit.mean_of(all_slopes(*this, row));
}

double SitePosterior::covariance_of(const SiteRow& row, const SiteRow& other) const {
  const Slopes of_other = all_slopes(*this, other);
  double sum = row.slopes.step * other.slopes.step * layouts.rest(row.layout, other.layout);
  for (const auto& [j, x] : all_slopes(*this, row)) {
    for (const auto& [k, z] : of_other) sum += x * z * fit.covariance[j][k];
  }
  return sum;
}

SitePosterior site_posterior(const std::vector<SiteRow>& rows, const SitePriors& priors,
                             const std::vector<SiteRow>& parts, const std::vector<bool>& profiled) {
  const bool student = std::ssize(rows) >= kFewRuns;
  MixedModel model;
  const auto add = [&](double spread, bool heavy) {
    model.effects.push_back(model.classes.size());
    model.classes.push_back({.spread = spread, .prior_weight = kGiven, .student = heavy});
  };
  for (const auto& [key, words, value] : hwdb::kSiteEffects)
    add(priors.spreads.*value, student && value == &hwdb::SiteEffects::step);
  for (const double cell : priors.cells) add(cell, false);
  std::vector<sim::LayoutPoint> layouts;
  for (const SiteRow& row : rows) layouts.push_back(row.layout);
  SitePosterior posterior{.fit = {},
                          .layouts = LayoutBasis(std::move(layouts), priors.layouts),
                          .cells = priors.cells.size()};
  const std::size_t of_layouts = model.classes.size();
  model.classes.push_back({.spread = 1.0, .prior_weight = kGiven, .student = false});
  model.effects.resize(model.effects.size() + posterior.layouts.pivots().size(), of_layouts);
  model.noise = {.spread = priors.noise,
                 .prior_weight = student ? priors.noise_runs : kGiven,
                 .student = student};
  const auto observe = [&](const SiteRow& row) {
    model.observations.push_back({.value = row.residual, .slopes = all_slopes(posterior, row)});
  };
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (profiled.empty() || !profiled[i]) observe(rows[i]);
  for (const SiteRow& part : parts) observe(part);
  MixedFit given{.means = {}, .covariance = {}, .spreads = {}, .noise = priors.noise};
  for (const EffectClass& of : model.classes) given.spreads.push_back(of.spread);
  posterior.fit = fit(model, student ? nullptr : &given);
  return posterior;
}

SiteRow site_row(const SiteRun& run, const hwdb::SiteEffects& at) {
  const double time = log_time(run.run, at);
  SiteRow row{.residual = std::log(run.measured) - time, .layout = hwdb::layout_of(run.run)};
  for (const auto& [key, words, value] : hwdb::kSiteEffects) {
    hwdb::SiteEffects moved = at;
    moved.*value += kDifference;
    row.slopes.*value = (log_time(run.run, moved) - time) / kDifference;
  }
  return row;
}

std::vector<SiteRun> site_runs(std::span<const hwdb::RunFile> files,
                               const hwdb::Database& database) {
  hwdb::RunResolver resolver(database);
  std::vector<SiteRun> runs;
  for (const hwdb::RunFile& file : files) {
    if (!file.rejected.empty())
      throw Error(file.file + ": run " + file.rejected.front().id + ": " +
                  file.rejected.front().reason);
    const bool some_scored = std::ranges::any_of(file.runs, [](const hwdb::RunRecord& run) {
      return is_timed(run) && run.scored.step_time;
    });
    for (const hwdb::RunRecord& record : file.runs) {
      if (is_timed(record) && (record.scored.step_time || !some_scored))
        runs.push_back(site_run(record, resolver));
    }
    if (!std::ranges::any_of(file.runs, [](const hwdb::RunRecord& run) {
          return is_timed(run) || (run.measured && run.measured->peak_memory);
        }))
      throw Error(
          file.file +
          ": no measured step time and no peak; measured.step_time_s is expected in seconds "
          "or measured.peak_memory_bytes in bytes, as llmsim calibrate log writes them");
  }
  return runs;
}

SiteCells site_cells(const std::vector<SiteRun>& runs) {
  SiteCells result;
  for (const SiteRun& run : runs) {
    const bool moe = run.run.model.moe.has_value();
    const hwdb::SiteCell of{.device = run.run.cluster.device.id,
                            .framework = run.run.framework.id,
                            .precision = name_of(run.run.strategy.precision),
                            .kind = moe ? hwdb::CellKind::Moe : hwdb::CellKind::Dense};
    const auto found = std::ranges::find_if(result.cells, [&](const hwdb::SiteCell& cell) {
      return cell.device == of.device && cell.framework == of.framework &&
             cell.precision == of.precision && (cell.kind == hwdb::CellKind::Moe) == moe;
    });
    const auto place = static_cast<std::size_t>(found - result.cells.begin());
    if (found == result.cells.end()) result.cells.push_back(of);
    if (!moe && hwdb::has_experts_or_ranks(run.run))
      result.cells[place].kind = hwdb::CellKind::Ranks;
    result.of_run.push_back(place);
  }
  return result;
}

SiteFit fit_site(const std::string& name, const std::vector<SiteRun>& runs,
                 const sim::LayoutErrors& layouts, const std::string& facts) {
  const SiteCells cells = site_cells(runs);
  Linear linear{.rows = {},
                .parts = {},
                .profiled = {},
                .priors = priors_of(runs, cells.cells, layouts),
                .posterior = {}};
  add_parts(runs, cells.of_run, linear);
  for (int i = 0; i < kSiteLinearisations; ++i) {
    linearise(runs, cells.of_run, linear);
    linear.posterior = site_posterior(linear.rows, linear.priors, linear.parts, linear.profiled);
  }
  SiteFit result;
  result.site = site_of(runs, cells.cells, linear);
  result.site.name = name;
  result.site.source = "site fit (calibrate/site_fit.h) to " + count_of(runs) + ", " + facts;
  std::vector<std::string> ids;
  const double noise = linear.posterior.fit.noise;
  double unknown = 0.0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    unknown += linear.posterior.variance_of(linear.rows[i]) / static_cast<double>(runs.size());
    ids.push_back(runs[i].id);
    const double after =
        log_time(runs[i].run, linear.effects(cells.of_run[i], linear.rows[i].layout));
    result.rows.push_back({.id = runs[i].id,
                           .measured = runs[i].measured,
                           .before = std::exp(log_time(runs[i].run, {})),
                           .after = std::exp(after),
                           .deviations = (std::log(runs[i].measured) - after) / noise});
  }
  result.site.fitted_from = count_of(runs) + ": " + sim::joined(ids, ", ");
  result.prior_error = std::sqrt(mean_of(runs, predicted_variance));
  result.error = std::hypot(std::sqrt(unknown), noise);
  result.posterior = std::move(linear.posterior);
  return result;
}

}  // namespace llmsim::calibrate
