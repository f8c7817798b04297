// Runs a training step for what it counts, not for how long it takes: one rank, on the CPU or the
// meta device, with groups that carry nothing.
//
//   {"type": "counted", "key": ..., "run": {...the Run schema...}, "rank", "stage", "shard",
//    "counts": {"parameters", "forward": {"gemm_flops", "attention_flops"}, "backward": {...},
//    "bytes": {"persistent", "after_forward", "peak", "host", "host_peak"},
//    "sent": [{"group": "dp", "collective": "all_reduce", "calls", "bytes"}]}}
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runtime/library/operator_trace.h"
#include "runtime/measure/step_bench.h"
#include "runtime/model/trainer.h"
#include "sim/schedule/stage_work.h"

namespace llmsim::runtime {

// FLOPs of a training step's passes, forward and backward separately, as they are executed.  Counts
// from construction to destruction; on a thread one OperatorTrace at a time.
class PassFlops {
 public:
  // All that has been executed since the last call was this pass (StepObserver::pass_done).
  void pass_done(bool backward);

  const sim::PassFlopCounts& forward() const { return forward_; }
  const sim::PassFlopCounts& backward() const { return backward_; }

 private:
  OperatorTrace trace_;
  sim::PassFlopCounts before_, forward_, backward_;
};

// The second step: the first one may leave buffers behind.
sim::RankCounts counted_step(const TrainingSetup& setup, int rank);

std::string counted_key(const StepCase& one, int rank);
nlohmann::json counted_record(const StepCase& one, int rank);

}  // namespace llmsim::runtime
