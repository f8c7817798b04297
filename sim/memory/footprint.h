// Memory of a run: the peak of every pipeline stage and where in the step it is, what an allocator
// makes of it, whether it fits, the curve of a stage through a step, and the memory of the hosts.
//
// step_walk.h follows the passes of a stage; here its highest point is made an answer.
//
// Allocated bytes are the sum of the terms.  The allocator reserves more: blocks of a step that are
// freed and reused fit badly (fragmentation), and the flat buffers of an optimizer step fit into no
// gap that activations leave:
//
//   reserved = lasting + fragmentation (peak - lasting) + temporaries of the update that come on
//     top; none of an update in groups (UpdateBehaviour::parameters_at_once): a 52B model under
//     ZeRO-3 reserves 27.6 GiB at 25.5 allocated (BigScience GPT-2 experiments), as without them
//   device = reserved + context
//
// Graphs that hold whole passes, experts too (moe_captured), keep reserve.captured_growth of what
// passes beyond that, none of which is given back:
//
//   needed = peak + unrecoverable gaps + captured_growth (peak - lasting) + context
//
// Source of the 1.24 that is the default fragmentation: nine pairs of reserved and allocated
// bytes of BigScience's GPT-2 logs and of optimized_hf_llama_class_for_training lie between 1.1
// and 1.6, median 1.23. Its gaps are taken times reserve.gaps_factor, which is fitted to measured
// peaks (calibrate/memory_fit.h).
//
// Where peaks of the cluster are measured (strategy/peak_correction.h), what is allocated at any
// point of the step is taken times their factor; its rest is the term "measured_correction".
//
// In the memory of a node's host lives what a run offloads, and whole models while ranks load them.
// Bytes of one rank, of its stage with most:
//
//   optimizer     master weights, states, fp32 gradients for the update, and the sums of 16-bit
//                 gradients where they live there; divided by the shard ranks
//   parameters    the weights, divided by the shard ranks under Zero3
//   activations   of the blocks in flight at the peak all but two, the one at hand and the one on
//                 its way, each with
//                   checkpoints, whole blocks   what it saves, of as many blocks of a stage as the
//                                               strategy says
//                   modules                     the inputs of the modules
//   load          the whole model on one tensor rank, where each process makes it before it is
//                 sharded (host_load_bytes)
//
// The load comes before the rest: the larger of the two counts, times the devices on a node.
// Source: ours; DeepSpeed's ZeRO-Offload, Megatron-LM's and this project's offload of activations.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/memory/memory_account.h"
#include "sim/memory/step_walk.h"
#include "sim/run.h"

namespace llmsim::sim {

// Memory of the devices of one pipeline stage at its peak.
struct StageMemory {
  int stage = 0;
  const char* phase = "";  // "forward", "loss", "backward", "update"
  Bytes peak{};            // sum of the terms: what the framework's allocator hands out
  Bytes reserved{};        // what it holds
  Bytes lost{};            // of what it holds at the peak: gaps that nothing fits into
  Bytes captured{};        // and what the pool of captured graphs holds beyond it
  // "weights", "gradients", "optimizer_states", "activations", "logits", ...
  std::vector<MemoryTerm> terms{};
};

struct HostMemory {
  Bytes device{};    // one rank's
  Bytes node{};      // all ranks of a node
  Bytes capacity{};  // of a node; 0: unknown
  bool loading = false;

  bool fits() const { return capacity <= Bytes(0.0) || node <= capacity; }
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
  Bytes margin{};    // what stays when the allocator runs full: gaps, and of captured graphs
  // Scales of the errors of the logarithms of peaks and of what is needed (PredictionErrors);
  // 0: exact.
  double error = 0.0;
  double needed_error = 0.0;
  std::vector<StageMemory> stages;
  std::vector<MemoryPhase> timeline{};  // of the stage with the largest peak; empty in a search

  // The largest stage, the gaps that its allocator cannot close under pressure, and the
  // driver context.
  Bytes needed() const { return peak + margin + context; }
  // That a device has what a run needs, e^(needed_error T) times what is predicted:
  //   P(needed e^(needed_error T) <= capacity) = P(T <= ln(capacity / needed) / needed_error)
  double fit_probability() const;
  // The verdict: fit_probability() >= 1/2, which needs no logarithm.
  bool fits() const { return needed() <= capacity; }
  // Holds the measured peak of which `predicted` was predicted with probability `level`.
  std::pair<Bytes, Bytes> interval(Bytes predicted, double level) const;

  const StageMemory& fullest() const;  // the stage with the largest peak; requires one
};

// Peaks alone, without terms.  Of stages with equal layers one has as much in flight as each after
// it, so that a search leaves those out (Fullest), where backward passes are whole and chunks
// go down the stages.
enum class MemoryStages { All, Fullest };
Memory memory_footprint(const Run& run, const LayerPrices& prices,
                        MemoryStages stages = MemoryStages::All);
// `contents`: of the run's stages; `walks`: through them, which others share (StageWalks::use).
Memory memory_footprint(const Run& run, const LayerPrices& prices, const StageContents& contents,
                        MemoryStages stages);
Memory memory_footprint(const Run& run, const LayerPrices& prices, const StageContents& contents,
                        StageWalks& walks, MemoryStages stages);

// The highest point of each phase of a step of one stage, in order.
std::vector<MemoryPhase> memory_timeline(const Run& run, const LayerPrices& prices, int stage);

// Context of a process: the driver's, and a communicator for each kind of group in addition to the
// one of all devices.
Bytes context_memory(const Run& run);

// Where in a step the memory of a run has its peak, and how much is in flight then.  What lives
// there are the terms of the stage's peak, which add up to it.
struct MemoryPeak {
  int stage = 0;
  const char* phase = "";            // "idle", "forward", "loss", "backward", "update"
  std::optional<int> micro_batch{};  // none outside passes
  std::optional<int> layer{};        // of the model; none of embedding and LM head
  int passes_in_flight = 0;  // of one chunk each, with saved activations; 0: not known, or none
  int blocks_in_flight = 0;  // that keep some
  double parameters = 0.0;   // of the stage on one rank, before they are sharded
};

// Fills the phase and the terms of each stage's peak, and the timeline.  Returns the peak of the
// fullest stage, at the first micro-batch that reaches it.
MemoryPeak explain_peaks(Memory& memory, const Run& run, const LayerPrices& prices);

// The memory of one stage through a step, pass by pass, and what an allocator reserves for it.
struct MemoryCurve {
  int stage = 0;
  std::vector<MemoryPoint> points{};
  std::size_t highest = 0;     // the first point of them that no other is above
  double fragmentation = 1.0;  // of what a step allocates and frees

  const MemoryPoint& peak() const { return points[highest]; }
  Bytes reserved(const MemoryPoint& point) const;
};

// Requires a stage of a valid run. `whole_step`: of all micro-batches, or of as few as reach
// the peak.
MemoryCurve memory_curve(const Run& run, const LayerPrices& prices, int stage,
                         bool whole_step = true);

}  // namespace llmsim::sim
