#include "sim/cost/gemm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

Operator square(std::int64_t size) { return gemm("test", 1, size, size, size, DType::Bf16, DType::Bf16); }

TEST(Gemm, CountsTwoFlopsForEachMultiplyAdd) {
  const Operator op = gemm("test", 3, 4, 5, 6, DType::Bf16, DType::Fp32);
  EXPECT_DOUBLE_EQ(op.flops.value(), 3 * 2.0 * 4 * 5 * 6);
  EXPECT_DOUBLE_EQ(op.moved.value(), 3 * (2.0 * (4 * 6 + 6 * 5) + 4.0 * 4 * 5));
}

TEST(Gemm, AnIdealDeviceRunsAtItsPeak) {
  // 2 * 4096^3 FLOP at 100 TFLOP/s.
  const double expected = 2.0 * 4096 * 4096 * 4096 / 100e12;
  EXPECT_NEAR(gemm_time(square(4096), gemm_machine(ideal_device(), DType::Bf16)).value(), expected, 1e-3 * expected);
}

TEST(Gemm, SkinnyGemmsAreBoundByMemory) {
  // One row: the weights pass once, 2 * 8192^2 bytes at 1 TB/s; tiles that are nearly empty add less than a quarter.
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
  // 128 x 128 tiles: 10 x 20 = 200 tiles are two waves, 10 x 20 + 10 are three for every tile shape tried or worse than 2.
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

TEST(Gemm, MisalignedBatchesHaveARateOfTheirOwn) {
  GemmMachine machine = gemm_machine(ideal_device(), DType::Bf16);
  machine.coefficients.misaligned_factor = 0.5;
  machine.coefficients.misaligned_batch_factor = 0.1;
  machine.bandwidth = BytesPerSecond(1e18);
  const auto time = [&](std::int64_t batch, std::int64_t k) {
    return gemm_time(gemm("scores", batch, 2048, 2048, k, DType::Bf16, DType::Bf16), machine).value() /
           static_cast<double>(batch * k);
  };
  // Heads of 108 are no multiple of 8 elements, heads of 104 are.
  EXPECT_NEAR(time(64, 108) / time(64, 104), 10.0, 1e-6);
  EXPECT_NEAR(time(1, 108) / time(1, 104), 2.0, 1e-6);
}

TEST(Gemm, RowsOfExpertsNeedNoAlignment) {
  GemmMachine machine = gemm_machine(ideal_device(), DType::Bf16);
  machine.coefficients.misaligned_batch_factor = 0.5;
  Operator rows = gemm("", 4, 129, 1024, 1024, DType::Bf16, DType::Bf16);
  const Seconds odd = gemm_time(rows, machine);
  rows.ragged = true;
  EXPECT_LT(gemm_time(rows, machine), odd);
  Operator gradient = gemm("", 4, 1024, 1024, 129, DType::Bf16, DType::Bf16);
  gradient.ragged = true;
  EXPECT_EQ(gemm_time(gradient, machine), gemm_time(gemm("", 4, 1024, 1024, 129, DType::Bf16, DType::Bf16), machine));
  gradient.weight_gradient = true;
  EXPECT_LT(gemm_time(gradient, machine), gemm_time(gemm("", 4, 1024, 1024, 129, DType::Bf16, DType::Bf16), machine));
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
  // 132 units, 128 x 256 tiles: 32 x 16 = 512 of them, 3.88 waves that cost 3.94 where half of the rest is lost.
  Device device = ideal_device();
  device.compute_units = 132;
  GemmMachine machine = gemm_machine(device, DType::Bf16);
  machine.bandwidth = BytesPerSecond(1e18);
  machine.coefficients = {.max_efficiency = 0.8, .k_half = 256.0, .wave_quantisation = 0.5, .kernel_time = Seconds(0.0)};
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
  EXPECT_NEAR(gemm_factors(rows, gemm_machine(ideal_device(), DType::Bf16)).padding, 500.0 / 512.0, 1e-12);
}

}  // namespace
}  // namespace llmsim::sim
