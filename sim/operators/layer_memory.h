// How much memory a pass over a layer takes, from the tensors of its nodes (layer_graph.h).
//
//   forward    a node allocates what it writes and a workspace on top; a tensor is freed after its
//              last reader, unless a node saves it for the backward pass or it is what the layer
//              gives to the next
//   backward   the nodes in reverse: a node allocates the gradients of what it reads and a workspace
//              on top, then frees the gradients of what it wrote and the saved tensors that no
//              earlier node needs.  A tensor with two readers has the sum of two gradients: the
//              second is there for a moment next to the first
//   recompute  tensors that are dropped at the end of the forward pass are written again when the
//              backward pass enters their half of the layer, by the nodes that are repeated
//
// What a layer leaves for its backward pass is its activation memory (saved_bytes in
// recomputation.h).
// Source: ours, from the rules of reverse-mode differentiation as PyTorch's autograd executes them
// (a node frees its saved tensors once it has run) and runtime/model/block.cpp does by hand.
#pragma once

#include "sim/base/quantity.h"
#include "sim/operators/layer_graph.h"
#include "sim/operators/recomputation.h"

namespace llmsim::sim {

// What is allocated, by what it is for.
struct LiveBytes {
  Bytes activations{};  // from the forward pass
  Bytes recomputed{};
  Bytes gradients{};  // of activations, and the workspaces of the backward pass
  Bytes logits{};     // with their copies and gradients

  Bytes total() const { return activations + recomputed + gradients + logits; }
};

// A pass over a layer: at most `rise` above what was allocated when it began, `net` more when it
// has ended.
struct PassBytes {
  LiveBytes rise{};
  LiveBytes net{};
};

PassBytes forward_bytes(const LayerGraph& layer, const Recomputation& recomputation);
PassBytes backward_bytes(const LayerGraph& layer, const Recomputation& recomputation);

}  // namespace llmsim::sim
