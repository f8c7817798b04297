// What lives at the peak of the fullest stage, tensor by tensor (sim/memory/peak_tensors.h).
#pragma once

#include "reports/table.h"
#include "sim/predict.h"

namespace llmsim::reports {

// A row for all tensors that are alike, largest first: name, shape and format of one, in how
// many layers and for how many micro-batches in flight it is there, bytes of all, and why it
// lives.  The rows add up to the peak, which is the last one.  Requires a run that breaks no
// rule but the memory's.
Table tensor_table(const sim::Prediction& prediction);

}  // namespace llmsim::reports
