// From the residual stream to the queries and keys of compressed attention (DeepSeek-V4), and from
// what its core gives to the output projection.
//
// With the notation of attention.h, r = q_lora_rank, R tokens an entry, x = 2 where an indexer
// chooses entries, else 1, and g groups of o = output_rank values:
//
//   queries     (t, r, h), norm, (t, a d/n, r), norm of each head, rotary
//   keys        (t, d, h), norm, rotary: values too, the same for all heads
//   entries     (t, 2 x d, h): values and their weights, softmax over R (or 2 R) tokens of each
//               channel, norm, rotary; d values for R tokens
//   indexer     indexer.h, its keys compressed in the same way
//   output      rotary backwards, for each group (t, o, a d/g), (t, h, g o/n)
//
// Every tensor rank makes keys and entries of its own tokens and gathers the keys; the gather of
// entries, 1/R as long, is not counted.  Saved: as
// attention.h has it; what entries are made of.  Sources: huggingface/transformers
// models/deepseek_v4/modular_deepseek_v4.py, DeepseekV4Attention.
#pragma once

#include "sim/operators/attention_core.h"
#include "sim/operators/layer_builder.h"

namespace llmsim::sim {

// Requires model.compressed_attention as own_shape() gives it.
AttentionInputs add_compressed_heads(LayerBuilder& layer, TensorId normed);

// Of what the core gives: what the output projection reads.
TensorId grouped_output(LayerBuilder& layer, TensorId core);

}  // namespace llmsim::sim
