// Gradients of which every tensor rank has a part, summed over the tensor ranks when the data ranks are through:
//
//   of own tokens     under sequence parallelism a tensor rank sees its own tokens alone: what every tensor rank has (norms,
//   biases
//                     of row-parallel GEMMs)
//   of partial sums   the router and the gate of shared experts, whatever the tokens: their gradients come out of divided
//   GEMMs
//
// Where data ranks divide gradients or states, each sums what its shard has of them.  A unit's parameters lie in this order, and
// its shard is an equal piece of them all (runtime/model/block.h, experts.h, ends.h); brackets: own tokens, braces: partial sums:
//
//   block      [norm] qkv, projection [bias] [norm] up, down [bias]
//   MoE model  [norm] qkv, projection [bias] [norm] {router} shared up, down [bias] {gate} experts
//   head       [final norm] output projection
#pragma once

#include <vector>

#include "sim/model/transformer.h"
#include "sim/strategy/stages.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Values of them on the rank with shard number `shard` of every unit of `parts`.
double partial_gradients(const Transformer& model, const Strategy& strategy, const std::vector<ModelPart>& parts, int shard);

}  // namespace llmsim::sim
