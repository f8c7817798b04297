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

const hwdb::SiteCell& cell_in(const SiteFit& fit, const sim::Run& run) {
  const hwdb::SiteCell* cell = hwdb::cell_of(fit.site, run);
  if (!cell)
    throw Error("the site has no run on " + run.cluster.device.id + " under " + run.framework.id +
                " in " + name_of(run.strategy.precision) +
                " of such a model: one of them, on few devices, tells most");
  return *cell;
}

// Of a run that nobody has measured: its slopes where the site has it.
SiteRow unmeasured(const SiteFit& fit, const sim::Run& run) {
  const hwdb::SiteCell& cell = cell_in(fit, run);
  hwdb::SiteEffects at = fit.site.effects;
  at.step = cell.step + fit.site.layouts.mean(hwdb::layout_of(run));
  SiteRow row = site_row({.id = run.id, .run = run, .measured = 1.0}, at);
  row.cell = static_cast<std::size_t>(&cell - fit.site.cells.data());
  return row;
}

sim::Prediction predicted(const SiteFit& fit, sim::Run run) {
  hwdb::apply(fit.site, hwdb::Frameworks::shipped(), run);
  return sim::predict(run);
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
  const sim::Prediction now = predicted(fit, wanted);
  const double expected = now.step_time.value();
  const double deviation = std::log(now.interval.second / now.step_time) / fit.site.slower;
  const sim::PredictionErrors& errors = wanted.framework.errors;
  const bool few = fit.rows.size() + 1 < kFewRuns;
  const double faster = few ? errors.few_faster : errors.site_faster,
               slower = few ? errors.few_slower : errors.site_slower;
  const auto interval_after = [&](double known) {
    const double left = std::sqrt(std::max(0.0, deviation * deviation - known));
    return std::pair(expected * std::exp(-faster * left), expected * std::exp(slower * left));
  };
  NextRuns result{.now = {.run = wanted,
                          .step_time = expected,
                          .interval = {now.interval.first.value(), now.interval.second.value()}},
                  .best = {}};
  const double unknown = fit.posterior.variance_of(row);
  std::map<int, std::pair<double, NextRun>> by_devices;  // v' and the run
  for (const sim::Run& run : neighbours(wanted)) {
    const double after = variance_after(fit.posterior, row, unmeasured(fit, run));
    const auto known = by_devices.find(run.cluster.num_devices);
    if (known != by_devices.end() && known->second.first <= after) continue;
    by_devices[run.cluster.num_devices] = {after,
                                           {.run = run,
                                            .step_time = predicted(fit, run).step_time.value(),
                                            .interval = interval_after(unknown - after)}};
  }
  std::vector<std::pair<double, NextRun>> best;
  for (auto& [devices, one] : by_devices) best.push_back(std::move(one));
  std::ranges::stable_sort(best, {}, &std::pair<double, NextRun>::first);
  for (auto& [variance, one] : best) result.best.push_back(std::move(one));
  return result;
}

}  // namespace llmsim::calibrate
