#include "sim/schedule/step_error.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace llmsim::sim {
namespace {

constexpr double kDifference = 0.02;  // of a logarithm

double slope(Seconds moved, Seconds at) { return std::log(moved / at) / kDifference; }

// Whether a collective's time is in the prices of layers, not of the exchange of gradients alone.
bool prices_collectives(const Strategy& strategy) {
  return strategy.tp > 1 || strategy.cp > 1 || strategy.ep > 1;
}

Run without_facts(const Run& run) {
  Run copy;
  copy.model = run.model;
  copy.cluster = run.cluster;
  copy.strategy = run.strategy;
  copy.framework = run.framework;
  copy.optimizer_step = run.optimizer_step;
  return copy;
}

}  // namespace

StepSlopes step_slopes(const Run& run, const LayerPrices& prices, const StepTimes& step) {
  const PredictionErrors& errors = run.framework.errors;
  StepSlopes slopes;
  if (errors.collectives > 0.0 && run.cluster.num_devices > 1) {
    Run moved = without_facts(run);
    moved.framework.collective_efficiency *= std::exp(kDifference);
    slopes.collectives =
        slope(prices_collectives(run.strategy) ? step_time(moved, layer_prices(moved))
                                               : step_time(moved, prices),
              step.total);
  }
  if (errors.hosts > 0.0) {
    Run moved = without_facts(run);
    moved.framework.host.factor *= std::exp(kDifference);
    slopes.hosts = slope(step_time(moved, prices), step.total);
  }
  const auto host = std::find_if(
      step.breakdown.begin(), step.breakdown.end(),
      [](const TimeTerm& term) { return term.name == std::string_view(name_of(Term::Host)); });
  if (host != step.breakdown.end()) slopes.between_steps = host->time / step.total;
  return slopes;
}

double step_error(const Run& run, const StepSlopes& slopes) {
  const PredictionErrors& errors = run.framework.errors;
  double variance = 0.0;
  for (const double deviation :
       {errors.efficiency, run.cluster.device.achieved.training_rate_error,
        has_moe_errors(run) ? errors.moe_site : errors.site, errors.cell, errors.run,
        slopes.collectives * errors.collectives, slopes.hosts * errors.hosts,
        slopes.between_steps * errors.between_steps})
    variance += deviation * deviation;
  return std::sqrt(variance);
}

}  // namespace llmsim::sim
