// Trains models for a few steps and records each as a measured Run.
//
//   {"type": "step", "key": ..., "run": {...the Run schema, with `measured`...}, "forward_s",
//    "backward_s", "optimizer_s", "median_s", "spread", "half_width", "repeats_n", "outcome",
//    "loss", "ranks": [{"rank", "step_time_s", "peak_bytes", "reserved_bytes",
//    "requested_bytes"}], "flops": {"forward", "backward"}, "communication": [{"group": "dp",
//    "collective": "all_reduce", "bytes", "count"}]}
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runtime/measure/statistics.h"
#include "runtime/measure/step_cases.h"
#include "runtime/parallel/rank_groups.h"

namespace llmsim::runtime {

// The record of a case without what is measured.
nlohmann::json step_record(const StepCase& one, const std::string& accelerator);

// The same with outcome "oom".
nlohmann::json oom_record(const StepCase& one, const std::string& accelerator);

// Trains on the ranks of `groups`.  `world`, of all ranks where there are several: a step takes as
// long as on its slowest rank, the record has all ranks' times and what this rank sent in one
// step, and is the same on each but for that.
nlohmann::json measure_step(const StepCase& one, const RankGroups& groups,
                            const std::string& accelerator, const RepeatOptions& options,
                            Communicator* world = nullptr);

// The Run schema of a setup, without `measured`.
nlohmann::json run_record(const StepCase& one, const std::string& accelerator);

}  // namespace llmsim::runtime
