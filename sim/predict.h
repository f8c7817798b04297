// The door of the simulator: predict(Run) -> Prediction.
//
// Everything in a prediction is derived from one list of operators (operators/), priced (cost/), scheduled (schedule/) and
// weighed (memory/).  predict() is a pure function; it allocates little and takes well under a millisecond per 80-layer model.
#pragma once

#include "sim/prediction.h"
#include "sim/run.h"

namespace llmsim::sim {

// Throws Error for a run whose fields are out of range, or whose coefficients make it faster than the peak of its devices (no MFU
// outside 0 to 1 leaves this door); an impossible or too large run is an answer, not an exception.
// The prediction's run has the vocabulary as the framework pads it.
Prediction predict(const Run& asked);

}  // namespace llmsim::sim
