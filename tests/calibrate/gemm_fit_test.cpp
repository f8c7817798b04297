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

constexpr GemmPrior held() {
  GemmPrior prior;
  prior.max_efficiency = {0.82, 0.0};
  prior.k_half = {150.0, 0.0};
  prior.wave_quantisation = {0.3, 0.0};
  prior.kernel_time = {4e-6, 0.0};
  prior.weight_gradient_factor = {0.9, 0.0};
  return prior;
}

// A sample of one shape that takes e^error times what is planted.
GemmSample sample_of(int m, int n, int k, double error) {
  GemmSample sample{sim::gemm("one", 1, m, n, k, DType::Bf16, DType::Bf16), {}};
  sample.time = std::exp(error) * gemm_time(sample.gemm, machine());
  return sample;
}

// A prior of 0.08, as wide as the usual misfit, weighs as much as one sample.
TEST(GemmFit, ASampleOfThePriorsWeightGoesHalfWay) {
  GemmPrior prior = held();
  prior.max_efficiency.spread = 0.08;
  const std::vector large{sample_of(8192, 8192, 8192, 0.2)};
  EXPECT_NEAR(std::log(fit_gemm(machine(), prior, large).coefficients.max_efficiency / 0.82), -0.1,
              2e-3);
  prior = held();
  prior.weight_gradient_factor.spread = 0.16;  // a quarter of the weight: 4 / 5 of the way
  std::vector gradient{sample_of(8192, 8192, 8192, 0.0)};
  gradient[0].gemm.weight_gradient = true;
  gradient[0].time = std::exp(0.2) * gemm_time(gradient[0].gemm, machine());
  EXPECT_NEAR(
      std::log(fit_gemm(machine(), prior, gradient).coefficients.weight_gradient_factor / 0.9),
      -0.16, 2e-3);
  prior = held();
  prior.transposed_factor.spread = 0.08;
  std::vector transposed{sample_of(8192, 8192, 8192, 0.0)};
  transposed[0].gemm.transposed = true;
  transposed[0].time = std::exp(0.2) * gemm_time(transposed[0].gemm, machine());
  EXPECT_NEAR(std::log(fit_gemm(machine(), prior, transposed).coefficients.transposed_factor), -0.1,
              2e-3);
  // Launches alone take time.
  prior = held();
  prior.kernel_time.spread = 0.08;
  const std::vector tiny{sample_of(8, 8, 8, 0.2)};
  EXPECT_NEAR(std::log(fit_gemm(machine(), prior, tiny).coefficients.kernel_time.value() / 4e-6),
              0.1, 0.02);
}

// Sixteen shapes a hundredth above or below: the error of their mean is 0.08 / 4 at least; a fifth
// above or below it is 0.2 / 4.
TEST(GemmFit, StandardErrorsAssumeTheUsualMisfitAtLeast) {
  const auto relative_error = [](double misfit) {
    GemmPrior prior = held();
    prior.max_efficiency.spread = 1e3;
    std::vector<GemmSample> samples;
    for (int i = 0; i < 16; ++i)
      samples.push_back(sample_of(8192, 8192, 8192, i % 2 ? misfit : -misfit));
    const GemmFit fit = fit_gemm(machine(), prior, samples);
    return error_of(fit, "max_efficiency") / fit.coefficients.max_efficiency;
  };
  EXPECT_NEAR(relative_error(0.01), 0.02, 2e-4);
  EXPECT_NEAR(relative_error(0.2), 0.05, 5e-4);
}

// Large are those of 1024 and more either way.
TEST(GemmFit, ErrorsOfLargeGemmsStandBesideThoseOfAll) {
  GemmPrior prior = held();
  prior.max_efficiency.spread = 1e3;
  std::vector<GemmSample> samples;
  for (const double sign : {-1.0, 1.0}) {
    samples.push_back(sample_of(1024, 2048, 4096, 0.1 * sign));
    samples.push_back(sample_of(4096, 1024, 2048, 0.1 * sign));
    samples.push_back(sample_of(8192, 8192, 1023, 0.15 * sign));
  }
  const GemmFit fit = fit_gemm(machine(), prior, samples);
  EXPECT_NEAR(fit.rms, std::sqrt((4.0 * 0.01 + 2.0 * 0.0225) / 6.0), 1e-3);
  EXPECT_NEAR(fit.rms_large.value(), 0.1, 1e-3);
  EXPECT_EQ(fit.samples, 6u);
  EXPECT_FALSE(fit_gemm(machine(), prior, std::vector{sample_of(8192, 8192, 1023, 0.0)}).rms_large);
  const std::vector<double> errors = gemm_log_errors(machine(), samples);
  ASSERT_EQ(errors.size(), 6u);
  EXPECT_NEAR(errors[0], 0.1, 1e-12);  // predicted over measured
  EXPECT_NEAR(errors[5], -0.15, 1e-12);
}

TEST(GemmFit, APriorFromAFitHoldsItsShape) {
  GemmFit fit;
  fit.coefficients = machine().coefficients;
  const GemmPrior prior = prior_from(fit, 0.3);
  EXPECT_EQ(prior.max_efficiency.value, 0.82);
  EXPECT_EQ(prior.max_efficiency.spread, GemmPrior{}.max_efficiency.spread);
  for (const auto& [belief, value] : {std::pair(prior.k_half, 150.0),
                                      {prior.wave_quantisation, 0.3},
                                      {prior.kernel_time, 4e-6}}) {
    EXPECT_EQ(belief.value, value);
    EXPECT_EQ(belief.spread, 0.3);
  }
}

// 10 us at once and 4 times 3 bytes for each element.
TEST(GemmFit, QuantisationIsALaunchAndItsBytes) {
  std::vector<GemmSample> samples;
  for (const int m : {1024, 2048, 4096, 8192}) {
    for (const int k : {1024, 8192}) {
      GemmSample sample{sim::gemm("", 1, m, 4096, k, DType::Fp8, DType::Bf16), {}};
      sample.quantised = 1.0 * m * k;
      sample.time = gemm_time(sample.gemm, machine()) + 10.0 * sim::us +
                    4.0 * sim::Bytes(3.0 * sample.quantised) / machine().bandwidth;
      samples.push_back(sample);
    }
  }
  GemmPrior prior = held();
  prior.max_efficiency = {0.6, 1.0};
  const GemmFit fit = fit_gemm(machine(), prior, samples);
  ASSERT_EQ(fit.values.size(), 1u);  // what is dropped has no name there
  EXPECT_NEAR(fit.coefficients.max_efficiency, 0.82, 0.01);
  EXPECT_LT(fit.rms, 0.01);
}

TEST(GemmFit, NeedsSamples) { EXPECT_THROW(fit_gemm(machine(), {}, {}), Error); }

}  // namespace
}  // namespace llmsim::calibrate
