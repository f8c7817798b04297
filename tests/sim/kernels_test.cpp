#include "sim/cost/kernels.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

Operator square(std::int64_t size) {
  return gemm("test", 1, size, size, size, DType::Bf16, DType::Bf16);
}

TEST(Gemm, CountsTwoFlopsForEachMultiplyAdd) {
  const Operator op = gemm("test", 3, 4, 5, 6, DType::Bf16, DType::Fp32);
  EXPECT_DOUBLE_EQ(op.flops.value(), 3 * 2.0 * 4 * 5 * 6);
  EXPECT_DOUBLE_EQ(op.moved.value(), 3 * (2.0 * (4 * 6 + 6 * 5) + 4.0 * 4 * 5));
}

TEST(Gemm, AnIdealDeviceRunsAtItsPeak) {
  // 2 * 4096^3 FLOP at 100 TFLOP/s.
  const double expected = 2.0 * 4096 * 4096 * 4096 / 100e12;
  EXPECT_NEAR(gemm_time(square(4096), gemm_machine(ideal_device(), DType::Bf16)).value(), expected,
              1e-3 * expected);
}

TEST(Gemm, SkinnyGemmsAreBoundByMemory) {
  // One row: the weights pass once, 2 * 8192^2 bytes at 1 TB/s; tiles that are nearly empty add
  // less than a quarter.
  const Operator op = gemm("test", 1, 1, 8192, 8192, DType::Bf16, DType::Bf16);
  const double seconds = gemm_time(op, gemm_machine(ideal_device(), DType::Bf16)).value();
  const double load = 2.0 * 8192 * 8192 / 1e12;
  EXPECT_GE(seconds, load);
  EXPECT_LT(seconds, 1.25 * load);
}

TEST(Gemm, ANearlyEmptyLastWaveCostsAFullOne) {
  Device device = ideal_device();
  device.compute_units = 100;
  GemmMachine machine = gemm_machine(device, DType::Bf16);
  machine.coefficients.wave_quantisation = 1.0;
  machine.bandwidth = 1000.0 * TBps;
  // 128 x 128 tiles: 10 x 20 = 200 tiles are two waves, 10 x 20 + 10 are three for every tile shape
  // tried or worse than 2.
  const Operator two = gemm("two", 1, 1280, 2560, 4096, DType::Bf16, DType::Bf16);
  const Operator more = gemm("more", 1, 1280, 2560 + 128, 4096, DType::Bf16, DType::Bf16);
  EXPECT_GT(gemm_time(more, machine) / gemm_time(two, machine), 1.05 * more.flops / two.flops);
}

TEST(Gemm, MisalignedDimensionsSlowTheGemm) {
  GemmMachine machine = gemm_machine(ideal_device(), DType::Bf16);
  machine.coefficients.misaligned_factor = 0.5;
  const Operator aligned = gemm("head", 1, 4096, 50304, 1024, DType::Bf16, DType::Bf16);
  const Operator odd = gemm("head", 1, 4096, 50257, 1024, DType::Bf16, DType::Bf16);
  EXPECT_NEAR(gemm_time(odd, machine) / gemm_time(aligned, machine), 2.0, 0.01);
}

// As measured on H200 (hwdb/measurements): odd rows at 0.16 of the rate, even ones at 0.29; how many
// rows there are does not matter.
TEST(Gemm, RowsMustBeAlignedAndNotTheirNumber) {
  GemmMachine machine = gemm_machine(ideal_device(), DType::Bf16);
  machine.coefficients.misaligned_factor = 0.16, machine.coefficients.even_rows_gain = 1.8;
  const auto alignment = [&](std::int64_t m, std::int64_t n, std::int64_t k, bool gradient) {
    Operator op = gemm("", 1, m, n, k, DType::Bf16, DType::Bf16);
    op.weight_gradient = gradient;
    return gemm_factors(op, machine).alignment;
  };
  EXPECT_DOUBLE_EQ(alignment(8193, 8192, 4096, false), 1.0);
  EXPECT_DOUBLE_EQ(alignment(8192, 8193, 4096, false), 0.16);
  EXPECT_DOUBLE_EQ(alignment(8192, 8192, 4097, false), 0.16);
  EXPECT_DOUBLE_EQ(alignment(8192, 8194, 4096, false), 0.288);
  EXPECT_DOUBLE_EQ(alignment(8192, 8194, 4097, false), 0.16);
  EXPECT_DOUBLE_EQ(alignment(8192, 8192, 4097, true), 1.0);
  EXPECT_DOUBLE_EQ(alignment(8193, 8192, 4096, true), 0.16);
  EXPECT_DOUBLE_EQ(alignment(8192, 8194, 4096, true), 0.288);
  machine.coefficients.misaligned_factor = 0.75;
  EXPECT_DOUBLE_EQ(alignment(8192, 8194, 4096, false), 1.0);
}

