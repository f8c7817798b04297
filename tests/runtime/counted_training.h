// What one rank of a training holds and sends, counted while it runs with groups that carry nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "runtime/model/trainer.h"
#include "sim/run.h"

namespace llmsim::runtime {

struct Held {
  std::int64_t persistent = 0, after_forward = 0, peak = 0;
  std::int64_t host = 0, host_peak = 0;  // under offload
};

// By group and collective, as the simulator names them: {"dp", "all_gather"}.
using Sent = std::map<std::pair<std::string, std::string>, CollectiveCount>;

struct Counted {
  Held held;
  Sent data;  // over the groups of data parallelism
};

// The second step of a training on the meta device or the CPU: the first one may leave buffers behind.
Counted counted_training(const TrainingSetup& setup, int rank);

// The same as the simulator has it.
Counted simulated_training(const TrainingSetup& setup, int stage);
Counted simulated_training(sim::Run run, int stage);  // on any cluster

}  // namespace llmsim::runtime
