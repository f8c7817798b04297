// The passes of a pipeline stage in the order that its schedule prescribes.
//
//   GPipe, 1F1B, interleaved   forward passes until the schedule's warm-up is through, then one
//                              forward and one backward pass in turn, then the remaining backward
//                              passes.  Where a forward pass hides the all-to-alls of the backward
//                              pass that it overlaps with (moe_overlap), the warm-up is one pass
//                              longer in Megatron-LM.  Of the two passes that then run together one
//                              frees what the other allocates, layer by layer, so that neither the
//                              peak of a stage nor the end of its last pass changes: the longer
//                              warm-up is not modelled
//
// The others split backward passes: B makes the gradients of the data, W those of the weights; W
// fills what would be bubble.  F, B and W are the times of a stage's share of the model for one
// micro-batch, p the stages, m the micro-batches.
//
//   ZB-H1     1F1B whose stage s lets s micro-batches wait for their weight gradients (s from 0).
//             A stage holds p - s micro-batches whole and s as far as W needs them, no more than
//             1F1B's first; its bubble is (p - 1)(F + B - W).
//   ZB-V      two chunks a stage in a V, so that the loss is made where the pipeline starts: as
//             many activations as 1F1B, 2 p chunks of half a stage each, on every stage; no bubble
//             where F = B = W.
//   V-Half    a V that holds at most 2 floor(p / 2) + 2 chunks a stage, about half of 1F1B's
//             activations; a bubble of no more than half of 1F1B's where F = B = W and m >= p.
//   V-Min     a V that holds at most 2 floor((p + 1) / 3) + 2 chunks, about a third; a bubble of
//             about two thirds of 1F1B's where F = B = W, and elsewhere one that grows with m.
//   DualPipe  micro-batches from both ends.  A forward and a backward pass of opposite directions
//             run together, F&B: the all-to-alls of each overlap with the compute of the other.
//             p + 1 micro-batches are in flight.  Where a chunk's F, B and W are equal, the bubble
//             is (p / 2 - 1)(F&B + (B + W) - 3 W); elsewhere it is at most that, as long as B >= W.
//
// V-Half and V-Min repeat one building block: when a micro-batch that enters the pipeline at 0 is
// at stage s, in passes through one chunk, where every pass takes as long,
//
//                forward, chunk 0   forward, chunk 1   data, chunk 1      data, chunk 0
//     V-Half     2 s                3 p - 2 - s        3 p - 1 + d + 2 s  6 p - 2 + d - s
//     V-Min      s                  2 p - 1 - s        2 p + d + s        4 p - 1 + d - s
//
// with a delay d = 3 for even p (V-Half), d = 2 where 3 divides p (V-Min), and else 0, so that no
// two passes of a stage fall together: the next micro-batch comes 6 passes later.  From a chunk's
// forward pass to its data gradients it is 6 p - 2 + d - 3 s and d + 1 + 3 s passes (V-Half), or 4
// p - 1 + d - 2 s and d + 1 + 2 s (V-Min).  Whatever s, the two add up to p or 2 p / 3 times these
// 6 passes and a little more: so many chunks are in flight.  Every stage keeps to this order of
// forward passes and data gradients.  W comes where the stage would wait for another one, where
// every pass takes as long, or where it would hold more than the chunks above.
//
// The bubbles of ZB-H1 and of the Vs are those of stages that update when they have ended
// (stages.h): the time that a stage waits between its own first and last pass, and the largest of
// all stages.
//
// Orders are fixed, whatever the times: the papers' handcrafted ones.  (Their authors' programs
// also search for orders that suit measured times.)
//
// Sources: Huang et al., "GPipe", arXiv 1811.06965; Narayanan et al., "Efficient Large-Scale
// Language Model Training on GPU Clusters Using Megatron-LM", arXiv 2104.04473 (1F1B, interleaved);
// Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, table 2 (ZB-H1) and section 6
// (ZB-V); Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362 (V-Half,
// V-Min), and sail-sg/zero-bubble-pipeline-parallelism
// megatron/core/pipeline_parallel/zerobubble/scheduler/zbv_greedy.py @39f2c186 (building blocks);
// the order of ZB-V as torch.distributed.pipelining's ScheduleZBVZeroBubble has it; Megatron-LM
// core/pipeline_parallel/schedules.py, get_pp_rank_microbatches (the longer warm-up); DeepSeek-V3
// technical report, arXiv 2412.19437, and deepseek-ai/DualPipe (README @89f5de1, dualpipe.py
// @bb214e8), whose table counts B as B + W.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  int stages = 1;
  int virtual_stages = 1;  // model chunks per stage
  int num_microbatches = 1;
  Seconds forward_transfer{};   // of activations from one stage to the next
  Seconds backward_transfer{};  // of their gradients, back
  // Share of its rate that compute loses while it overlaps with an all-to-all.
  double all_to_all_loss = 0.0;

  StageLayout layout() const;
};

// The pipeline of a strategy, with free transfers.
PipelineShape pipeline_shape(const Strategy& strategy);

