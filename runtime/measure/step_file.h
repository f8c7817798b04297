// A training step that is described in a file: the run file of one run, all of whose model and
// strategy is stated, as `llmsim calibrate run --step` writes it and run_record() does.
//
//   {"id": "my run", "model": {"num_layers": 2, ...}, "training": {"framework": "libtorch",
//    "micro_batch": 1, "recompute": {"kind": "full"}, ...}}
//
// Keys are those of sim::transformer_fields() and sim::strategy_fields(); what is null, and what
// the runtime has no field for, is left out.
#pragma once

#include <string>

#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

#include "runtime/measure/step_cases.h"

namespace llmsim::runtime {

// Tokens go to experts evenly.  Throws Error for a value that its field cannot have.
StepCase step_of_record(const nlohmann::json& record, c10::Device device);

// Throws Error naming the file where it cannot be read, is no JSON object, or has such a value.
StepCase read_step_file(const std::string& path, c10::Device device);

}  // namespace llmsim::runtime
