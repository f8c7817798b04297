// 1F1B and interleaved pipelines, whose passes repeat: their times without events that say
// nothing new.
//
// Sweeps. Every stage runs the same forward passes k = 0, 1, ... in the same order (stage_order.h),
// and after forward pass k its backward pass k - w_s, with w_s forward passes before its first
// backward pass. In sweep t stage s runs the passes of
//
//   1F1B          k = t        w_s = p - s - 1                    stage after stage: a forward pass
//                                                                 needs that of the stage before in
//                                                                 the same sweep, a backward pass
//                                                                 that of the stage behind in the
//                                                                 sweep before
//   interleaved   k = t - s    w_s = 2 (p - s - 1) + (v - 1) g    all stages at once: forward pass
//                                                                 k needs that of the stage before
//                                                                 in sweep t - 1, on stage 0
//                                                                 forward pass k - g of the last
//                                                                 stage in sweep t - (g - p + 1);
//                                                                 backward passes the same from
//                                                                 stage to stage, the other way
//
// with g micro-batches in a group (microbatch_group), of the last group as many as it has: never
// fewer than p.  So what a pass needs has always been there before, and is asked of no pass whether
// it has: the order depends on the shape alone, the times on the events of pipeline.h,
//
//   start = max(end of the pass before on its stage, end of its input + transfer)
//
// Repetitions. After n groups stage s has run n g v forward passes and w_s backward passes fewer.
// What happens from there on depends on when each stage is free and when what has been sent but not
// used yet has ended: the last two backward passes of each stage but the first (of 1F1B one, which
// is its last pass), and of the first what its last group has made for the last stage. Where two
// such moments n groups after one another agree in all of these, but for D seconds added to every
// time, everything after the second repeats what came after the first: n groups more take D more.
// Whole repetitions are then left out, and their D added at the end, so that only warm-up,
// transient, the last groups (which may be uneven) and the cool-down are simulated.
//
// Such a repetition comes as a rule after a few groups, with n up to about the number of stages
// where transfers are in the critical path; with nearly equal stages it can come late, and until it
// comes every pass is simulated.
//
// Tests hold it to the events of all passes.  Source: ours.
#pragma once

#include <span>

#include "sim/pipeline/pipeline.h"

namespace llmsim::sim {

bool passes_repeat(PipelineSchedule schedule);

// Requires passes_repeat(shape.schedule), and what simulate_pipeline requires.
PipelineTimes repeating_pipeline_times(const PipelineShape& shape,
                                       std::span<const ChunkTimes> chunks);

}  // namespace llmsim::sim
