// The bytes that one rank of a pipeline stage has of everything, each at its largest; when each is there, footprint.h tells.
//
// States are the framework's bytes per parameter, divided by the shard ranks.  Kept activations are those of a block x blocks x
// micro-batches in flight, or where the chunks of a stage differ as many of each as the schedule has in flight; the embedding
// counts with the micro-batches of the first chunk and the head with those of the last: one, or all of them under GPipe.  Where
// passes are split they are followed in their order (held_activations.h).
#pragma once

#include "sim/cost/layer_prices.h"
#include "sim/memory/memory_terms.h"
#include "sim/memory/stage_contents.h"
#include "sim/run.h"

namespace llmsim::sim {

struct StageBytes {
  Bytes weights{};
  Bytes gathered{};             // whole weights of the sharded units at hand
  Bytes gradients{};            // as the backward pass makes them
  Bytes main_gradients{};       // in higher precision, for the update
  Bytes gradient_buffers{};     // whole gradients of sharded units
  Bytes unreduced_gradients{};  // whole ones that micro-batches add to, where ranks divide what one reduction a step leaves
  Bytes buckets{};              // copies of replicated gradients
  Bytes master{};               // weights in fp32
  Bytes states{};               // of the optimizer
  Bytes temporaries{};          // of the update
  Bytes pipeline_buffers{};     // the last received activations and gradients, and what was sent, which a program has names for
  Bytes dispatch_buffers{};     // tokens of all expert ranks, gathered
  Bytes workspaces{};
  Bytes buffers{};  // masks, tables of positions, tokens of the step
  Bytes framework{};
  Bytes host{};         // of the runtime: master weights and states under offload
  Bytes host_update{};  // and what an update takes there
};

// Of these what lasts from one step to the next.
MemoryTerms lasting_terms(const StageBytes& bytes, const Framework& framework);

StageBytes stage_bytes(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage);

}  // namespace llmsim::sim
