// 1F1B and interleaved pipelines of many micro-batches, whose passes repeat.
//
// The stages run group after group of micro-batches (microbatch_group; of 1F1B a micro-batch is a
// group), and what happens from a moment on depends on three things alone: how far each stage is in
// its order, when it is free, and when what has been sent but not used yet arrives.  Where two
// moments n groups apart agree in all three, but for D seconds added to every time, everything
// after the second repeats what came after the first: n groups more take D more.  Whole repetitions
// are then left out, and their D added at the end, so that only warm-up, transient, the last groups
// (which may be uneven) and the cool-down are simulated.
//
// Moments are compared when stage 0 waits for its next group and no other stage can go on.  Such a
// repetition comes as a rule after a few groups, with n up to about the number of stages where
// transfers are in the critical path; with nearly equal stages it can come late, and until it comes
// every pass is simulated.
//
// Ours; tests hold it to the events of all passes.
#pragma once

#include <span>

#include "sim/pipeline/pipeline.h"

namespace llmsim::sim {

// As simulate_pipeline.  Requires whole backward passes and a schedule that alternates: 1F1B or
// Interleaved.
PipelineTimes repeating_pipeline_times(const PipelineShape& shape,
                                       std::span<const ChunkTimes> chunks);

}  // namespace llmsim::sim
