// A short convolution (LFM2) in the place of attention, on one rank.
//
//   forward   [gather], (t, 3 c/n, h): b, c and x; b x; a causal convolution over k tokens; c times
//             that; (t, h, c/n)
//   backward  the same from its end to its beginning; the convolution saves what it reads
//
// Notation: layer_builder.h; c = channels, k = conv_kernel.  Tensor ranks divide the channels: each
// has its own of b, c and x.  Context ranks would need k - 1 tokens of their neighbour, which is
// not modelled.  Saved: b, c and x; what the convolution reads and gives.  Source:
// huggingface/transformers models/lfm2/modeling_lfm2.py, Lfm2ShortConv.
#pragma once

#include "sim/operators/layer_builder.h"

namespace llmsim::sim {

// Gives the sum over tensor ranks.  `alone`: the layer has no MLP.
TensorId add_short_convolution_mixer(LayerBuilder& layer, TensorId normed, bool alone);

}  // namespace llmsim::sim
