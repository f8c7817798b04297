#include "sim/operators/linear.h"

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

constexpr std::int64_t kInputTokens = 512, kOut = 256, kIn = 128;
constexpr double kInputs = 512.0 * 128, kGradients = 512.0 * 256, kWeights = 256.0 * 128;

LayerOperators lowered(const Framework& framework, Precision precision, bool requantises = false) {
  return lower_linear({.precision = precision,
                       .framework = &framework,
                       .adapters = {},
                       .requantises_weights = requantises},
                      "linear", kInputTokens, kOut, kIn);
}

double cast_bytes(const OperatorList& operators) {
  double sum = 0.0;
  for (const Operator& op : operators)
    sum += op.kind == OperatorKind::Cast ? op.moved.value() : 0.0;
  return sum;
}

Framework framework_with(LowPrecisionScaling scaling) {
  Framework framework;
  framework.low_precision.scaling = scaling;
  return framework;
}

TEST(Linear, DelayedScalesCastAndTransposeInOnePass) {
  // Read 2 bytes, write two low-precision copies of 1.
  const LayerOperators linear =
      lowered(framework_with(LowPrecisionScaling::Delayed), Precision::Fp8);
  EXPECT_DOUBLE_EQ(cast_bytes(linear.forward), 4.0 * (kInputs + kWeights));
  EXPECT_DOUBLE_EQ(cast_bytes(linear.backward), 4.0 * kGradients);
}

TEST(Linear, CurrentScalesReadEverythingOnceMore) {
  const LayerOperators linear =
      lowered(framework_with(LowPrecisionScaling::Current), Precision::Fp8);
  EXPECT_DOUBLE_EQ(cast_bytes(linear.forward), 6.0 * (kInputs + kWeights));
  EXPECT_DOUBLE_EQ(cast_bytes(linear.backward), 6.0 * kGradients);
}

// Half a byte and a share of 4 / 64 of a scale are read for a value, 2 are written: for the forward
// GEMM, and again for that of the input's gradient.
TEST(Linear, WeightsOfFourBitsAreMadeWideBeforeEachGemm) {
  const Framework framework;
  const auto lowered_with = [&](Precision precision, std::optional<Adapters> adapters) {
    return lower_linear(
        {.precision = precision, .framework = &framework, .adapters = std::move(adapters)},
        "linear", kInputTokens, kOut, kIn);
  };
  for (const Precision precision : {Precision::Nf4, Precision::Int4}) {
    const LayerOperators linear = lowered_with(precision, Adapters{.rank = 8});
    EXPECT_DOUBLE_EQ(cast_bytes(linear.forward), 2.5625 * kWeights);
    EXPECT_DOUBLE_EQ(cast_bytes(linear.backward), 2.5625 * kWeights);
  }
  EXPECT_DOUBLE_EQ(cast_bytes(lowered_with(Precision::Bf16, Adapters{.rank = 8}).forward), 0.0);
  EXPECT_DOUBLE_EQ(cast_bytes(lowered_with(Precision::Nf4, std::nullopt).forward), 0.0);
}

TEST(Linear, OneCopyIsEnoughWhereTheDeviceMultipliesInAnyLayout) {
  Framework framework = framework_with(LowPrecisionScaling::Current);
  framework.low_precision.copies = 1.0;
  EXPECT_DOUBLE_EQ(cast_bytes(lowered(framework, Precision::Fp8).backward), 5.0 * kGradients);
}

TEST(Linear, ASlowCastAlongRowsSlowsHalfOfACompiledBlockCast) {
  Framework framework;
  framework.fusion = ElementwiseFusion::Compiled;
  framework.low_precision.row_cast_rate = 0.5;
  // 2 + 1 bytes along rows at half the rate and 2 + 1 along columns: 6 bytes take the time of 6 +
  // 3, those of scales beside them.
  const LayerOperators linear = lowered(framework, Precision::Mxfp8);
  EXPECT_DOUBLE_EQ(cast_bytes(linear.backward), (6.0 + 2.0 / 32.0) * kGradients);
  EXPECT_DOUBLE_EQ(linear.backward.front().rate, 6.0 / 9.0);
}

TEST(Linear, RowwiseScalesCastAlongBothAxesAndScaleBackwardOutputs) {
  // Rows 2 + 1, columns 2 and 2 + 1; outputs of both backward GEMMs are read and written in 16
  // bits.
  const LayerOperators linear =
      lowered(framework_with(LowPrecisionScaling::Rowwise), Precision::Fp8);
  EXPECT_DOUBLE_EQ(cast_bytes(linear.forward), 8.0 * (kInputs + kWeights));
  EXPECT_DOUBLE_EQ(cast_bytes(linear.backward), 8.0 * kGradients + 4.0 * (kInputs + kWeights));
}

TEST(Linear, HighPrecisionWeightGradientsMultiplyIn16BitsAndSpareTheColumns) {
  const LayerOperators linear =
      lowered(framework_with(LowPrecisionScaling::RowwiseHighPrecisionGradient), Precision::Fp8);
  EXPECT_DOUBLE_EQ(cast_bytes(linear.forward), 3.0 * kInputs + 8.0 * kWeights);
  EXPECT_DOUBLE_EQ(cast_bytes(linear.backward), 3.0 * kGradients + 4.0 * kInputs);
  EXPECT_EQ(linear.backward.back().dtype, DType::Bf16);
}

