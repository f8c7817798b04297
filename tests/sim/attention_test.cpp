#include "sim/cost/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>

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

// t = max(executed / (P e u), bytes / bandwidth) + launches * kernel_time, by hand for every mix of the header's cases.
TEST(Attention, TakesWhatTheHeaderSays) {
  const AttentionMachine machine{.peak = 100.0 * TFLOPS,
                                 .compute_units = 100,
                                 .bandwidth = 1.0 * TBps,
                                 .coefficients = {.forward = 0.7, .backward = 0.5, .seq_half = 600.0, .head_dim_64_factor = 0.8},
                                 .kernel_time = Seconds(4e-6)};
  for (const std::int64_t d : {32, 64, 96, 128, 256}) {
    for (const std::int64_t batch : {1, 9, 64}) {
      for (const std::int64_t length : {64, 1024, 8192}) {
        for (const bool causal : {false, true}) {
          for (const bool backward : {false, true}) {
            for (const double moved : {0.0, 1e11}) {
              Operator op{.kind = OperatorKind::Attention, .batch = batch, .m = length, .n = length, .k = d, .causal = causal};
              op.flops = 4.0 * static_cast<double>(batch * length * length * d) * FLOP;
              op.repeats = backward ? 1.25 : 1.0, op.launches = backward ? 2 : 1, op.moved = Bytes(moved);
              const double head = d < 128 ? 1.0 / (1.0 + (1.0 / 0.8 - 1.0) * (128.0 / static_cast<double>(d) - 1.0)) : 1.0;
              const double n = static_cast<double>(length), half = causal ? 600.0 : 200.0;
              const double e = (backward ? 0.5 : 0.7) * head * n / (n + half);
              const double u = std::min(1.0, static_cast<double>(batch) * std::max(1.0, n / 128.0) / 100.0);
              const double compute = op.repeats * op.flops.value() / (100e12 * e * u);
              const double expected = std::max(compute, moved / 1e12) + op.launches * 4e-6;
              EXPECT_NEAR(attention_time(op, backward, machine) / Seconds(expected), 1.0, 1e-12)
                  << d << ", " << batch << ", " << n;
            }
          }
        }
      }
    }
  }
}

// flops / time = peak * efficiency * head_size * sequence * occupancy * useful * roofline() * launch().
TEST(AttentionFactors, MultiplyToTheRate) {
  Operator op = full_attention();
  op.repeats = 1.25, op.k = 64, op.moved = 3.0 * GB;
  Device device = ideal_device();
  device.achieved.attention.fill({.forward = 0.7, .backward = 0.5, .seq_half = 600.0, .head_dim_64_factor = 0.8});
  const AttentionFactors f = attention_factors(op, true, attention_machine(device, DType::Bf16, AttentionKernel::Flash2));
  const double factors = f.efficiency * f.head_size * f.sequence * f.occupancy * f.useful * f.roofline() * f.launch();
  EXPECT_NEAR(op.flops / f.time() / (factors * f.peak), 1.0, 1e-12);
}

}  // namespace
}  // namespace llmsim::sim
