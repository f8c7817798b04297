#include "sim/strategy/framework.h"

#include "sim/strategy/strategy.h"

namespace llmsim::sim {

Framework effective_framework(const Framework& framework, const Strategy& strategy) {
  Framework effective = framework;
  if (strategy.compile && framework.fusion == ElementwiseFusion::Eager) effective.fusion = ElementwiseFusion::Compiled;
  return effective;
}

}  // namespace llmsim::sim
