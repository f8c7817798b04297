// What a block executes again before its backward pass: filters over its operators and its tensors,
// by their modules.
//
//   Full, EveryN  all, from the block's input
//   Selective     the modules that the strategy names
//   Op            all but the GEMMs (or some of their parts) whose outputs a policy keeps
//
// A recomputation that stops early ends where nothing that follows is needed again: where the
// block's last GEMM has its input.  Sources: strategy/recompute.h.
#pragma once

#include "sim/model/layer_kinds.h"
#include "sim/model/transformer.h"
#include "sim/operators/dataflow.h"
#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Of a block's forward operators (EveryN: of a block that is recomputed).
OperatorList recomputed_operators(const OperatorList& forward, const Transformer& model,
                                  const Strategy& strategy, const Framework& framework,
                                  RecomputeKind recompute, LayerKind kind);

// Of its tensors.
Dataflow::Recomputation recomputation_of(const Dataflow& block, const Recompute& recompute,
                                         const Transformer& model, const Framework& framework,
                                         LayerKind kind);

// Whose tensors selective recomputation writes again, in a dense block or in one with experts.
ModuleSet repeated_modules(const RecomputedModules& modules, const Transformer& model, bool moe);

// What the modules of a block that are offloaded have on the host: their inputs, as far as they are
// saved.
Bytes offloaded_inputs(const Dataflow& block, const Dataflow::Recomputation& recomputation,
                       const OffloadedModules& modules);

}  // namespace llmsim::sim
