// What one rank of the runtime's training step holds, to the byte: between steps, after the forward pass, and at most.
//
// The step of one rank of a pipeline stage is followed pass by pass in the order in which the runtime executes it
// (schedule/pipeline.h, runtime/parallel/pipeline.h, runtime/model/model_chunk.h): the embedding or what the stage before has
// sent, the blocks (block_tape.h), the head and the loss, back, and the optimizer.  A unit is what parameters travel in: the
// embedding, a block, the head; what is held of them is parameter_tape.h's.
//
//   persistent     weights, gradients, master weights, optimizer states; the mask of scores, tables of rotary positions, the
//                  tokens of the step
//   after_forward  when the first backward pass begins: and what the blocks and the head keep of the micro-batches in flight, the
//                  loss, and what is under way to the next stage
//   peak           the largest sum at any instant
//   host           under offload: master weights and states; host_peak with checkpoints and what the update takes there
#pragma once

#include <vector>

#include "sim/base/quantity.h"
#include "sim/run.h"

namespace llmsim::sim {

struct StepTape {
  Bytes weights{}, gradients{}, master{}, states{}, buffers{};
  Bytes after_forward{};
  Bytes peak{};
  Bytes host{};
  Bytes host_peak{};
  const char* instant = "";  // of the peak: "forward", "loss", "backward", "update"

  Bytes persistent() const { return weights + gradients + master + states + buffers; }
};

// Whether a run is one of the runtime's that a tape is known of: its framework, a GPT-2 or Llama shape or an MoE model, and a
// strategy that it executes.
bool follows_tape(const Run& run);

// Requires follows_tape, whatever the framework says of itself.  `shard`: the rank's place among those that share its units.
StepTape step_tape(const Run& run, int stage, int shard = 0);

}  // namespace llmsim::sim
