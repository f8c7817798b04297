// Reads a published rate or utilisation: which step time it means, and how much of it is work that matrix units did.
//
// A study that prints R FLOP/s per device by a convention that counts F_c FLOP a step on D devices has measured
//
//   step time = F_c / (D R)      exact rate = R F / F_c
//
// F is this program's own count (gemm_causal: every GEMM, attention's masked half left out).  The one-layer proxy of a
// 70B model that llm-train-bench ran counts 1.56 times its work: 6 N of 2.957 B parameters, of which 1.051 B are an embedding
// lookup, and the full square of attention.  Its 790 TFLOP/s, "80 %" of 989, are 507 TFLOP/s, 51 %.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "sim/model/conventions.h"

namespace llmsim::sim {

struct Reading {
  std::string convention;
  Seconds step_time{};
  FlopsPerSecond exact{};  // per device
  double exact_mfu = 0.0;
};

// `reported` is per device, counted by `convention`.
Reading reading_of(const Convention& convention, FlopsPerSecond reported, const StepWork& work);

// The convention by which a step of `measured` seconds has the reported rate within 3 %: the nearest one, or none.
std::optional<Convention> convention_behind(std::span<const Convention> conventions, FlopsPerSecond reported, Seconds measured,
                                            int num_devices);

}  // namespace llmsim::sim
