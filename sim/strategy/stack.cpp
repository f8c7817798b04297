#include "sim/strategy/stack.h"

#include "sim/strategy/strategy.h"

namespace llmsim::sim {

Stack effective_stack(const Stack& stack, const Strategy& strategy) {
  Stack effective = stack;
  if (strategy.compile && stack.fusion == ElementwiseFusion::Eager) effective.fusion = ElementwiseFusion::Compiled;
  return effective;
}

}  // namespace llmsim::sim
