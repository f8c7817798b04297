// Trains small models for a few steps and records each as a measured Run.
//
//   {"type": "step", "key": ..., "run": {...the Run schema, with `measured`...}, "forward_s",
//    "backward_s", "optimizer_s", "median_s", "spread", "half_width", "repeats_n", "outcome",
//    "loss", "ranks": [{"rank", "step_time_s", "peak_bytes", "reserved_bytes"}], "flops":
//    {"forward", "backward"}, "communication": [{"group": "dp", "collective": "all_reduce",
//    "bytes", "count"}]}
//
// The models are GPT-2 and Llama shapes of the catalogue made small enough that a step takes a
// fraction of a second on a CPU; an MoE model with a balanced load and MLA among them; each
// configuration varies one or two things of a base one: width, depth, vocabulary, sequence,
// micro-batch, accumulation, precision, recomputation, attention, loss.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/measure/statistics.h"
#include "runtime/model/trainer.h"

namespace llmsim::runtime {

struct StepCase {
  std::string key;
  TrainingSetup setup;
};

// Those that one process executes on `device`; bf16 ones only where it can multiply in it.
std::vector<StepCase> step_cases(c10::Device device, bool bf16);

// Those of `ranks` processes: replicated, fully sharded, tensor ranks with and without sequence
// parallelism, pipeline stages; an MoE model over expert ranks;
// what does not divide is left out.
std::vector<StepCase> parallel_step_cases(int ranks, c10::Device device);

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
