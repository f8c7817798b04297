// Orders of the schedules that split backward passes: B makes the gradients of the data, W those of the weights; W fills what
// would be bubble.  F, B and W are the times of a stage's share of the model for one micro-batch, p the stages.
//
//   ZB-H1     1F1B whose stage s lets s micro-batches wait for their weight gradients (s from 0).  A stage holds p - s
//   micro-batches
//             whole and s as far as W needs them, no more than 1F1B's first; its bubble is (p - 1)(F + B - W).
//   ZB-V      two chunks a stage in a V, so that the loss is made where the pipeline starts: as many activations as 1F1B, 2 p
//             chunks of half a stage each, on every stage; no bubble where F = B = W.
//   DualPipe  micro-batches from both ends.  A forward and a backward pass of opposite directions run together, F&B: the
//             all-to-alls of each hide beside the compute of the other.  p + 1 micro-batches in flight.  Where a chunk's F, B and
//             W are equal the bubble is (p / 2 - 1)(F&B + (B + W) - 3 W); elsewhere it is at most that, as long as B >= W.
//
// Bubbles of the first two are those of stages that update when they have ended (stage_layout.h): what a stage waits for between
// its own first and last pass, and the most of all stages.
//
// Orders are fixed, whatever the times: the papers' handcrafted ones.  (Their authors' programs also search for orders that suit
// measured times.)
//
// Sources: Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, table 2 (ZB-H1) and section 6 (ZB-V);
// Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362; the order of ZB-V as
// torch.distributed.pipelining's ScheduleZBVZeroBubble has it; DeepSeek-V3 technical report, arXiv 2412.19437, and
// deepseek-ai/DualPipe (README @89f5de1, dualpipe.py @bb214e8), whose table counts B as B + W.
#pragma once

#include "sim/schedule/stage_order.h"

namespace llmsim::sim {

std::vector<PipelinePass> zb_h1_order(const PipelineShape& shape, int stage);

// Requires virtual_stages = 2.
std::vector<PipelinePass> zb_v_order(const PipelineShape& shape, int stage);

// Requires even numbers of stages and micro-batches, and num_microbatches >= 2 stages.
std::vector<PipelinePass> dualpipe_order(const PipelineShape& shape, int stage);

}  // namespace llmsim::sim
