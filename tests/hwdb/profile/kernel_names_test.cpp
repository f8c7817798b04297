#include "hwdb/profile/kernel_names.h"

#include <gtest/gtest.h>

namespace llmsim::hwdb {
namespace {

// Names as profilers of PyTorch, TransformerEngine, DeepSpeed and ROCm list them.
TEST(ClassOfKernel, IsFoundInNamesOfLibraries) {
  using enum KernelClass;
  constexpr std::pair<const char*, KernelClass> kNames[] = {
      {"nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNT", Gemm},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1", Gemm},
      {"ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", Gemm},
      {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(...)", Gemm},
      {"Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1", Gemm},
      {"void deep_gemm::sm90_fp8_gemm_1d1d_impl<7168u, 4096u>(...)", Gemm},
      {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>(Flash_fwd_params)",
       Attention},
      {"void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<...>", Attention},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_31_128x128x64", Attention},
      {"void cutlass::device_kernel<flash::FlashAttnFwdSm90<...>>", Attention},
      {"fmha_cutlassB_bf16_aligned_64x64_k128_sm80(PyTorchMemEffAttention::...)", Attention},
      {"_ZN7ck_tile6kentryILi2ENS_13FmhaFwdKernel", Attention},
      {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       Collective},
      {"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", Collective},
      {"void deep_ep::internode::dispatch<true, 2>(...)", Collective},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
       Elementwise},
      {"triton_poi_fused__to_copy_mul_silu_3", Activation},
      {"triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", Norm},
      {"triton_poi_fused_add_mul_2", Elementwise},
      {"void layer_norm::ln_fwd_tuned_kernel<layer_norm::Kernel_traits<...>>", Norm},
      {"void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<...>", Norm},
      {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>", Optimizer},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdam...>",
       Optimizer},
      {"void transformer_engine::detail::cast_transpose_fused_kernel<...>", Cast},
      {"void transformer_engine::(anonymous namespace)::amax_kernel<8, true, __nv_bfloat16>", Cast},
      {"void (anonymous namespace)::cunn_SoftMaxForward<4, float>", CrossEntropy},
      {"void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float>",
       CrossEntropy},
      {"void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16>", Embedding},
      {"void causal_conv1d_fwd_kernel<...>", Scan},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>", Elementwise},
      {"void split_with_sizes_copy_out_contiguous_no_cast_kernel<...>", Elementwise},
      {"__amd_rocclr_copyBuffer", Copy},
      {"some_vendor_thing", Other}};
  for (const auto& [name, kernels] : kNames)
    EXPECT_STREQ(sim::name_of(class_of_kernel(name)), sim::name_of(kernels)) << name;
}

TEST(IsBackwardKernel, IsSaidByTheName) {
  EXPECT_TRUE(is_backward_kernel("flash_bwd_kernel"));
  EXPECT_TRUE(is_backward_kernel("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma"));
  EXPECT_FALSE(is_backward_kernel("flash_fwd_kernel"));
}

}  // namespace
}  // namespace llmsim::hwdb
