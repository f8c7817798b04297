// Memory of a run: the peak of every pipeline stage, what an allocator makes of it, and whether it fits.
//
// step_walk.h follows the passes of a stage; here its highest point is made an answer.
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

// Memory of the devices of one pipeline stage at its peak.
struct StageMemory {
  int stage = 0;
  const char* phase = "";           // "forward", "loss", "backward", "update"
  Bytes peak{};                     // sum of the terms: what the framework's allocator hands out
  Bytes reserved{};                 // what it holds
  Bytes lost{};                     // of what it holds at the peak: gaps that nothing fits into
  std::vector<MemoryTerm> terms{};  // "weights", "gradients", "optimizer_states", "activations", "logits", ...
};

// The highest point of a phase of a step.
struct MemoryPhase {
  const char* phase = "";
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
  std::vector<MemoryPhase> timeline{};  // of the stage with the largest peak; empty in a search

  // Whether the largest stage, the gaps that its allocator cannot close under pressure, and the driver context fit.
  bool fits() const { return needed() <= capacity; }
  Bytes needed() const { return peak + margin + context; }

  const StageMemory& fullest() const;  // the stage with the largest peak; requires one
};

// Peaks alone, without terms.  Of stages with equal parts one has as much in flight as each after it, so that a search leaves
// those out (Fullest), where backward passes are whole and parts go down the stages.
enum class MemoryStages { All, Fullest };
Memory memory_footprint(const Run& run, const LayerPrices& prices, MemoryStages stages = MemoryStages::All);

// The highest point of each phase of a step of one stage, in order.
std::vector<MemoryPhase> memory_timeline(const Run& run, const LayerPrices& prices, int stage);

// Fills the phase and the terms of each stage's peak, and the timeline.
void explain_peaks(Memory& memory, const Run& run, const LayerPrices& prices);

// Context of a process: the driver's, and a communicator for each kind of group beside the one of all devices.
Bytes context_memory(const Run& run);

}  // namespace llmsim::sim
