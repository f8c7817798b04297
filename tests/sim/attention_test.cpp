#include "sim/cost/attention.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// 8 heads of 128 over 4096 tokens: 4 * 8 * 4096^2 * 128 = 68.7 GFLOP in full, two thirds of a millisecond at 100 TFLOP/s.
Operator full_attention() {
  Operator op{.kind = OperatorKind::Attention, .label = "attention", .batch = 8, .m = 4096, .n = 4096, .k = 128};
  op.flops = 4.0 * 8 * 4096.0 * 4096.0 * 128 * FLOP;
  return op;
}

constexpr double kPeakTime = 4.0 * 8 * 4096.0 * 4096.0 * 128 / 100e12;

TEST(Attention, RunsAtTheRateOfTheKernelThatTheFrameworkCalls) {
  Device device = ideal_device();
  auto& kernels = device.achieved.attention;
  kernels[static_cast<std::size_t>(AttentionKernel::Flash2)] = {.forward = 0.5, .backward = 0.4, .seq_half = 0.0};
  kernels[static_cast<std::size_t>(AttentionKernel::Cudnn)] = {.forward = 0.8, .backward = 0.6, .seq_half = 0.0};
  const auto time = [&](AttentionKernel kernel, bool backward) {
    return attention_time(full_attention(), backward, attention_machine(device, DType::Bf16, kernel)).value();
  };
  EXPECT_NEAR(time(AttentionKernel::Flash2, false), kPeakTime / 0.5, 1e-9);
  EXPECT_NEAR(time(AttentionKernel::Flash2, true), kPeakTime / 0.4, 1e-9);
  EXPECT_NEAR(time(AttentionKernel::Cudnn, false), kPeakTime / 0.8, 1e-9);
  EXPECT_NEAR(time(AttentionKernel::Cudnn, true), kPeakTime / 0.6, 1e-9);
}

TEST(Attention, ReachesHalfItsRateAtTheHalfLength) {
  Device device = ideal_device();
  device.achieved.attention.fill({.forward = 1.0, .backward = 1.0, .seq_half = 4096.0, .head_dim_64_factor = 1.0});
  Operator causal = full_attention();
  causal.causal = true;
  causal.flops /= 2.0;
  const AttentionMachine machine = attention_machine(device, DType::Bf16, AttentionKernel::Flash2);
  EXPECT_NEAR(attention_time(causal, false, machine).value(), kPeakTime / 2.0 / 0.5, 1e-9);
  // Without a mask a third of the half length counts: 4096 / (4096 + 4096 / 3) = 3/4.
  EXPECT_NEAR(attention_time(full_attention(), false, machine).value(), kPeakTime / 0.75, 1e-9);
}

TEST(Attention, KernelsAreNamedAndFoundByName) {
  for (int i = 0; i < kNumAttentionKernels; ++i) {
    const auto kernel = static_cast<AttentionKernel>(i);
    EXPECT_EQ(named<AttentionKernel>(name_of(kernel)), kernel);
  }
  EXPECT_EQ(named<AttentionKernel>("flash-4"), std::nullopt);
}

}  // namespace
}  // namespace llmsim::sim