TEST(Gemm, MisalignedBatchesHaveARateOfTheirOwn) {
  GemmMachine machine = gemm_machine(ideal_device(), DType::Bf16);
  machine.coefficients.misaligned_factor = 0.5;
  machine.coefficients.misaligned_batch_factor = 0.1;
  machine.bandwidth = BytesPerSecond(1e18);
  const auto time = [&](std::int64_t batch, std::int64_t k) {
    return gemm_time(gemm("scores", batch, 2048, 2048, k, DType::Bf16, DType::Bf16), machine)
               .value() /
           static_cast<double>(batch * k);
  };
  // Heads of 108 are no multiple of 8 elements, heads of 104 are.
  EXPECT_NEAR(time(64, 108) / time(64, 104), 10.0, 1e-6);
  EXPECT_NEAR(time(1, 108) / time(1, 104), 2.0, 1e-6);
}

TEST(Gemm, RowsTimesRowsHaveARateOfTheirOwn) {
  GemmMachine machine = gemm_machine(ideal_device(), DType::Bf16);
  machine.coefficients.transposed_factor = 0.25;
  machine.coefficients.kernel_time = Seconds(0.0);
  machine.bandwidth = BytesPerSecond(1e18);
  const Operator plain = square(4096);
  EXPECT_NEAR(gemm_time(transposed(plain), machine) / gemm_time(plain, machine), 4.0, 1e-9);
}

TEST(Gemm, EachKernelHasItsStartUp) {
  GemmMachine machine = gemm_machine(ideal_device(), DType::Bf16);
  machine.coefficients.kernel_time = Seconds(1e-3);
  Operator experts = gemm("", 16, 128, 1024, 1024, DType::Bf16, DType::Bf16);
  const Seconds one = gemm_time(experts, machine);
  experts.kernels = 16;
  EXPECT_NEAR((gemm_time(experts, machine) - one).value(), 15e-3, 1e-12);
}

TEST(Gemm, RowsOfExpertsNeedNoAlignment) {
  GemmMachine machine = gemm_machine(ideal_device(), DType::Bf16);
  machine.coefficients.misaligned_batch_factor = 0.5;
  const auto alignment = [&](const Operator& op) { return gemm_factors(op, machine).alignment; };
  EXPECT_EQ(alignment(gemm("", 4, 129, 1024, 1024, DType::Bf16, DType::Bf16)), 1.0);
  Operator gradient = gemm("", 4, 1024, 1024, 129, DType::Bf16, DType::Bf16);
  EXPECT_EQ(alignment(gradient), 0.5);
  gradient.weight_gradient = true;
  EXPECT_EQ(alignment(gradient), 1.0);
}

TEST(Gemm, TimeGrowsWithEveryDimension) {
  const GemmMachine machine = gemm_machine(ideal_device(), DType::Bf16);
  Seconds last;
  for (std::int64_t size = 128; size <= 16384; size *= 2) {
    const Seconds time = gemm_time(square(size), machine);
    EXPECT_GT(time, last);
    last = time;
  }
}

