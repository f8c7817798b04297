// Why a run needs the memory it needs: the phase of its peak, what lives then, and the curve
// through the step.
#pragma once

#include <string>
#include <string_view>

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

// "2.00 bytes/parameter" of a term that is so much for each parameter of the stage; else empty.
std::string bytes_per_parameter(std::string_view term, sim::Bytes size,
                                const sim::MemoryPeak& peak);

// A row for each pass.  For people, who count from 1, with a bar, which says where the peak is.
Table curve_table(const sim::Prediction& prediction, const sim::MemoryCurve& curve, Format format);

}  // namespace llmsim::reports
