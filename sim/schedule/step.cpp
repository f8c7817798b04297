#include "sim/schedule/step.h"

#include <cmath>

#include "sim/schedule/step_simulation.h"

namespace llmsim::sim {
namespace {

// Of a step: what its terms and its events may differ by, as sums of up to some million times in other orders.
constexpr double kRounding = 1e-9;

bool is_listed(Term term, Seconds time, Seconds step) {
  return term == Term::Remainder ? std::abs(time / step) > kRounding : time > Seconds(0.0);
}

}  // namespace

StepTimes simulate_step(const Run& run, const LayerPrices& prices) {
  const StepSimulation simulation(run, prices);
  const Terms& terms = simulation.terms();
  StepTimes step;
  step.total = terms.total();
  step.bubble = simulation.bubble();
  for (int i = 0; i < kNumTerms; ++i) {
    const Term term = static_cast<Term>(i);
    if (is_listed(term, terms[term], step.total)) step.breakdown.push_back({name_of(term), terms[term]});
  }
  step.communication = communication_of(run, prices, simulation.exchange(), simulation.parts_of(simulation.busiest()), terms);
  return step;
}

Seconds step_time(const Run& run, const LayerPrices& prices) { return StepSimulation(run, prices).terms().total(); }

}  // namespace llmsim::sim
