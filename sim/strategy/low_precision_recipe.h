// 8- and 4-bit recipes: how the operands of linear layers are quantised, and the
// bytes of their scales.
//
//   recipe      factor   scales of x and dy             scales of w  rows of an expert
//   delayed     fp8      one of the tensor, fp32        one of the tensor, fp32  multiples of 16
//   current     fp8      one of the tensor, fp32        one of the tensor, fp32         16
//   rowwise     fp8      one of a row or column, fp32   one of a row or column, fp32    16
//   blockwise   fp8      1 x 128, fp32                  128 x 128, fp32                 128
//   mxfp8       fp8      1 x 32, 1 byte (e8m0)          1 x 32, 1 byte                  32
//   nvfp4       fp4      1 x 16, 1 byte (e4m3), and     16 x 16, written out for each   32
//                        one of the tensor              1 x 16 as the GEMM reads it
//
// The bytes of one scale for a row or a tensor are neglected.  In nvfp4 weight gradients
// multiply factors that a random Hadamard transform of 16 elements has been through, and gradients
// are rounded stochastically, both within the kernel that casts; the maxima of the tensor and of
// its transform are one pass before it.  Some blocks may stay in 16 bits.  Sources:
// TransformerEngine common/recipe (DelayedScaling, Float8CurrentScaling, Float8BlockScaling,
// MXFP8BlockScaling, NVFP4BlockScaling) and pytorch/csrc/quantizer.cpp; DeepSeek-V3 technical
// report, 2024, section 3.3; OCP Microscaling Formats, 2023; arXiv 2509.25149 (nvfp4); row
// multiples: Megatron-LM core/fp8_utils.py, core/fp4_utils.py, DeepGEMM's contiguous layout.
#pragma once

#include "sim/model/layer_kinds.h"
#include "sim/strategy/recompute.h"
#include "sim/strategy/stages.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// How a recipe finds the scales of a tensor, and so how often it reads it.
//   Delayed              from the maxima of earlier steps: one pass casts and transposes
//   Current              from the tensor's own maximum: a pass more
//   Rowwise              a scale for each row along the GEMM: two casts with maxima of their own;
//                        the outputs of backward GEMMs are scaled by a kernel of their own
//   RowwiseHighPrecisionGradient  the same, but weight gradients multiply in 16 bits
//   Blockwise            a scale for each 1 x 128 values, and 128 x 128 of a weight
//   Mxfp8                a scale for each 32 elements along the GEMM
//   Nvfp4                a scale for each 16 elements along the GEMM, and one of the tensor
enum class LowPrecisionScaling {
  Delayed,
  Current,
  Rowwise,
  RowwiseHighPrecisionGradient,
  Blockwise,
  Mxfp8,
  Nvfp4
};
// "delayed", "rowwise-gw-hp" (torchao's name).
NameTable<LowPrecisionScaling> name_table(LowPrecisionScaling);

// Behaviour of a framework.
struct LowPrecisionRecipe {
  // Of fp8; the formats mxfp8 and nvfp4 bring their own.
  LowPrecisionScaling scaling = LowPrecisionScaling::Delayed;
  // Of a tensor with one scale: 2 where the device multiplies in one layout only.
  double copies = 2.0;
  // Weights are quantised once per step, not per micro-batch, and are resident
  // with the 16-bit ones.
  bool caches_weights = false;
  // There are no 16-bit weights: the low-precision ones are updated from the master weights.
  bool stores_weights = false;
  bool head = false;          // the output projection multiplies in the low-precision format too
  bool saves_inputs = false;  // inputs of linear layers are saved in the low-precision format
  // Recomputation by operator counts low-precision GEMMs as any other; else it repeats them all.
  bool counted_by_policy = false;
  bool gathers = false;          // weights are quantised before they are gathered
  bool gathers_inputs = false;   // so are the inputs and output gradients that tensor ranks gather
  int high_precision_first = 0;  // blocks that multiply in 16 bits: the first ones
  int high_precision_last = 0;   // and the last ones
  // Rate of GEMMs with the scales of this recipe, relative to one scale a tensor.
  double gemm_efficiency = 1.0;
  // Block scales: bandwidth of the cast along rows, relative to other compiled kernels.
  double row_cast_rate = 1.0;
  bool operator==(const LowPrecisionRecipe&) const = default;
};

// What a precision multiplies with.
LowPrecisionScaling scaling_of(const LowPrecisionRecipe& recipe, Precision precision);

// Bytes of scales for each element of one copy.
double scale_bytes(LowPrecisionScaling scaling, bool weight);

// Bytes of an element of one copy with its scales; in a 16- or 32-bit precision those of an element
// of its format.
double low_precision_bytes(const LowPrecisionRecipe& recipe, Precision precision, bool weight);

// Copies of a tensor that the GEMMs along both of its axes need.
double low_precision_copies(const LowPrecisionRecipe& recipe, Precision precision);

// The rows of an expert are padded to a multiple of this.
int row_multiple(LowPrecisionScaling scaling);

// Whether the first or last blocks of a low-precision run multiply in 16 bits.
bool keeps_blocks_in_high_precision(const LowPrecisionRecipe& recipe, Precision precision);

// Blocks of a model chunk that stay in 16 bits though the run is low-precision, by their kinds.
//
// Blocks of multi-token prediction are low-precision: Megatron-LM enters its context for them
// without a number of their layer (core/fp8_utils.py get_fp8_context).
LayerCounts high_precision_blocks(const LowPrecisionRecipe& recipe, Precision precision,
                                  const Transformer& model, const ModelChunk& chunk);

// Whether layer `layer` of the model is one.
bool is_high_precision_layer(const LowPrecisionRecipe& recipe, Precision precision,
                             const Transformer& model, int layer);

}  // namespace llmsim::sim