TEST(GemmFactors, AreThoseOfTheFormula) {
  // 132 units, 128 x 256 tiles: 32 x 16 = 512 of them, 3.88 waves that cost 3.94 where half of the
  // rest is lost.
  Device device = ideal_device();
  device.compute_units = 132;
  GemmMachine machine = gemm_machine(device, DType::Bf16);
  machine.bandwidth = BytesPerSecond(1e18);
  machine.coefficients = {.max_efficiency = 0.8,
                          .k_half = 256.0,
                          .wave_quantisation = 0.5,
                          .kernel_time = Seconds(0.0)};
  const GemmFactors factors = gemm_factors(square(4096), machine);
  EXPECT_EQ(factors.peak, 100.0 * TFLOPS);
  EXPECT_EQ(factors.max_efficiency, 0.8);
  EXPECT_NEAR(factors.k_ramp, 4096.0 / (4096.0 + 256.0), 1e-12);
  EXPECT_NEAR(factors.tile, 1.0, 1e-12);
  EXPECT_NEAR(factors.waves, (512.0 / 132.0) / (0.5 * 512.0 / 132.0 + 0.5 * 4.0), 1e-12);
  EXPECT_EQ(factors.padding, 1.0);
  EXPECT_EQ(factors.alignment, 1.0);
  EXPECT_EQ(factors.weight_gradient, 1.0);
  EXPECT_NEAR(factors.roofline(), 1.0, 1e-9);
  EXPECT_EQ(factors.launch(), 1.0);
  EXPECT_FALSE(factors.memory_bound());
}

TEST(GemmFactors, TheRooflineLeavesTheCubeRootOfAHalfWhereBothSidesMeet) {
  GemmMachine machine = gemm_machine(ideal_device(), DType::Bf16);
  const Operator op = square(4096);
  machine.bandwidth = op.moved / gemm_factors(op, machine).compute;
  EXPECT_NEAR(gemm_factors(op, machine).roofline(), std::pow(2.0, -1.0 / 3.0), 1e-12);
  machine.bandwidth *= 0.99;
  EXPECT_TRUE(gemm_factors(op, machine).memory_bound());
}

TEST(GemmFactors, RowsThatFillAnExpertsShareAreNoUsefulWork) {
  Operator rows = gemm("", 4, 128, 1024, 1024, DType::Bf16, DType::Bf16);
  rows.flops = 2.0 * 500.0 * 1024.0 * 1024.0 * FLOP;  // 500 of 512 rows
  EXPECT_NEAR(gemm_factors(rows, gemm_machine(ideal_device(), DType::Bf16)).padding, 500.0 / 512.0,
              1e-12);
}

// The header's formulas, written down once more.
double up(double value, double step) { return std::ceil(value / step) * step; }

double gemm_time_by_hand(const Operator& op, const GemmMachine& machine) {
  const GemmCoefficients& c = machine.coefficients;
  const double m = static_cast<double>(op.m), n = static_cast<double>(op.n),
               k = static_cast<double>(op.k), reload = kTileReload;
  const double u = machine.compute_units, small = c.smallest_tile;
  const auto edge = [&](double tile, double extent) {
    return extent < 64 && small < 64 ? std::min(tile, up(extent, small)) : tile;
  };
  double least = 1e300;
  for (const auto& [tile_m, tile_n] : std::vector<std::pair<double, double>>{
           {256, 128}, {128, 256}, {128, 128}, {128, 64}, {64, 128}, {64, 64}}) {
    const double tm = edge(tile_m, m), tn = edge(tile_n, n);
    for (const double s : {1.0, 2.0, 4.0, 8.0, 16.0}) {
      const double x =
          static_cast<double>(op.batch) * std::ceil(m / tm) * std::ceil(n / tn) * s / u;
      if (s > 1 && (x > 2.0 || k / s < 256.0)) continue;
      const double waves =
          x < 1 ? 1.0 : (1 - c.wave_quantisation) * x + c.wave_quantisation * std::ceil(x);
      const double rate = c.max_efficiency * machine.peak.value() / u *
                          (1 + reload / 128 + reload / 256) / (1 + reload / tm + reload / tn);
      least = std::min(least, waves * 2 * tm * tn * (k / s + c.k_half) / rate);
    }
  }
  const std::int64_t row = op.weight_gradient ? op.m : op.k;
  const bool all = op.n % c.alignment == 0 && row % c.alignment == 0;
  const double even = op.n % 2 == 0 && row % 2 == 0 ? c.even_rows_gain : 1.0;
  const double alignment = all            ? 1.0
                           : op.batch > 1 ? c.misaligned_batch_factor
                                          : std::min(1.0, even * c.misaligned_factor);
  const double compute =
      least / (alignment * (op.weight_gradient ? c.weight_gradient_factor : 1.0));
  const double memory = op.moved / machine.bandwidth / Seconds(1.0);
  return std::pow(std::pow(compute, 3.0) + std::pow(memory, 3.0), 1.0 / 3.0) +
         c.kernel_time.value();
}

