// What GEMMs and attention reach inside a training step, relative to the same kernels measured alone.
//
//   time in a step = time alone / (sustained_clock * training_rate * framework * host_sharing * library * low_precision *
//                                  determinism)
#pragma once

#include "sim/base/dtype.h"
#include "sim/run.h"

namespace llmsim::sim {

struct StepFactors {
  double sustained_clock = 1.0;  // Achieved::sustained_clock
  double training_rate = 1.0;    // Achieved::training_rate
  double framework = 1.0;        // Framework::efficiency
  double host_sharing = 1.0;     // what other processes of the host leave (host_sharing.h)
  double library = 1.0;          // GEMMs: Framework::gemm_efficiency
  double low_precision = 1.0;    // GEMMs in 8- and 4-bit formats: what the framework reaches of the library's rate
  double determinism = 1.0;      // attention, backward: sums in one order

  double rate() const {
    return sustained_clock * training_rate * framework * host_sharing * library * low_precision * determinism;
  }
};

StepFactors gemm_step_factors(const Run& run, DType dtype);
StepFactors attention_step_factors(const Run& run, bool backward);

}  // namespace llmsim::sim
