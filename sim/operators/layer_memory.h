// How much memory a pass over a layer takes, from the tensors of its nodes (layer_graph.h).
//
//   forward    a node allocates what it writes and a workspace on top; a tensor is freed after its
//              last reader, unless a node saves it for the backward pass or it is what the layer
//              gives to the next
//   backward   the nodes in reverse: a node allocates the gradients of what it reads and a
//              workspace on top, then frees the gradients of what it wrote and the saved tensors
//              that no earlier node needs.  A tensor with two readers has the sum of two gradients:
//              the second is there for a moment next to the first
//   recompute  tensors that are dropped at the end of the forward pass are written again when the
//              backward pass enters their half of the layer, by the nodes that are repeated
//
// What a layer leaves for its backward pass is its activation memory (saved_bytes in
// recomputation.h).
// Source: ours, from the rules of reverse-mode differentiation as PyTorch's autograd executes them
// (a node frees its saved tensors once it has run) and runtime/model/block.cpp does by hand.
#pragma once

#include <cstdint>
#include <vector>

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

// Why a tensor is allocated.
enum class TensorUse : std::uint8_t {
  Saved,  // for the backward pass of `module`
  Read,   // until the nodes that read it have run
  Recomputed,
  Gradient,
  Workspace  // of the kernels of `module`
};

// The input and the output of a layer, which are one tensor to the layers on both sides of it.
inline constexpr const char* kResidualStream = "residual stream";

// Bytes of one tensor, or of one gradient or workspace; less than 0 where a pass gives back what an
// earlier one has left.
struct LiveTensor {
  Bytes LiveBytes::*kind = &LiveBytes::activations;
  const char* name = "";
  TensorShape shape{};
  TensorUse use = TensorUse::Read;
  Module module = Module::Norm;
  Bytes size{};
};

// PassBytes tensor by tensor: the sizes of each list add up to it.
struct PassTensors {
  // The value of a layer's tensor, or what `use` names.
  struct What {
    TensorId tensor = kNoTensor;
    TensorUse use = TensorUse::Saved;
    Module module = Module::Norm;
  };
  void change(const LayerGraph& layer, Bytes LiveBytes::*kind, Bytes size, const What& what);

  std::vector<LiveTensor> rise{}, net{};
};

struct LayerTensors {
  PassTensors forward, backward;
};

LayerTensors layer_tensors(const LayerGraph& layer, const Recomputation& recomputation);

}  // namespace llmsim::sim