TEST(Gemm, TakesWhatTheHeaderSays) {
  GemmMachine machine;
  machine.peak = 300.0 * TFLOPS, machine.compute_units = 132, machine.bandwidth = 2.0 * TBps;
  machine.coefficients = {.max_efficiency = 0.8,
                          .k_half = 100.0,
                          .wave_quantisation = 0.3,
                          .misaligned_factor = 0.7,
                          .misaligned_batch_factor = 0.2,
                          .weight_gradient_factor = 0.94,
                          .kernel_time = Seconds(3e-6)};
  for (const int smallest : {64, 16}) {
    machine.coefficients.smallest_tile = smallest;
    for (const std::int64_t batch : {1, 6}) {
      for (const std::int64_t m : {1, 40, 300, 1001, 8192}) {
        for (const std::int64_t n : {24, 1000, 4096, 50257}) {
          for (const std::int64_t k : {64, 1000, 16384}) {
            for (const auto& [weight_gradient, ragged] :
                 {std::pair{false, false}, std::pair{true, false}, std::pair{false, true}}) {
              Operator op = gemm("test", batch, m, n, k, DType::Bf16, DType::Bf16);
              op.weight_gradient = weight_gradient, op.ragged = ragged;
              EXPECT_NEAR(gemm_time(op, machine) / Seconds(gemm_time_by_hand(op, machine)), 1.0,
                          1e-12)
                  << batch << " x " << m << " x " << n << " x " << k << ", tiles from " << smallest;
            }
          }
        }
      }
    }
  }
}

// flops / time = peak * max_efficiency * k_ramp * tile * waves * padding * alignment *
// weight_gradient * roofline() * launch().
TEST(GemmFactors, MultiplyToTheRate) {
  Device device = ideal_device();
  device.compute_units = 132;
  GemmMachine machine = gemm_machine(device, DType::Bf16);
  machine.coefficients = {
      .max_efficiency = 0.8, .k_half = 256.0, .wave_quantisation = 0.5, .misaligned_factor = 0.6};
  for (const std::int64_t k : {512, 4096, 16384}) {
    Operator op = gemm("test", 1, 1000, 2100, k, DType::Bf16, DType::Bf16);
    op.weight_gradient = true;
    const GemmFactors f = gemm_factors(op, machine);
    const double factors = f.max_efficiency * f.k_ramp * f.tile * f.waves * f.padding *
                           f.alignment * f.weight_gradient * f.roofline() * f.launch();
    EXPECT_NEAR(op.flops / f.time() / (factors * f.peak), 1.0, 1e-12) << k;
  }
}

// 8 heads of 128 over 4096 tokens: 4 * 8 * 4096^2 * 128 = 68.7 GFLOP in full, two thirds of a
// millisecond at 100 TFLOP/s.
Operator full_attention() {
  Operator op{.kind = OperatorKind::Attention,
              .label = "attention",
              .batch = 8,
              .m = 4096,
              .n = 4096,
              .k = 128};
  op.flops = 4.0 * 8 * 4096.0 * 4096.0 * 128 * FLOP;
  return op;
}

constexpr double kPeakTime = 4.0 * 8 * 4096.0 * 4096.0 * 128 / 100e12;

TEST(Attention, RunsAtTheRateOfTheKernelThatTheFrameworkCalls) {
  Device device = ideal_device();
  auto& kernels = device.achieved.attention;
  kernels[static_cast<std::size_t>(AttentionKernel::Flash2)] = {
      .forward = 0.5, .backward = 0.4, .seq_half = 0.0};
  kernels[static_cast<std::size_t>(AttentionKernel::Cudnn)] = {
      .forward = 0.8, .backward = 0.6, .seq_half = 0.0};
  const auto time = [&](AttentionKernel kernel, bool backward) {
    return attention_time(full_attention(), backward,
                          attention_machine(device, DType::Bf16, kernel))
        .value();
  };
  EXPECT_NEAR(time(AttentionKernel::Flash2, false), kPeakTime / 0.5, 1e-9);
  EXPECT_NEAR(time(AttentionKernel::Flash2, true), kPeakTime / 0.4, 1e-9);
  EXPECT_NEAR(time(AttentionKernel::Cudnn, false), kPeakTime / 0.8, 1e-9);
  EXPECT_NEAR(time(AttentionKernel::Cudnn, true), kPeakTime / 0.6, 1e-9);
}

