// Why a run needs the memory it needs: the phase of its peak, what lives then, and the curve
// through the step.
#pragma once

#include <string>

#include "reports/table.h"
#include "sim/memory/footprint.h"
#include "sim/predict.h"

namespace llmsim::reports {

// "stage 2 of 4, loss of micro-batch 1 of 8".  People count from 1.
std::string peak_phase_text(const sim::Prediction& prediction);

// Everything that lives at the peak of the fullest stage, largest first: its terms, which
// add up to the peak, then the gaps of the allocator and the driver's context, which make
// of it what has to fit.
Table peak_table(const sim::Prediction& prediction);

// A row for each pass.  For people, who count from 1, with a bar, which says where the peak is.
Table curve_table(const sim::Prediction& prediction, const sim::MemoryCurve& curve, Format format);

// What lives at the peak of the fullest stage, tensor by tensor (sim/memory/peak_tensors.h): a row
// for all tensors that are alike, largest first: name, shape and format of one, in how
// many layers and for how many micro-batches in flight it is there, bytes of all, and why it
// lives.  The rows add up to the peak, which is the last one.  Requires a run that breaks no
// rule but the memory's.
Table tensor_table(const sim::Prediction& prediction);

}  // namespace llmsim::reports
