// FLOPs of a training step's passes, forward and backward apart, as they are executed.
#pragma once

#include "runtime/library/operator_trace.h"
#include "sim/schedule/stage_work.h"

namespace llmsim::runtime {

// Counts from construction to destruction; on a thread one OperatorTrace at a time.
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

}  // namespace llmsim::runtime
