// Attention by the kernels that libtorch 2.x brings for accelerators, called by
// name: flash, and memory-efficient.
//
// They keep what the blockwise form keeps, the output and the log-sum-exp of each row, and a few
// values of their own.  Keys and values of a group are repeated for its queries, their gradients
// summed.  Causal, without a window and without dropout.  Not run anywhere yet: libtorch 1.13 has
// neither kernel.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "runtime/kernels/attention.h"

namespace llmsim::runtime {

// What executes attention that does not keep the scores.
//   Blockwise  kernels/attention.h, on any device
//   Flash      aten::_scaled_dot_product_flash_attention, in 16 bits
//   Efficient  aten::_scaled_dot_product_efficient_attention
//   Cudnn      aten::_scaled_dot_product_cudnn_attention (libtorch 2.5 and newer), in 16 bits
enum class AttentionKernels { Blockwise, Flash, Efficient, Cudnn };

const char* name_of(AttentionKernels kernels);

// Whether `device` and this libtorch have them.
bool has_attention_kernels(AttentionKernels kernels, c10::Device device);

// Throws Error that says what they need, where the device, this libtorch or the
// number format lacks it.
void require_attention_kernels(AttentionKernels kernels, c10::Device device, c10::ScalarType type);

// Of Flash, Efficient or Cudnn.
AttentionOutput library_attention(AttentionKernels kernels, const Heads& heads);
Heads library_attention_backward(AttentionKernels kernels, const at::Tensor& dout,
                                 const Heads& heads, const AttentionOutput& forward);

}  // namespace llmsim::runtime
