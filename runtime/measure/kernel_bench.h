// Times operators, one record each.
//
//   {"type": "kernel", "key": ..., "kind": "gemm", "label": "mlp_up", "pass": "forward", "dtype":
//    "fp32", "batch", "m", "n", "k", "kernel": "rms_norm" (of memory-bound operators:
//    sim/hardware/device.h), "causal", "weight_gradient", "transposed", "attention": "blockwise",
//    "flops", "repeats", "moved_bytes", "kernels", "outcome": "ok", "median_s", "spread",
//    "half_width", "repeats_n", "clock_hz", "watts"}
//
// FLOPs and bytes are the simulator's for the operator.  An operator that does not fit has outcome
// "oom" and no times.
#pragma once

#include <functional>

#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

#include "runtime/measure/kernel_work.h"
#include "runtime/measure/shapes.h"
#include "runtime/measure/statistics.h"

namespace llmsim::runtime {

nlohmann::json measure_kernel(const KernelCase& one, c10::Device device, sim::Bytes cache,
                              const RepeatOptions& options);

// Puts the results of a timing into a record.
void add_timing(nlohmann::json& record, const Timing& timing);

// Runs a measurement that fills `record`; where it runs out of memory the record gets outcome
// "oom", else "ok".
void with_outcome(nlohmann::json& record, const std::function<void()>& measure);

}  // namespace llmsim::runtime
