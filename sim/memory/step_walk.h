// What a rank of one pipeline stage holds through a step: one walk over its passes in the order of
// the schedule.
//
//   idle       between steps: weights, master weights, optimizer states, gradients where they
//              persist, buffers
//   forward    each layer of the chunk leaves what it saves for the backward pass, or a checkpoint
//              of it (operators/layer_memory.h)
//   loss       the same of the chunk with the head: the logits, their copies and gradients are
//              there
//   backward   each layer writes again what recomputation has dropped, makes the gradients of its
//              activations and of its weights, and gives back what it saved
//   update     the optimizer's temporaries on top of the states and gradients
//
// Around a layer there is what its unit of sharded weights needs: whole weights from the start of
// its gather until the layer has run, and whole gradients until the next unit's reduction begins;
// frameworks that free no unit hold a constant number of them.  A stage's first input is received,
// and its last output sent: a message waits until enough later ones want to go the same way.
//
// Micro-batches that repeat earlier ones are left out, of tables
//
//   1F1B                        warm-up passes + 3: the first backward pass, one that finds
//                               gradients, and one that repeats it
//   interleaved, p divides m    3 p, whole rounds of the chunks: the warm-up ends in the second,
//                               and the third repeats
//   DualPipe                    2 p + 6: from the second on the pairs of joined passes of a stage,
//                               m / 2 - p + 1 or more, find and leave the same
//   others                      all m
//
// and of a search, where the passes of a chunk are all alike (units that are not counted one by
// one, gradients that last), all but the first w + 2 r passes, with w warm-up passes and a round of
// r = 1 or p v forward passes.  What is in flight after f forward and b backward passes depends on
// f and b alone, and is the same, a round later, after f + r and b + r.  So a forward pass after
// the first w + r has a like one a round earlier; of a backward pass after the first r there was
// one a round earlier with no less in flight, since forward passes can only have run out.  Where
// the chunks of a stage are alike, it is f - b alone that what is in flight depends on, however
// micro-batches come in groups: the first w + 2 passes have every f - b that a forward pass
// finds, and with w + 1 the most that a backward pass does.
//
// What a pass of a chunk allocates chunk_passes.h works out, once for each kind.  Source: ours;
// Megatron-LM core/pipeline_parallel/schedules.py, PyTorch FSDP's hooks and
// runtime/parallel/data_parallel.h for the order of events.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/memory/memory_account.h"
#include "sim/memory/shards.h"
#include "sim/memory/shared_chunks.h"
#include "sim/run.h"

namespace llmsim::sim {

// The highest point of a pass, with what is received, sent and taken around it, or of what is
// between passes.
struct MemoryPoint {
  const char* phase = "";     // "idle", "forward", "loss", "backward", "weight gradients", "update"
  std::optional<int> pass{};  // its place in the order of the stage; none outside passes
  std::optional<int> micro_batch{};  // none outside passes
  std::optional<int> layer{};  // of the model, whose pass it is; none at the ends and around a pass
  int passes_in_flight = 0;    // of one chunk each, whose activations are saved
  int blocks_in_flight = 0;
  Bytes allocated{};  // sum of the terms
  MemoryTerms terms{};
};

struct StagePeak {
  Bytes idle{};
  Bytes after_forward{};  // when the first backward pass begins
  Bytes peak{};
  // Of the update, where they are flat buffers of all parameters: those of groups of them
  // find room.
  Bytes temporaries{};
  bool in_update = false;
  Bytes host{}, host_peak{};  // of what the runtime offloads
};

struct WalkedStage;

// Walks through stages of a run.  Those with the same layers share what is worked out once: their
// bytes and the passes of their chunks.  What it is made of must outlive it.
class StageWalks {
 public:
  StageWalks(const Run& run, const LayerPrices& prices, const StageContents& contents);
  // Of a pipeline whose chunks others share, and whose bytes all recompute policies do: use() goes
  // before each.
  StageWalks(const Run& run, const StageContents& contents, SharedChunks& chunks);
  void use(const LayerPrices& prices);
  ~StageWalks();
  StageWalks(const StageWalks&) = delete;

  // The highest point of the step, without saying which.  `shard`: the rank's place among those
  // that share its units.
  StagePeak peak(int stage, int shard = 0);

  // A point for every pass, and idle, update, idle; `whole_step`: of all micro-batches, or of as
  // few as reach the peak, the last of which stands for the last of the step.
  std::vector<MemoryPoint> points(int stage, bool whole_step);

  // Of the points of as few micro-batches the first that no other is above: its phase, bytes and
  // terms alone.
  MemoryPoint highest(int stage);

  // What is there at the peak, tensor by tensor (peak_tensors.h), of prices with their
  // tensors (layers_with_tensors).
  TensorAmounts amounts_at_peak(int stage);

 private:
  WalkedStage& kind_of(int stage);

  const Run& run_;
  const StageContents& contents_;
  std::optional<SharedChunks> own_chunks_;
  SharedChunks& chunks_;
  const LayerPrices* prices_ = nullptr;
  std::vector<ChunkMemory*> of_chunk_kind_;          // null: not asked for yet
  std::vector<std::unique_ptr<WalkedStage>> kinds_;  // EqualStages::kinds
};

// Of one stage alone.
StagePeak stage_peak(const Run& run, const LayerPrices& prices, const StageContents& contents,
                     int stage, int shard = 0);
std::vector<MemoryPoint> stage_points(const Run& run, const LayerPrices& prices,
                                      const StageContents& contents, int stage, bool whole_step);

}  // namespace llmsim::sim
