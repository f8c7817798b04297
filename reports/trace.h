// A timeline as a trace in the Chrome trace event format, which Perfetto (ui.perfetto.dev) and
// chrome://tracing open.
//
// One process per pipeline stage, one thread per stream that has events; complete events ("ph":
// "X") with times in microseconds, rounded to nanoseconds.  Keys of "args": "terms_s" (what a
// compute event is made of, seconds by the names of the breakdown), "message_s" (time of the
// messages of a communication event if nothing were hidden) and "exposed_s" (what of it is waited
// for). "otherData" has the step time and the busiest stage, whose exposed times add up to the
// breakdown of `llmsim predict`.  Source: "Trace Event Format", Google,
// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
#pragma once

#include <string>

#include "reports/provenance.h"
#include "sim/run.h"
#include "sim/schedule/timeline.h"

namespace llmsim::reports {

// One event a line.
std::string trace_json(const sim::Timeline& timeline, const sim::Run& run,
                       const Provenance& provenance);

}  // namespace llmsim::reports
