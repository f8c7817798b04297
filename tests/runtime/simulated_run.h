// A training as the simulator sees it: the same model and strategy, and the behaviour of this
// runtime as a framework.
#pragma once

#include "runtime/model/trainer.h"
#include "sim/run.h"

namespace llmsim::runtime {

// Without a cluster and without rates, which are the device's: enough for memory
// (sim/memory/step_walk.h) and what is sent.  The database has the same behaviour as the frameworks
// `libtorch` and `libtorch-autocast`.
sim::Run simulated_run(const TrainingSetup& setup);

}  // namespace llmsim::runtime
