// The MLP between the norm of a half of a layer and the sum over tensor ranks.
//
// Notation: layer_builder.h; f = ffn_size.
//
//   forward   [gather], (t, f/n or 2f/n, h), activation, (t, h, f/n)
//   backward  the same from its end to its beginning: for each GEMM a data gradient, then a
//             weight gradient
#pragma once

#include "sim/operators/layer_builder.h"

namespace llmsim::sim {

// Intermediate results of 0.5 x (1 + tanh(...)) written out, saved with x itself: 0.5 x, the
// tangent, and one more than it.
inline constexpr double kComposedGeluSaves = 3.0;

// Gives this rank's summand of the sum over tensor ranks.
TensorId add_mlp(LayerBuilder& layer, TensorId normed);

}  // namespace llmsim::sim
