#include "sim/schedule/step_error.h"

#include <cmath>
#include <string_view>

namespace llmsim::sim {
namespace {

constexpr double kDifference = 0.02;  // of a logarithm

Seconds time_of(const StepTimes& step, Term term) {
  for (const TimeTerm& chunk : step.breakdown) {
    if (chunk.name == std::string_view(name_of(term))) return chunk.time;
  }
  return Seconds(0.0);
}

// Whether layers run collectives of their own beside their compute, so that a slower network shows
// more of them.
bool hides_collectives(const Strategy& strategy) {
  return strategy.tp_overlap || strategy.moe_overlap || strategy.cp > 1;
}

// Of layers' own collectives, which the times between passes follow.
double exposed_share(const StepTimes& step) {
  const Seconds exposed = time_of(step, Term::TensorExposed) + time_of(step, Term::ContextExposed) +
                          time_of(step, Term::ExpertExposed);
  return exposed / (step.total - time_of(step, Term::PipelineBubble));
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
  const Framework& framework = run.framework;
  StepSlopes slopes;
  const auto slope_of = [&](const Run& moved, const LayerPrices& its_prices) {
    const StepSimulation simulation(moved, its_prices, StepSimulation::Passes{});
    return std::log(simulation.bound() / step.bound) / kDifference;
  };
  if (framework.errors.collectives > 0.0 && run.cluster.num_devices > 1) {
    Run moved = without_facts(run);
    moved.framework.collective_efficiency *= std::exp(kDifference);
    slopes.collectives = hides_collectives(run.strategy)
                             ? slope_of(moved, layer_prices(moved))
                             : slope_of(moved, prices) - exposed_share(step);
  }
  const bool launches =
      time_of(step, Term::LaunchWait) > Seconds(0.0) || framework.update.tensor_by_tensor;
  if (framework.errors.hosts > 0.0 && launches) {
    Run moved = without_facts(run);
    moved.framework.host.factor *= std::exp(kDifference);
    slopes.hosts = slope_of(moved, prices);
  }
  slopes.between_steps = time_of(step, Term::Host) / step.total;
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
