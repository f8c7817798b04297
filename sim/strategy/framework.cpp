#include "sim/strategy/framework.h"

#include "sim/strategy/strategy.h"

namespace llmsim::sim {
namespace {

constexpr Named<ElementwiseFusion> kFusions[] = {
    {ElementwiseFusion::Eager, "eager"}, {ElementwiseFusion::Compiled, "compiled"}, {ElementwiseFusion::Fused, "fused"}};

constexpr Named<FusedLoss> kFusedLosses[] = {{FusedLoss::Kernel, "kernel"},
                                             {FusedLoss::Logits, "logits"},
                                             {FusedLoss::Recomputed, "recomputed"},
                                             {FusedLoss::Gradient, "gradient"}};

}  // namespace

NameTable<ElementwiseFusion> name_table(ElementwiseFusion) { return kFusions; }
NameTable<FusedLoss> name_table(FusedLoss) { return kFusedLosses; }

Framework effective_framework(const Framework& framework, const Strategy& strategy) {
  Framework effective = framework;
  if (strategy.compile && framework.fusion == ElementwiseFusion::Eager) effective.fusion = ElementwiseFusion::Compiled;
  return effective;
}

}  // namespace llmsim::sim
