#include "calibrate/gemm_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using sim::DType;

sim::GemmMachine machine() {
  return {.peak = 1000.0 * sim::TFLOPS,
          .compute_units = 132,
          .bandwidth = 3.0 * sim::TBps,
          .coefficients = {.max_efficiency = 0.82,
                           .k_half = 150.0,
                           .wave_quantisation = 0.3,
                           .misaligned_factor = 0.6,
                           .alignment = 8,
                           .weight_gradient_factor = 0.9,
                           .kernel_time = sim::Seconds(4e-6)}};
}

// Times of the formula with 5 % noise, and one shape in 20 twice as slow.
std::vector<GemmSample> noisy_samples(DType dtype, double seconds_per_quantised) {
  std::mt19937 generator(7);
  std::normal_distribution<double> noise(0.0, 0.05);
  std::vector<GemmSample> samples;
  for (const int m : {256, 1024, 4096, 8192}) {
    for (const int n : {1024, 3072, 5120, 8192}) {
      for (const int k : {512, 1024, 4096, 12288}) {
        GemmSample sample{sim::gemm("planted", 1, m, n, k, dtype, DType::Bf16), {}};
        if (seconds_per_quantised > 0.0) sample.quantised = 1.0 * m * k;
        sample.time = gemm_time(sample.gemm, machine()) +
                      sim::Seconds(sample.quantised * seconds_per_quantised);
        if (seconds_per_quantised > 0.0) sample.time += sim::Seconds(8e-6);
        sample.time *= std::exp(noise(generator)) * (samples.size() % 20 == 19 ? 2.0 : 1.0);
        samples.push_back(sample);
      }
    }
  }
  return samples;
}

double error_of(const GemmFit& fit, const std::string& name) {
  for (const FittedValue& value : fit.values) {
    if (value.name == name) return value.standard_error;
  }
  return 0.0;
}

TEST(GemmFit, RecoversPlantedCoefficientsWithinTheirErrors) {
  const GemmFit fit = fit_gemm(machine(), {}, noisy_samples(DType::Bf16, 0.0));
  EXPECT_NEAR(fit.coefficients.max_efficiency, 0.82, 3.0 * error_of(fit, "max_efficiency"));
  EXPECT_NEAR(fit.coefficients.k_half, 150.0, 3.0 * error_of(fit, "k_half"));
  EXPECT_NEAR(fit.coefficients.wave_quantisation, 0.3, 3.0 * error_of(fit, "wave_quantisation"));
  EXPECT_NEAR(fit.coefficients.kernel_time.value(), 4e-6, 3.0 * error_of(fit, "kernel_time_s"));
  EXPECT_LT(error_of(fit, "max_efficiency"), 0.05);
}

TEST(GemmFit, TakesTheQuantisationOfLowPrecisionInputsOut) {
  // 2 times 3 bytes per element at 3 TB/s.
  const GemmFit fit = fit_gemm(machine(), {}, noisy_samples(DType::Fp8, 2.0 * 3.0 / 3e12));
  EXPECT_NEAR(fit.coefficients.max_efficiency, 0.82, 3.0 * error_of(fit, "max_efficiency"));
  EXPECT_LT(error_of(fit, "max_efficiency"), 0.05);
}

TEST(GemmFit, HoldsCoefficientsWithoutSpread) {
  GemmPrior prior;
  prior.k_half = {150.0, 0.0};
  prior.wave_quantisation = {0.3, 0.0};
  prior.kernel_time = {4e-6, 0.0};
  const std::vector<GemmSample> one{
      {sim::gemm("one", 1, 4096, 4096, 4096, DType::Bf16, DType::Bf16), {}}};
  std::vector<GemmSample> samples = one;
  samples[0].time = 2.0 * gemm_time(one[0].gemm, machine());
  const GemmFit fit = fit_gemm(machine(), prior, samples);
  ASSERT_EQ(fit.values.size(), 1u);
  // Twice the time at all but the same shape of the curve: about half the efficiency.
  EXPECT_NEAR(fit.coefficients.max_efficiency, 0.41, 0.01);
  EXPECT_EQ(fit.coefficients.k_half, 150.0);
}

TEST(GemmFit, NeedsSamples) { EXPECT_THROW(fit_gemm(machine(), {}, {}), Error); }

}  // namespace
}  // namespace llmsim::calibrate
