// The tensors of an MoE layer: router, dispatch, experts, shared experts and combination
// (layer_dataflow.h); its operators and notation are experts.h's.
//
// Saved for the backward pass: the probabilities in fp32, the chosen experts' weights, three 8-byte
// indices for each row, the rows as the experts' GEMM reads them, its results where the weights
// multiply them, and the same of shared experts.
#pragma once

#include "sim/operators/layer_dataflow.h"

namespace llmsim::sim {

// Adds the layer's steps on the output of its norm; gives the sum for this rank's tokens.
Dataflow::Tensor add_moe(LayerDataflow& layer, Dataflow::Tensor x);

}  // namespace llmsim::sim
