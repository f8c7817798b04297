// Implementations of attention that never write the scores to memory.  They differ by up to four times on one device, and which
// one runs is a habit of the framework and its date: Framework::attention_kernel names it, Achieved::attention holds what it
// reaches.
#pragma once

#include "sim/base/named.h"

namespace llmsim::sim {

//   Flash1           FlashAttention, until July 2023
//   FlashTriton      FlashAttention written in Triton, as MPT models used it until 2024
//   Flash2           FlashAttention-2, which PyTorch's scaled_dot_product_attention calls on NVIDIA devices; of Ampere's design,
//                    so that Hopper and Blackwell lend it a third and a fifth of their matrix units
//   Flash3           FlashAttention-3 (Hopper)
//   Cudnn            cuDNN's fused attention: TransformerEngine's choice from Hopper on
//   ComposableKernel  AMD's Composable Kernel: the ROCm ports of FlashAttention-2 and TransformerEngine
//   Aotriton         what PyTorch calls on ROCm
//   AotritonFirst    the same before PyTorch's nightly build of 2024-09-30, with a backward pass several times slower
//   Splash           Pallas kernels on TPUs
//   Blockwise        blocks of 128 queries, each from plain GEMMs and elementwise operators: what the runtime runs where the
//                    library has no kernel; in 16 bits
//   BlockwiseFp32    the same in fp32: its elementwise part is no slower, its GEMMs are
enum class AttentionKernel {
  Flash1,
  FlashTriton,
  Flash2,
  Flash3,
  Cudnn,
  ComposableKernel,
  Aotriton,
  AotritonFirst,
  Splash,
  Blockwise,
  BlockwiseFp32
};

inline constexpr int kNumAttentionKernels = 11;

// "flash-1", "flash-triton", "flash-2", "flash-3", "cudnn", "composable-kernel", "aotriton", "aotriton-first", "splash",
// "blockwise", "blockwise-fp32".
NameTable<AttentionKernel> name_table(AttentionKernel);

}  // namespace llmsim::sim
