// Activations of a stage while its passes run in their order: a forward pass keeps those of its chunk; the gradients of the data
// free them, and leave what the gradients of the weights need, the inputs of the linear layers and the gradients of their
// outputs, until these are made.
//
// With M_B kept by a forward pass and M_W <= M_B waiting, stage s (from 0) of p holds at most (p - s) M_B + s M_W under ZB-H1.
// Source: Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2.3.
#pragma once

#include <span>

#include "sim/base/quantity.h"
#include "sim/pipeline/stage_order.h"

namespace llmsim::sim {

// Of one micro-batch through one chunk of a stage.
struct ChunkActivations {
  Bytes kept{};     // from the forward pass until the gradients of the data are made
  Bytes waiting{};  // from then until the gradients of the weights are
};

// The most that is held after any pass.
Bytes most_held(std::span<const PipelinePass> order, std::span<const ChunkActivations> chunks);

}  // namespace llmsim::sim
