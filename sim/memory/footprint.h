// What lives in device memory, and when: a step of every pipeline stage as a timeline, its peak, and the terms behind it.
//
//   idle       between steps: weights, master weights, optimizer states, gradients where they persist, buffers
//   forward    the last forward pass in flight has ended: and everything kept for the backward passes
//   loss       and the logits with their copies and gradient (last stage)
//   backward   what is kept, what recomputation brings back for the first block of the backward pass, and the gradients of its
//              activations
//   gradients  the last block of the last backward pass: all gradients exist, that block's activations are still there
//   update     the optimizer's temporaries on top of the states and gradients
//
// Between two instants memory grows or shrinks block by block, by the same amount for each block: it has no peak in between.
//
// These instants are enough for the peak of every stage without following its passes: a search asks for ten thousands of peaks.
// Which pass of which micro-batch is there, and what the allocator reserves until then, memory_curve.h finds by following all of
// them.  Both have the same terms (memory_terms.h) and sizes: how much of each there is, stage_bytes.h tells.  They differ where
// no forward pass follows the first backward pass, and gradients do not outlive the step: micro-batches that add to gradients
// find them whole here, there as the first one makes them.
//
// Of the runtime's own steps step_tape.h knows all to the byte: idle, forward, and the instant of the peak.
//
// Allocated bytes are the sum of the terms.  The allocator reserves more: blocks of a step that are freed and reused fit badly
// (fragmentation), and the flat buffers of an optimizer step fit into no gap that activations leave:
//
//   reserved = lasting + fragmentation (peak - lasting) + temporaries of the update that come on top
//   device = reserved + context
//
// Source of the 1.24 that is the default fragmentation: 66 nvidia-smi readings of the BLOOM tuning log (1.24 +- 0.06, in fp16 and
// bf16 alike); nine pairs of reserved and allocated bytes of BigScience's GPT-2 logs and of
// optimized_hf_llama_class_for_training lie between 1.1 and 1.6, median 1.23.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/memory/host_memory.h"
#include "sim/memory/memory_terms.h"
#include "sim/run.h"

namespace llmsim::sim {

// Memory of the devices of one pipeline stage at the instant of its peak.
struct StageMemory {
  int stage = 0;
  const char* instant = "";         // "loss", "backward", "gradients", "update"
  Bytes peak{};                     // sum of the terms: what the framework's allocator hands out
  Bytes reserved{};                 // what it holds
  Bytes lost{};                     // of what it holds at the peak: gaps that nothing fits into
  std::vector<MemoryTerm> terms{};  // "weights", "gradients", "optimizer_states", "activations", "logits", ...
};

// One instant of a step of one stage.
struct MemoryInstant {
  const char* name = "";
  Bytes allocated{};  // sum of the terms
  std::vector<MemoryTerm> terms{};
};

struct Memory {
  Bytes peak{};      // largest stage, allocated
  Bytes reserved{};  // largest stage, with the allocator's fragmentation
  Bytes device{};    // with the driver context: what nvidia-smi shows
  Bytes capacity{};  // usable memory of a device
  HostMemory host;   // under offload and at load
  Bytes context{};   // driver context, libraries and communicators
  Bytes margin{};    // gaps that stay when the allocator runs full
  std::vector<StageMemory> stages;
  std::vector<MemoryInstant> timeline{};  // of the stage with the largest peak; empty in a search

  // Whether the largest stage, the gaps that its allocator cannot close under pressure, and the driver context fit.
  bool fits() const { return needed() <= capacity; }
  Bytes needed() const { return peak + margin + context; }

  const StageMemory& fullest() const;  // the stage with the largest peak; requires one
};

// Peak of each stage with its terms, without the timeline.
Memory memory_footprint(const Run& run, const LayerPrices& prices);

// Every instant of a step of one stage, in order.
std::vector<MemoryInstant> memory_timeline(const Run& run, const LayerPrices& prices, int stage);

// Context of a process: the driver's, and a communicator for each kind of group beside the one of all devices.
Bytes context_memory(const Run& run);

}  // namespace llmsim::sim
