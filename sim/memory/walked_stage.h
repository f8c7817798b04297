// A pipeline stage as the walk through its step finds it (step_walk.h): its chunks with their
// layers, the rules of their passes, the bytes that are not activations, and how many micro-batches
// must be followed.
//
// Micro-batches that repeat earlier ones are left out, of tables
//
//   1F1B                        warm-up passes + 3: the first backward pass, one that finds
//                               gradients, and one that repeats it
//   interleaved, p divides m    3 p, whole rounds of the chunks: the warm-up ends in the second,
//                               and the third repeats
//   others                      all m
//
// and of a search, where the passes of a chunk are all alike (units that are not counted one by
// one, gradients that last), all but the first w + 2 r passes, with w warm-up passes and a round of
// r = 1 or p v forward passes.  What is in flight after f forward and b backward passes depends on
// f and b alone, and is the same, a round later, after f + r and b + r.  So a forward pass after
// the first w + r has a like one a round earlier; of a backward pass after the first r there was
// one a round earlier with no less in flight, since forward passes can only have run out.
//
// Source: ours.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/memory/chunk_layers.h"
#include "sim/memory/chunk_passes.h"
#include "sim/memory/stage_bytes.h"
#include "sim/memory/stage_contents.h"
#include "sim/pipeline/stage_order.h"
#include "sim/run.h"

namespace llmsim::sim {

struct WalkedChunk {
  ModelChunk part;
  std::size_t layers = 0;  // of WalkedStage::layers
  Bytes offloaded{};       // of a micro-batch, to the host and back
  Bytes weight_inputs{};   // what gradients of the weights need when those of the data are made
};

struct WalkedStage {
  const Run& run;
  int number;
  PipelineShape shape;
  StageBytes bytes;
  PassRules rules;
  std::vector<Chunk> layers{};  // different ones
  std::vector<WalkedChunk> chunks{};

  bool autograd() const { return run.framework.autograd; }
  const WalkedChunk& chunk(int place) const { return chunks[static_cast<std::size_t>(place)]; }
  std::vector<ModelChunk> parts() const;
  int blocks() const;
  // Offloaded activations of the block that is on its way to the host or back, beside the one at
  // hand.
  Bytes block_on_its_way() const;
  int followed_microbatches() const;
  std::optional<int> passes_to_peak() const;  // none: all of those micro-batches
};

// `run` and `prices` must outlive the stage.
WalkedStage walked_stage(const Run& run, const LayerPrices& prices, const StageContents& contents,
                         int number);

}  // namespace llmsim::sim
