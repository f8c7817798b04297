// The tensors of one transformer block (dataflow.h), for one micro-batch on one rank.
//
// Notation and operators are those of block.h.  Beside the activations that the operators read and
// write, a block saves what the framework's kernels need:
//
//   norm         its input, or an fp32 copy of it (norms_in_fp32); an eager RMSNorm under autograd
//                saves the fp32 copy and the normalised input; mean and deviation, 2 values a row
//                for LayerNorm, 1 for RMSNorm
//   linear       its input, as linear_input_bytes has it; nothing where the weight is frozen
//   attention    q, k, v, the output and a log-sum-exp for each row (flash); or the probabilities,
//                with dropout their masked copy and the mask (unfused)
//   activation   its inputs; eager gates silu(gate), a GELU written out its intermediate results
//   residual     the dropout mask
//
// GPT in 16 bits with dropout and fused kernels saves 34 t h + 5 a s t bytes at n = 1.
// With sequence parallelism column-parallel GEMMs gather their input for as long as they run,
// forward and backward, and row-parallel ones reduce-scatter what they write.
// Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
// 2022, section 4.
#pragma once

#include "sim/model/transformer.h"
#include "sim/operators/dataflow.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// Queries that a blockwise attention kernel handles at once: the scores of one block are there at a
// time.
inline constexpr int kAttentionBlock = 128;

// Of 0.5 x (1 + tanh(...)) written out, saved beside x itself: 0.5 x, the tangent, and one more
// than it.
inline constexpr double kComposedGeluKeeps = 3.0;

// `framework`: as it runs under the strategy (effective_framework).
Dataflow block_dataflow(const Transformer& model, const Strategy& strategy,
                        const Framework& framework, LayerKind kind);

}  // namespace llmsim::sim