TEST(Attention, ReachesHalfItsRateAtTheHalfLength) {
  Device device = ideal_device();
  device.achieved.attention.fill(
      {.forward = 1.0, .backward = 1.0, .seq_half = 4096.0, .head_dim_64_factor = 1.0});
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
  EXPECT_EQ(named<AttentionKernel>("flash-9"), std::nullopt);
}

// t = max(executed / (P e u), bytes / bandwidth) + launches * kernel_time, by hand for every mix of
// the header's cases.
TEST(Attention, TakesWhatTheHeaderSays) {
  const AttentionMachine machine{.peak = 100.0 * TFLOPS,
                                 .compute_units = 100,
                                 .bandwidth = 1.0 * TBps,
                                 .coefficients = {.forward = 0.7,
                                                  .backward = 0.5,
                                                  .seq_half = 600.0,
                                                  .head_dim_64_factor = 0.8},
                                 .kernel_time = Seconds(4e-6)};
  for (const std::int64_t d : {32, 64, 96, 128, 256}) {
    for (const std::int64_t batch : {1, 9, 64}) {
      for (const std::int64_t length : {64, 1024, 8192}) {
        for (const bool causal : {false, true}) {
          for (const bool backward : {false, true}) {
            for (const double moved : {0.0, 1e11}) {
              Operator op{.kind = OperatorKind::Attention,
                          .batch = batch,
                          .m = length,
                          .n = length,
                          .k = d,
                          .causal = causal};
              op.flops = 4.0 * static_cast<double>(batch * length * length * d) * FLOP;
              op.repeats = backward ? 1.25 : 1.0, op.launches = backward ? 2 : 1,
              op.moved = Bytes(moved);
              const double head =
                  d < 128 ? 1.0 / (1.0 + (1.0 / 0.8 - 1.0) * (128.0 / static_cast<double>(d) - 1.0))
                          : 1.0;
              const double n = static_cast<double>(length), half = causal ? 600.0 : 200.0;
              const double e = (backward ? 0.5 : 0.7) * head * n / (n + half);
              const double u =
                  std::min(1.0, static_cast<double>(batch) * std::max(1.0, n / 128.0) / 100.0);
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

// flops / time = peak * efficiency * head_size * sequence * occupancy * useful * roofline() *
// launch().
TEST(AttentionFactors, MultiplyToTheRate) {
  Operator op = full_attention();
  op.repeats = 1.25, op.k = 64, op.moved = 3.0 * GB;
  Device device = ideal_device();
  device.achieved.attention.fill(
      {.forward = 0.7, .backward = 0.5, .seq_half = 600.0, .head_dim_64_factor = 0.8});
  const AttentionFactors f =
      attention_factors(op, true, attention_machine(device, DType::Bf16, AttentionKernel::Flash2));
  const double factors =
      f.efficiency * f.head_size * f.sequence * f.occupancy * f.useful * f.roofline() * f.launch();
  EXPECT_NEAR(op.flops / f.time() / (factors * f.peak), 1.0, 1e-12);
}

// 10 GB/s, 8 MB of cache, 1 us a kernel; norms stream at half the rate of memory, and at four times
// it from the cache.
MemoryBoundMachine machine() {
  MemoryBoundMachine machine{.bandwidth = 10.0 * GBps,
                             .cache = 8.0 * MB,
                             .kernel_time = 1.0 * us,
                             .rates = {},
                             .forms = {}};
  machine.rates.forward[static_cast<std::size_t>(MemoryBoundKernel::LayerNorm)] = {.cached = 4.0,
                                                                                   .streamed = 0.5};
  return machine;
}

// Of so many megabytes, in two kernels.
Operator norm(double megabytes) {
  return memory_bound(OperatorKind::Norm, "norm", megabytes * 1e6, 1.0, 2);
}

TEST(Streaming, LargeOperandsComeFromMemory) {
  // 100 MB at 5 GB/s, and two kernels.
  EXPECT_NEAR(memory_bound_time(norm(100.0), false, machine()) / ms, 20.0 + 0.002, 1e-9);
}

TEST(Streaming, SmallOperandsComeFromTheCache) {
  // 4 MB at 40 GB/s, and two kernels.
  EXPECT_NEAR(memory_bound_time(norm(4.0), false, machine()) / ms, 0.1 + 0.002, 1e-9);
}

TEST(Streaming, BetweenBothTheRateIsTheirGeometricMean) {
  // 8 MB at sqrt(4 * 0.5) * 10 GB/s.
  EXPECT_NEAR(memory_bound_time(norm(8.0), false, machine()) / ms,
              8.0 / (std::sqrt(2.0) * 10.0) + 0.002, 1e-9);
}

TEST(Streaming, OtherPassesAndKindsHaveRatesOfTheirOwn) {
  EXPECT_NEAR(memory_bound_time(norm(4.0), true, machine()) / ms, 0.4 + 0.002, 1e-9);
  const Operator residual = memory_bound(OperatorKind::Residual, "residual", 4e6, 1.0, 2);
  EXPECT_NEAR(memory_bound_time(residual, false, machine()) / ms, 0.4 + 0.002, 1e-9);
}

TEST(MemoryBound, KernelsAreThoseOfTheirOperatorsAndForms) {
  using enum MemoryBoundKernel;
  const auto kernel = [](OperatorKind kind, Module module = Module::Residual,
                         MemoryBoundForms forms = {}) {
    Operator op{.kind = kind};
    op.module = module;
    return memory_bound_kernel(op, forms);
  };
  EXPECT_EQ(kernel(OperatorKind::Norm), LayerNorm);
  EXPECT_EQ(kernel(OperatorKind::Norm, Module::Norm, {.norm = Norm::RmsNorm}), RmsNorm);
  EXPECT_EQ(kernel(OperatorKind::Softmax, Module::CoreAttention), Softmax);
  EXPECT_EQ(kernel(OperatorKind::Softmax, Module::Router), ExpertChoice);
  EXPECT_EQ(kernel(OperatorKind::Activation), Gelu);
  EXPECT_EQ(kernel(OperatorKind::Activation, Module::Activation, {.gated_mlp = true}),
            GatedActivation);
  for (const Module module :
       {Module::Dispatch, Module::ExpertUp, Module::ExpertActivation, Module::ExpertDown})
    EXPECT_EQ(kernel(OperatorKind::Copy, module), RowMove);
  for (const Module module : {Module::Qkv, Module::Router, Module::SharedUp})
    EXPECT_EQ(kernel(OperatorKind::Copy, module), Copy);
  EXPECT_EQ(kernel(OperatorKind::Residual, Module::Residual), Add);
  EXPECT_EQ(kernel(OperatorKind::Residual, Module::Combine), WeightedSum);
  EXPECT_EQ(kernel(OperatorKind::CrossEntropy), CrossEntropy);
  EXPECT_EQ(kernel(OperatorKind::CrossEntropy, Module::Loss, {.chunked_loss = true}),
            ChunkedCrossEntropy);
}

TEST(MemoryBound, AreAllKindsButArithmeticAndMessages) {
  for (const OperatorKind kind :
       {OperatorKind::Norm, OperatorKind::Copy, OperatorKind::GradientScale})
    EXPECT_TRUE(is_memory_bound(kind)) << name_of(kind);
  for (const OperatorKind kind : {OperatorKind::Gemm, OperatorKind::Attention,
                                  OperatorKind::Collective, OperatorKind::HostCopy})
    EXPECT_FALSE(is_memory_bound(kind)) << name_of(kind);
}

TEST(Streaming, WithoutAKnownCacheEverythingStreams) {
  EXPECT_EQ(streamed_share(1.0 * KiB, Bytes(0.0)), 1.0);
  EXPECT_EQ(streamed_share(2.0 * MB, 8.0 * MB), 0.0);
  EXPECT_EQ(streamed_share(16.0 * MB, 8.0 * MB), 1.0);
}

}  // namespace
}  // namespace llmsim::sim
