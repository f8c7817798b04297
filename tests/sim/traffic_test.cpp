#include "sim/operators/traffic.h"

#include <gtest/gtest.h>

#include <vector>

// Evaluates the formulas and tables that traffic.h states, with e = 2 bytes for an activation, 4 for
// an fp32 value and 1 for a mask.
namespace llmsim::sim {
namespace {

constexpr double e = 2.0;

Framework with(ElementwiseFusion fusion) {
  Framework framework;
  framework.fusion = fusion;
  return framework;
}

const Framework kEager = with(ElementwiseFusion::Eager), kFused = with(ElementwiseFusion::Fused),
                kCompiled = with(ElementwiseFusion::Compiled);

void expect_bytes(const Traffic& traffic, double forward, double backward) {
  EXPECT_DOUBLE_EQ(traffic.forward.bytes, forward);
  EXPECT_DOUBLE_EQ(traffic.backward.bytes, backward);
}

void expect_written(const Traffic& traffic, double bytes, int kernels) {
  EXPECT_DOUBLE_EQ(traffic.forward.bytes, bytes);
  EXPECT_EQ(traffic.forward.kernels, kernels);
  EXPECT_DOUBLE_EQ(traffic.backward.bytes, 0.0);
  EXPECT_EQ(traffic.backward.kernels, 0);
}

TEST(Traffic, OfNorms) {
  Framework in_fp32 = kEager;
  in_fp32.norms_in_fp32 = true;
  expect_bytes(norm_traffic(Norm::RmsNorm, kFused, e), 2 * e, 3 * e);
  expect_bytes(norm_traffic(Norm::LayerNorm, kFused, e), 2 * e, 3 * e);
  expect_bytes(norm_traffic(Norm::LayerNorm, kEager, e), 2 * e, 5 * e);
  expect_bytes(norm_traffic(Norm::LayerNorm, in_fp32, e), 2 * e + 4 * 4, 2 * e + 7 * 4);
  expect_bytes(norm_traffic(Norm::RmsNorm, kEager, e), 5 * e + 6 * 4, 6 * e + 10 * 4);
}

TEST(Traffic, OfActivations) {
  Framework composed = kEager, saves_fp8 = kFused;
  composed.composed_activation = true;
  saves_fp8.saved.fp8_activation_inputs = true;
  expect_bytes(activation_traffic(false, kFused, e), 2 * e, 3 * e);
  expect_bytes(activation_traffic(false, composed, e), 18 * e, 28 * e);
  EXPECT_EQ(activation_traffic(false, composed, e).forward.kernels, 8);
  composed.casts_weights_per_microbatch = true;
  expect_bytes(activation_traffic(false, composed, e), 18 * 4.0, 28 * 4.0);
  expect_bytes(activation_traffic(true, kFused, e), 3 * e, 5 * e);
  expect_bytes(activation_traffic(true, kEager, e), 2 * e + 3 * e, 9 * e);
  expect_bytes(activation_traffic(true, saves_fp8, e), 3 * e + 2 * (e + 1), 5 * e + 2 * (e + 1));
}

TEST(Traffic, OfRotaryPositions) {
  expect_bytes(rotary_traffic(kFused, e), 2 * e, 2 * e);
  expect_bytes(rotary_traffic(kEager, e), 10 * e, 12 * e);
}

TEST(Traffic, OfResiduals) {
  Framework fused = kFused, eager = kEager;
  expect_bytes(residual_traffic(fused, e), 3 * e, 3 * e);
  fused.dropout = eager.dropout = 0.1;
  expect_bytes(residual_traffic(fused, e), 3 * e + 1, 5 * e + 1);
  expect_bytes(residual_traffic(eager, e), 5 * e + 1, 5 * e + 1);
}

TEST(Traffic, OfUnfusedSoftmax) {
  Framework dropout = kFused, in_format = kEager;
  dropout.dropout = 0.1;
  in_format.softmax_in_fp32 = false;
  expect_bytes(softmax_traffic(kFused, e), 2 * e, 3 * e);
  expect_bytes(softmax_traffic(kFused, e, false), 4 * e + 2 * 4 + 2 * (e + 4),
               4 * e + 3 * 4 + 2 * (e + 4));
  expect_bytes(softmax_traffic(kEager, e), 4 * e + 2 * 4 + 2 * (e + 4),
               4 * e + 3 * 4 + 2 * (e + 4));
  expect_bytes(softmax_traffic(in_format, e), 4 * e + 2 * e, 4 * e + 3 * e);
  expect_bytes(softmax_traffic(dropout, e), 4 * e + 1, 5 * e + 1);
}

TEST(Traffic, OfPositionsAndLayouts) {
  expect_bytes(position_bias_traffic(kEager, e), 3 * e, 0.0);
  expect_bytes(position_bias_traffic(kFused, e), 2 * e, 0.0);
  expect_bytes(layout_traffic(kEager, e), 2 * e, 2 * e);
  expect_bytes(layout_traffic(kFused, e), 0.0, 0.0);
}

TEST(Traffic, OfMixturesOfExperts) {
  expect_bytes(router_traffic(kFused, e), e + 2 * 4, e + 2 * 4);
  expect_bytes(router_traffic(kEager, e), e + 4 * 4, e + 5 * 4);
  EXPECT_EQ(router_traffic(kEager, e).forward.kernels, 6);
  expect_bytes(permutation_traffic(e), 2 * e, 2 * e);
  expect_bytes(combination_traffic(kEager, e, 8), 3 * e, 4 * e + 2 * e);
  expect_bytes(combination_traffic(kFused, e, 8), e + e / 8, 2 * e + e / 8);
  expect_bytes(weighted_bias_traffic(e, 4), 4 + (e + 4 + 4) + 8 + (4 + e),
               (e + 4) + (4 + e) + 2 * e + 2 * (8 + 4));
  expect_bytes(weighted_bias_traffic(e, 4), 24 + 2 * e, 32 + 4 * e);
}

TEST(Traffic, OfTheLoss) {
  Framework in_format = kEager;
  in_format.loss.fp32_logits = false;
  expect_bytes(cross_entropy_traffic(in_format, e), 2 * e, e + 3 * e);
  in_format.loss.gradient_in_place = true;
  expect_bytes(cross_entropy_traffic(in_format, e), 2 * e, 2 * e);
  expect_bytes(cross_entropy_traffic(kCompiled, e), 2 * e, 2 * e);
  expect_bytes(cross_entropy_traffic(kEager, e), e + 3 * 4, e + 5 * 4);
}

TEST(Traffic, OfQuantisationByRecipe) {
  constexpr double n = 1.0;
  Framework framework = kEager;
  framework.low_precision.copies = 2;
  const auto quantise = [&](LowPrecisionScaling scaling, bool weight) {
    return quantise_traffic(framework, scaling, weight, n);
  };
  expect_written(quantise(LowPrecisionScaling::Delayed, true), 2 + 2 * n, 2);
  expect_written(quantise(LowPrecisionScaling::Current, true), 4 + 2 * n, 3);
  expect_written(quantise(LowPrecisionScaling::Rowwise, false), (2 + n) + 2 + (2 + n), 3);
  expect_written(quantise(LowPrecisionScaling::RowwiseHighPrecisionGradient, false), 2 + n, 1);
  expect_written(quantise(LowPrecisionScaling::RowwiseHighPrecisionGradient, true), 6 + 2 * n, 3);
}

TEST(Traffic, OfQuantisationInBlocks) {
  constexpr double n = 0.5;
  Framework eager = kEager;
  eager.low_precision.row_cast_rate = 0.5;
  for (const bool weight : {false, true}) {
    for (const auto scaling : {LowPrecisionScaling::Blockwise, LowPrecisionScaling::Mxfp8}) {
      const double b = n + scale_bytes(scaling, weight);
      expect_written(quantise_traffic(kFused, scaling, weight, n), 2 + 2 * b, 1);
      expect_written(quantise_traffic(eager, scaling, weight, n), 4 + 2 * b, 2);
      EXPECT_DOUBLE_EQ(quantise_traffic(eager, scaling, weight, n).rate, 2.0 / (1.0 + 1.0 / 0.5));
      EXPECT_DOUBLE_EQ(quantise_traffic(kFused, scaling, weight, n).rate, 1.0);
    }
    const double b = n + scale_bytes(LowPrecisionScaling::Nvfp4, weight);
    expect_written(quantise_traffic(kFused, LowPrecisionScaling::Nvfp4, weight, n), 4 + 2 * b, 2);
    expect_written(quantise_traffic(eager, LowPrecisionScaling::Nvfp4, weight, n), 6 + 2 * b, 3);
  }
}

}  // namespace
}  // namespace llmsim::sim
