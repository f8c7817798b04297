// What a layer executes again before its backward pass, and so does not save: filters over its
// nodes and their tensors.
//
//   Full, EveryN  all, from the layer's input
//   Selective     the modules that the strategy names
//   Op            all but the GEMMs (or some of their outputs) that a policy saves
//
// A recomputation that stops early ends where nothing that follows is needed again: where the
// layer's last GEMM has its input.  Sources: strategy/recompute.h.
#pragma once

#include <vector>

#include "sim/model/layer_kinds.h"
#include "sim/model/transformer.h"
#include "sim/operators/layer_graph.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/recompute.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// What the backward pass of a layer writes again.
struct Recomputation {
  std::vector<bool> repeated;  // nodes
  std::vector<bool> dropped;   // tensors that the forward pass does not leave
  // Tensors that it leaves though no node saves them: outputs that a policy saves.
  std::vector<bool> cached;
  // Before the backward pass begins; else each half when the pass enters it.
  bool from_input = false;
  // What was written again to the end stays until the backward pass has ended.
  bool holds_output = false;
};

Recomputation no_recomputation(const LayerGraph& layer);
// Of some modules: what their nodes write and save.  A module of `keeps_output` leaves what others
// read (a checkpoint within the layer), one of the others does not (its output is written
// again for them).
Recomputation recompute_modules(const LayerGraph& layer, ModuleSet modules, ModuleSet keeps_output);
// Of everything but the input; `stops_early`: but what follows LayerGraph::needed_nodes().
Recomputation recompute_all(const LayerGraph& layer, bool stops_early);
// Of that all but what writes the outputs that `saved` keeps.  Every second GEMM is counted by
// outputs in execution order; that policy saves what an operator returns, and the outputs of fused
// attention and of reduce-scatters.  Those that name outputs, a compiler's, save the output of a
// row-parallel GEMM as summed over the tensor ranks, and not the last, which nothing needs.
Recomputation recompute_by_operator(const LayerGraph& layer, const SavedGemms& saved,
                                    bool stops_early);

// That of a layer under a recompute mode.
Recomputation recomputation_of(const LayerGraph& layer, const Recompute& recompute,
                               const Transformer& model, const Framework& framework,
                               LayerKind kind);
// The operators that run again under it, in their order.
OperatorList recomputed_operators(const LayerGraph& layer, const Recompute& recompute,
                                  const Transformer& model, const Framework& framework,
                                  LayerKind kind, DType activation);

// Of the outputs of a GEMM's node the share, in bytes, that is written again.
double repeated_share(const LayerGraph& layer, const Recomputation& recomputation,
                      std::size_t node);

// Modules whose tensors selective recomputation writes again, in a dense layer or in
// one with experts.
ModuleSet repeated_modules(const RecomputedModules& modules, const Transformer& model, bool moe);

// What the layer has saved when its forward pass has ended: the input, where it is saved, and not
// the output.
std::vector<bool> saved_tensors(const LayerGraph& layer, const Recomputation& recomputation);
Bytes saved_bytes(const LayerGraph& layer, const Recomputation& recomputation);
Bytes saved_bytes(const LayerGraph& layer);  // without recomputation

// What the modules of a layer that are offloaded have on the host: their inputs, as far as
// they are saved.
Bytes offloaded_inputs(const LayerGraph& layer, const Recomputation& recomputation,
                       const OffloadedModules& modules);

}  // namespace llmsim::sim