// A backward pass is whole, or it is two: the gradients of the data, which other stages wait for,
// and those of the weights.
enum class PassKind { Forward, Backward, DataGradient, WeightGradient };

// One pass of a stage: a micro-batch through one of its chunks.  Micro-batches that enter a
// DualPipe at the last stage are the second half of all.
struct PipelinePass {
  int chunk = 0;
  int microbatch = 0;
  PassKind kind = PassKind::Forward;
  // Executed together with the next pass; the all-to-alls of each overlap with the other's compute.
  bool joins_next = false;

  bool backward() const { return kind != PassKind::Forward; }
  bool operator==(const PipelinePass&) const = default;
};

// Micro-batches that go through one chunk before the next under interleaving: the number of
// stages, or the next larger number that leaves no last group smaller than the stages, which
// would wait for itself.
int microbatch_group(const PipelineShape& shape);

// The forward or the backward passes of a stage with whole backward passes, one after the other: a
// group of micro-batches through chunk after chunk.
struct PassCursor {
  int first = 0;   // micro-batch of the group
  int size = 0;    // of the group
  int within = 0;  // the group
  int turn = 0;    // chunks that the group has passed

  int microbatch() const { return first + within; }
  int left() const { return size - within; }

  void advance(int group, int chunks, int num_microbatches) {
    if (++within < size) return;
    within = 0;
    if (++turn < chunks) return;
    turn = 0;
    first += size;
    size = std::min(group, num_microbatches - first);
  }
};

// Forward passes that a stage runs before its first backward pass, in schedules
// with whole backward passes.
int warmup_passes(const PipelineShape& shape, int stage);

// `simulate_pipeline` runs the stages' orders against each other, and the runtime executes them.
// ZB-V, V-Half and V-Min require virtual_stages = 2, DualPipe even numbers of stages and
// micro-batches and num_microbatches >= 2 stages.
std::vector<PipelinePass> stage_order(const PipelineShape& shape, int stage);
// The first so many of them, or all, in schedules with whole backward passes.
std::vector<PipelinePass> first_passes(const PipelineShape& shape, int stage, int count);

// Equal passes one after the other, of one micro-batch after the other: `times` passes of a chunk,
// or as many pairs of a backward pass and the forward pass that follows it.
struct PassRun {
  PipelinePass first{};
  std::optional<PipelinePass> second{};
  int times = 1;
};

// Calls visit(run) for the same passes: warm-up forwards, then one backward and one forward in
// turn, then the remaining backwards. The backward passes of a chunk's first and last micro-batch,
// which find other gradients, are runs of their own.
template <class Visit>
void visit_pass_runs(const PipelineShape& shape, int stage, int count, const Visit& visit) {
  const int m = shape.num_microbatches, v = shape.virtual_stages, total = m * v;
  const int warmup = warmup_passes(shape, stage), group = v == 1 ? 1 : microbatch_group(shape);
  PassCursor forward{.size = v == 1 ? m : std::min(group, m)}, backward = forward;
  for (int forwards = 0, backwards = 0; backwards < total && forwards + backwards < count;) {
    const int left = count - forwards - backwards;
    const bool goes_back = forwards == total || forwards - backwards > warmup,
               in_turn = goes_back && forwards < total && left > 1;
    PassRun run{.first = {.chunk = forward.turn, .microbatch = forward.microbatch()}};
    if (!goes_back) {
      run.times = std::min({forward.left(), warmup + 1 - forwards + backwards, left});
    } else {
      const int microbatch = backward.microbatch();
      const bool is_alone = microbatch == 0 || microbatch == m - 1;
      run.times = is_alone ? 1 : std::min({backward.left(), m - 1 - microbatch, left});
      if (in_turn) {
        run.second = run.first;
        run.times = std::min({run.times, forward.left(), left / 2});
      }
      run.first = {v - 1 - backward.turn, microbatch, PassKind::Backward};
    }
    visit(run);
    for (int i = 0; i < run.times; ++i) {
      if (goes_back) backward.advance(group, v, m), ++backwards;
      if (!goes_back || in_turn) forward.advance(group, v, m), ++forwards;
    }
  }
}

// Pairs of passes of a DualPipe stage that are executed together, by the chunk of the forward pass:
// those of a stage k places from the closer end with the forward pass of a micro-batch from there
// are m/2 - p + k + 1 (less one of the middle stages, which do not join their first two), those
// with one from the other end m/2 - p/2.
std::array<int, 2> joined_pairs(const PipelineShape& shape, int stage);

// Messages of one direction that a stage has in flight at once when each is waited for as late as
// possible.  With fewer, stages whose sends wait for a receiver would wait for one another in a
// ring.  It is 1, unless interleaving takes micro-batches in groups that are larger than the number
// of stages: then group - stages + 1.  For schedules with whole backward passes.
int messages_under_way(const PipelineShape& shape);

// Largest number of micro-batches times chunks whose activations stage `stage` holds at
// once, in whole or as far as weight gradients still need them: the factor of activation
// memory in a pipeline.
int peak_in_flight(const PipelineShape& shape, int stage);

}  // namespace llmsim::sim
