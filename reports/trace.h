// A timeline as a trace in the Chrome trace event format, which Perfetto (ui.perfetto.dev) and
// chrome://tracing open.
//
// One process per pipeline stage, one thread per stream that has events; complete events ("ph":
// "X") with times in microseconds, rounded to nanoseconds.  Keys of "args": "terms_s" (the
// components of a compute event, seconds by the names of the breakdown), "message_s" (time of the
// messages of a communication event if nothing were hidden), "exposed_s" (what of it is waited
// for), and of operators "flops" and "moved_bytes".  "otherData" has the step time and the busiest
// stage, whose exposed times add up to the breakdown of `llmsim predict`.
//
// Flow events ("ph": "s", "f") go from the pass that makes a message to the pass of another stage
// that needs it; both ends have the same "id".  Counter events ("ph": "C", "memory") give the
// allocated bytes of a rank of the stage: from the start of a compute event the highest while its
// passes run, at the start and the end of the step the resident bytes.  The largest is the peak
// of the stage (memory/footprint.h).
//
// Source: "Trace Event Format", Google,
// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
#pragma once

#include <functional>
#include <string_view>

#include "reports/provenance.h"
#include "sim/cost/layer_prices.h"
#include "sim/run.h"
#include "sim/schedule/timeline.h"

namespace llmsim::reports {

// The step of a run, an event a line, each stage given to `put` before the next is drawn.
void write_trace(const sim::Run& run, const sim::LayerPrices& prices,
                 const sim::TimelineOptions& options, const Provenance& provenance,
                 const std::function<void(std::string_view)>& put);

}  // namespace llmsim::reports
