// Under sequence parallelism a tensor rank sees its own tokens alone: the gradients of what every tensor rank has (norms, biases
// of row-parallel products) are summed over the tensor ranks when the data ranks are through.
//
// Where data ranks divide gradients or states, each sums what its shard has of them.  A unit's parameters lie in this order, and
// its shard is an equal piece of them all (runtime/model/block.h, runtime/model/ends.h); the summed ones are in brackets:
//
//   block   [norm] qkv, projection [bias] [norm] up, down [bias]
//   head    [final norm] output projection
#pragma once

#include <vector>

#include "sim/model/transformer.h"
#include "sim/strategy/stages.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Values of them on the rank with shard number `shard` of every unit of `parts`.
// Requires dense blocks where there are several shards.
double own_token_gradients(const Transformer& model, const Strategy& strategy, const std::vector<ModelPart>& parts, int shard);

}  // namespace llmsim::sim
