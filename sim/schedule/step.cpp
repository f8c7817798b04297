#include "sim/schedule/step.h"

#include "sim/schedule/step_simulation.h"

namespace llmsim::sim {

StepTimes simulate_step(const Run& run, const LayerPrices& prices) {
  const StepSimulation simulation(run, prices);
  const Terms& terms = simulation.terms();
  StepTimes step;
  step.total = terms.total();
  step.bubble = simulation.bubble();
  for (int i = 0; i < kNumTerms; ++i) {
    const Term term = static_cast<Term>(i);
    if (terms[term] > Seconds(0.0)) step.breakdown.push_back({name_of(term), terms[term]});
  }
  step.communication = communication_of(run, prices, simulation.exchange(), simulation.parts_of(simulation.busiest()), terms);
  return step;
}

Seconds step_time(const Run& run, const LayerPrices& prices) { return StepSimulation(run, prices).terms().total(); }

}  // namespace llmsim::sim
