#include "sim/base/attention_kernel.h"

namespace llmsim::sim {

const char* name_of(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::Flash1: return "flash-1";
    case AttentionKernel::FlashTriton: return "flash-triton";
    case AttentionKernel::Flash2: return "flash-2";
    case AttentionKernel::Flash3: return "flash-3";
    case AttentionKernel::Cudnn: return "cudnn";
    case AttentionKernel::ComposableKernel: return "composable-kernel";
    case AttentionKernel::Aotriton: return "aotriton";
    case AttentionKernel::AotritonFirst: return "aotriton-first";
    case AttentionKernel::Splash: return "splash";
    case AttentionKernel::Blockwise: return "blockwise";
    case AttentionKernel::BlockwiseFp32: return "blockwise-fp32";
  }
  return "";
}

std::optional<AttentionKernel> attention_kernel_named(const std::string& name) {
  for (int i = 0; i < kNumAttentionKernels; ++i) {
    const auto kernel = static_cast<AttentionKernel>(i);
    if (name == name_of(kernel)) return kernel;
  }
  return std::nullopt;
}

}  // namespace llmsim::sim