TEST(Linear, BlockScalesBelongToTheFormat) {
  // Along each axis read 2 and write 1 and a scale of a byte for 32; a hand-written kernel reads
  // once for both.
  Framework framework = framework_with(LowPrecisionScaling::Delayed);
  EXPECT_DOUBLE_EQ(cast_bytes(lowered(framework, Precision::Mxfp8).backward),
                   (6.0 + 2.0 / 32.0) * kGradients);
  framework.fusion = ElementwiseFusion::Fused;
  const OperatorList backward = lowered(framework, Precision::Mxfp8).backward;
  EXPECT_DOUBLE_EQ(cast_bytes(backward), (4.0 + 2.0 / 32.0) * kGradients);
  EXPECT_EQ(backward.front().kernels, 1);
}

TEST(Linear, Nvfp4ReadsTheMaximaOfATensorAndItsTransformFirst) {
  // Read 2; read 2, write half a byte and a scale of a byte for 16, twice.
  Framework framework = framework_with(LowPrecisionScaling::Delayed);
  framework.fusion = ElementwiseFusion::Fused;
  const OperatorList backward = lowered(framework, Precision::Nvfp4).backward;
  EXPECT_DOUBLE_EQ(cast_bytes(backward), (2.0 + 2.0 + 2.0 * (0.5 + 1.0 / 16.0)) * kGradients);
  EXPECT_EQ(backward.front().kernels, 2);
}

TEST(Linear, BlockwiseScalesAreThoseOfTilesAndOfBlocksOfWeights) {
  Framework framework = framework_with(LowPrecisionScaling::Blockwise);
  framework.fusion = ElementwiseFusion::Fused;
  const LayerOperators linear = lowered(framework, Precision::Fp8);
  EXPECT_DOUBLE_EQ(cast_bytes(linear.backward), (2.0 + 2.0 * (1.0 + 4.0 / 128.0)) * kGradients);
  EXPECT_DOUBLE_EQ(cast_bytes(linear.forward), (2.0 + 2.0 * (1.0 + 4.0 / 128.0)) * kInputs +
                                                   (2.0 + 2.0 * (1.0 + 4.0 / 16384.0)) * kWeights);
}

TEST(Linear, SavedLowPrecisionInputsKeepTheirScales) {
  Framework framework = framework_with(LowPrecisionScaling::Blockwise);
  framework.low_precision.saves_inputs = true;
  const auto bytes = [&](Precision precision) {
    return linear_input_bytes({.precision = precision, .framework = &framework, .adapters = {}});
  };
  EXPECT_DOUBLE_EQ(bytes(Precision::Bf16), 2.0);
  EXPECT_DOUBLE_EQ(bytes(Precision::Fp8), 1.0 + 4.0 / 128.0);
  EXPECT_DOUBLE_EQ(bytes(Precision::Mxfp8), 1.0 + 1.0 / 32.0);
  EXPECT_DOUBLE_EQ(bytes(Precision::Nvfp4), 0.5 + 1.0 / 16.0);
}

Operator expert_gemm(const Framework& framework, Precision precision) {
  const ExpertRows group{
      .experts = 4, .busy = 4, .rows = 400, .rows_per_expert = 100, .one_kernel = true};
  const LayerWeight weight{.name = WeightName::ExpertUp, .rows = 128, .columns = 256};
  return lower_expert_linear({.precision = precision, .framework = &framework, .adapters = {}},
                             weight, group)
      .forward.back();
}

TEST(Linear, RowsOfLowPrecisionExpertsArePaddedByHalfAMultiple) {
  Framework framework = framework_with(LowPrecisionScaling::Current);
  EXPECT_EQ(expert_gemm(framework, Precision::Bf16).m, 100);
  EXPECT_EQ(expert_gemm(framework, Precision::Fp8).m, 108);
  EXPECT_EQ(expert_gemm(framework, Precision::Mxfp8).m, 116);
  framework.low_precision.scaling = LowPrecisionScaling::Blockwise;
  const Operator blockwise = expert_gemm(framework, Precision::Fp8);
  EXPECT_EQ(blockwise.m, 164);
  EXPECT_DOUBLE_EQ(blockwise.flops.value(), 2.0 * 400 * 256 * 128);  // padding is no useful work
  EXPECT_DOUBLE_EQ(blockwise.moved.value(),
                   4.0 * 164 * 128 + 4.0 * 256 * 128 + 2.0 * 4 * 164 * 256);
}

TEST(Linear, WeightsAreQuantisedOnceAStepOnceAPassOrTwice) {
  Framework framework = framework_with(LowPrecisionScaling::Delayed);
  EXPECT_DOUBLE_EQ(cast_bytes(lowered(framework, Precision::Fp8, true).backward),
                   4.0 * (kGradients + kWeights));
  framework.low_precision.caches_weights = true;
  EXPECT_DOUBLE_EQ(cast_bytes(lowered(framework, Precision::Fp8, true).forward), 4.0 * kInputs);
  EXPECT_DOUBLE_EQ(cast_bytes(lowered(framework, Precision::Fp8, true).backward), 4.0 * kGradients);
}

}  // namespace
}  // namespace llmsim::sim
