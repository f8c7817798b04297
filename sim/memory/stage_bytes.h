// The bytes of one rank of a pipeline stage that are not activations: states, buffers, and what
// units of sharded weights hold.  When each is there, step_walk.h tells.
//
// States are the framework's bytes per parameter (storage_of, shards.h), divided by the shard
// ranks; routed experts that expert ranks divide by the fewer that have the same ones.  Units of
// frameworks with flat ones are padded to their ranks.  Source: ours.
#pragma once

#include "sim/memory/memory_account.h"
#include "sim/memory/shards.h"
#include "sim/run.h"

namespace llmsim::sim {

struct StageBytes {
  Bytes weights{};
  Bytes gathered{};          // whole weights of the sharded units at hand
  Bytes gradients{};         // as the backward pass makes them
  Bytes main_gradients{};    // in higher precision, for the update
  Bytes gradient_buffers{};  // whole gradients of sharded units
  // Whole ones that micro-batches add to, where ranks divide what one reduction a step leaves.
  Bytes unreduced_gradients{};
  Bytes buckets{};      // copies of replicated gradients
  Bytes master{};       // weights in fp32
  Bytes states{};       // of the optimizer
  Bytes temporaries{};  // of the update
  // The last received activations and gradients, and what was sent, which a program has names for.
  Bytes pipeline_buffers{};
  Bytes dispatch_buffers{};  // tokens of all expert ranks, gathered
  Bytes workspaces{};
  Bytes buffers{};  // masks, tables of positions, tokens of the step
  Bytes framework{};
  Bytes host{};         // of the runtime: master weights and states under offload
  Bytes host_update{};  // and what an update takes there
};

// Of these what lasts from one step to the next.
MemoryTerms lasting_terms(const StageBytes& bytes, const Framework& framework);

StageBytes stage_bytes(const Run& run, const StageContents& contents, int stage);

// By the same rules what every stage that holds these parameters has at least of what lasts, of
// gradients and of the update, whichever layers they are of: without padding, without tables, with
// weights as small as the recipe makes them.  So it is known for all stages of a pipeline, and for
// all pipelines of a layout, whose fullest stage holds no less than an even share of the model.
//
// `gradient_buffers` of whole gradients that micro-batches add to are no bound.
StageBytes least_stage_bytes(const Run& run, const RankParameters& rank,
                             const StageParameters& held);

}  // namespace llmsim::sim
