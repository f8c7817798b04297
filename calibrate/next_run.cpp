#include "calibrate/next_run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "sim/base/error.h"
#include "sim/predict.h"
#include "sim/strategy/validity.h"

namespace llmsim::calibrate {
namespace {

constexpr int kFewestShare = 16;  // of the devices

// Half or twice as much; none where it has no half.
std::optional<int> scaled(int value, int times, int parts) {
  if (value * times % parts != 0) return std::nullopt;
  return value * times / parts;
}

// The run with a number changed that leaves the devices as they are.
std::optional<sim::Run> changed(sim::Run run, int sim::Strategy::*number, int times, int parts) {
  sim::Strategy& s = run.strategy;
  const auto value = scaled(s.*number, times, parts);
  const auto dp =
      number == &sim::Strategy::micro_batch ? std::optional(s.dp) : scaled(s.dp, parts, times);
  if (!value || !dp) return std::nullopt;
  s.*number = *value, s.dp = *dp;
  return run;
}

std::optional<sim::Run> on_fewer_devices(sim::Run run, int parts) {
  sim::Strategy& s = run.strategy;
  const auto dp = scaled(s.dp, 1, parts), batch = scaled(s.global_batch, 1, parts),
             devices = scaled(run.cluster.num_devices, 1, parts);
  if (!dp || !batch || !devices) return std::nullopt;
  s.dp = *dp, s.global_batch = *batch, run.cluster.num_devices = *devices;
  return run;
}

bool fits(const sim::Run& run) {
  return !sim::broken_rule(run.model, run.strategy, run.cluster) && !sim::predict(run).infeasible;
}

std::size_t cell_in(const SiteFit& fit, const sim::Run& run) {
  const hwdb::SiteCell* cell = hwdb::cell_of(fit.site, run);
  if (!cell)
    throw Error("the site has no run on " + run.cluster.device.id + " under " + run.framework.id +
                " in " + name_of(run.strategy.precision) +
                " of such a model: one of them, on few devices, tells most");
  return static_cast<std::size_t>(cell - fit.site.cells.data());
}

// Of a run that nobody has measured.
SiteRow unmeasured(const SiteFit& fit, const sim::Run& run) {
  SiteRow row = site_row({.id = run.id, .run = run, .measured = 1.0});
  row.cell = cell_in(fit, run);
  return row;
}

double step_time(const SiteFit& fit, const SiteRow& row) {
  return std::exp(fit.posterior.mean_of(row) - row.residual);
}

}  // namespace

double variance_after(const SitePosterior& site, const SiteRow& wanted, const SiteRow& measured) {
  const double shared = site.covariance_of(wanted, measured);
  return site.variance_of(wanted) -
         shared * shared / (site.variance_of(measured) + site.fit.noise * site.fit.noise);
}

std::vector<sim::Run> neighbours(const sim::Run& run) {
  using Change = std::function<std::optional<sim::Run>(const sim::Run&)>;
  std::vector<Change> changes{[](const sim::Run& same) { return same; }};
  for (int sim::Strategy::*number :
       {&sim::Strategy::micro_batch, &sim::Strategy::tp, &sim::Strategy::pp}) {
    changes.push_back([number](const sim::Run& of) { return changed(of, number, 2, 1); });
    changes.push_back([number](const sim::Run& of) { return changed(of, number, 1, 2); });
  }
  std::vector<sim::Run> found;
  for (int parts = 1; parts <= kFewestShare; parts *= 2) {
    const auto smaller = on_fewer_devices(run, parts);
    for (std::size_t c = 0; smaller && c < changes.size(); ++c) {
      const auto neighbour = changes[c](*smaller);
      if (neighbour && (parts > 1 || c > 0) && fits(*neighbour)) found.push_back(*neighbour);
    }
  }
  return found;
}

NextRuns next_runs(const SiteFit& fit, const sim::Run& wanted) {
  const SiteRow row = unmeasured(fit, wanted);
  const double expected = step_time(fit, row);
  const sim::PredictionErrors& errors = wanted.framework.errors;
  const auto interval = [&](double variance, std::size_t runs) {
    const bool few = runs < kFewRuns;
    const double deviation = std::hypot(std::sqrt(std::max(0.0, variance)), fit.site.run_error);
    const double faster = few ? errors.few_faster : errors.site_faster,
                 slower = few ? errors.few_slower : errors.site_slower;
    return std::pair(expected * std::exp(-faster * deviation),
                     expected * std::exp(slower * deviation));
  };
  const std::size_t runs = fit.rows.size();
  NextRuns result{.now = {.run = wanted,
                          .step_time = expected,
                          .interval = interval(fit.posterior.variance_of(row), runs)},
                  .best = {}};
  std::map<int, std::pair<double, NextRun>> by_devices;  // v' and the run
  for (const sim::Run& run : neighbours(wanted)) {
    const SiteRow other = unmeasured(fit, run);
    const double variance = variance_after(fit.posterior, row, other);
    const auto known = by_devices.find(run.cluster.num_devices);
    if (known != by_devices.end() && known->second.first <= variance) continue;
    by_devices[run.cluster.num_devices] = {
        variance,
        {.run = run, .step_time = step_time(fit, other), .interval = interval(variance, runs + 1)}};
  }
  std::vector<std::pair<double, NextRun>> best;
  for (auto& [devices, one] : by_devices) best.push_back(std::move(one));
  std::ranges::stable_sort(best, {}, &std::pair<double, NextRun>::first);
  for (auto& [variance, one] : best) result.best.push_back(std::move(one));
  return result;
}

}  // namespace llmsim::calibrate
