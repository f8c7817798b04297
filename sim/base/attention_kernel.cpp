#include "sim/base/attention_kernel.h"

namespace llmsim::sim {
namespace {

constexpr Named<AttentionKernel> kKernels[] = {{AttentionKernel::Flash1, "flash-1"},
                                               {AttentionKernel::FlashTriton, "flash-triton"},
                                               {AttentionKernel::Flash2, "flash-2"},
                                               {AttentionKernel::Flash3, "flash-3"},
                                               {AttentionKernel::Cudnn, "cudnn"},
                                               {AttentionKernel::ComposableKernel, "composable-kernel"},
                                               {AttentionKernel::Aotriton, "aotriton"},
                                               {AttentionKernel::AotritonFirst, "aotriton-first"},
                                               {AttentionKernel::Splash, "splash"},
                                               {AttentionKernel::Blockwise, "blockwise"},
                                               {AttentionKernel::BlockwiseFp32, "blockwise-fp32"}};

}  // namespace

NameTable<AttentionKernel> name_table(AttentionKernel) { return kKernels; }

}  // namespace llmsim::sim
