#include "calibrate/profile/step_part.h"

namespace llmsim::calibrate {

sim::NameTable<StepPart> name_table(StepPart) {
  static constexpr auto kNames = sim::in_order<StepPart>(
      {"gemms", "attention", "memory_bound", "casts", "optimizer", "other_kernels",
       "tensor_collectives", "context_collectives", "expert_collectives", "pipeline",
       "data_collectives", "other_collectives", "waiting", "copies", "data_loading", "idle",
       "remainder"});
  return kNames;
}

sim::Seconds StepParts::total() const {
  sim::Seconds sum;
  for (const sim::Seconds time : times_) sum += time;
  return sum;
}

}  // namespace llmsim::calibrate
