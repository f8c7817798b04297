// Times operators, one record each.
//
//   {"type": "kernel", "key": ..., "kind": "gemm", "label": "mlp_up", "pass": "forward", "dtype":
//    "fp32", "batch", "m", "n", "k", "kernel": "rms_norm" (of memory-bound operators:
//    sim/hardware/device.h), "causal", "weight_gradient", "transposed", "attention": "blockwise",
//    "flops", "repeats", "moved_bytes", "kernels", "outcome": "ok", "median_s", "spread",
//    "half_width", "repeats_n", "clock_hz", "watts"}
//
// FLOPs and bytes are the simulator's for the operator.  An operator that does not fit has outcome
// "oom" and no times; one that the device or its library refuses has "refused" and a "reason".
//
// On accelerators a timing is of many calls in a row, so that neither the launch of one nor a pause
// of the device between them counts: `calls`, as many as take two milliseconds.  Clock, power and
// temperature are those while they ran (library/clock_log.h).
#pragma once

#include <functional>

#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

#include "runtime/library/clock_log.h"
#include "runtime/measure/kernel_work.h"
#include "runtime/measure/shapes.h"
#include "runtime/measure/statistics.h"

namespace llmsim::runtime {

nlohmann::json measure_kernel(const KernelCase& one, c10::Device device, sim::Bytes cache,
                              const RepeatOptions& options);

// The time of one call of `work`.
Timing timed_calls(c10::Device device, const std::function<void()>& work,
                   const RepeatOptions& options);

// Puts the results of a timing into a record.
void add_timing(nlohmann::json& record, const Timing& timing);
void add_clock(nlohmann::json& record, const ClockSummary& clock);

// Runs a measurement that fills `record`, whose outcome becomes "ok", "oom" where it runs out of
// memory, "refused" where the library of an accelerator throws.  Throws Error where the device is
// of no use any more.  What one of several ranks alone refuses is thrown, since the others wait.
void with_outcome(nlohmann::json& record, c10::Device device, const std::function<void()>& measure,
                  bool alone = true);

}  // namespace llmsim::runtime
