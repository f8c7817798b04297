#include "sim/operators/loss.h"

#include <gtest/gtest.h>

#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// t = 1024 tokens, V = 32768, h = 1024.
constexpr double kVocab = 32768.0;

TrainingRun fused_run(FusedLoss kind, int chunks = 0) {
  TrainingRun run = small_run();
  run.strategy.fused_cross_entropy = true;
  run.framework.loss.fused = kind;
  run.framework.loss.chunks = chunks;
  return run;
}

LossOperators loss_of(const TrainingRun& run) { return lower_loss(run.model, run.strategy, run.framework, 1024); }

TEST(Loss, ChunksFollowTheRuleOfLiger) {
  Transformer model = small_model();
  model.vocab_size = 128256, model.hidden_size = 4096;
  const Framework framework;
  // V / h = 31.3: 32 parts of 256 tokens; of 5000 tokens parts of 157, rounded up to 256.
  EXPECT_EQ(loss_chunks(model, framework, 8192), 32);
  EXPECT_EQ(loss_chunks(model, framework, 5000), 20);
}

TEST(Loss, AFrameworkMayFixTheChunksUpToOneTokenEach) {
  Framework framework;
  framework.loss.chunks = 8;
  EXPECT_EQ(loss_chunks(small_model(), framework, 8192), 8);
  EXPECT_EQ(loss_chunks(small_model(), framework, 3), 3);
}

TEST(Loss, PlainLogitsLiveInSixteenAndTwiceThirtyTwoBits) {
  EXPECT_DOUBLE_EQ(loss_of(small_run()).working.value(), kTokens * kVocab * (2.0 + 4.0 + 4.0));
}

TEST(Loss, WithoutAnUpcastTheGradientStandsBesideTheLogitsOrInTheirPlace) {
  TrainingRun run = small_run();
  run.framework.loss.fp32_logits = false;
  EXPECT_DOUBLE_EQ(loss_of(run).working.value(), kTokens * kVocab * (2.0 + 2.0));
  run.framework.loss.gradient_in_place = true;
  EXPECT_DOUBLE_EQ(loss_of(run).working.value(), kTokens * kVocab * 2.0);
}

TEST(Loss, FusedKernelsHandOnACopyOfWholeLogits) {
  EXPECT_DOUBLE_EQ(loss_of(fused_run(FusedLoss::Kernel)).working.value(), kTokens * kVocab * (2.0 + 4.0 + 4.0));
}

TEST(Loss, ChunkedUpcastsKeepSixteenBitLogitsAndTheirGradient) {
  // 2 + 2 bytes whole, 4 + 4 bytes of one chunk in eight.
  EXPECT_DOUBLE_EQ(loss_of(fused_run(FusedLoss::Logits, 8)).working.value(), kTokens * kVocab * (2.0 + 2.0 + 8.0 / 8.0));
}

TEST(Loss, GradientsInTheForwardPassWaitForTheBackwardPass) {
  // One chunk in 32 of 16-bit logits, their fp32 copy and the 16-bit gradient; the head's gradient and its input's.
  const double chunk = kTokens * kVocab / 32.0 * (2.0 + 4.0 + 2.0);
  const double waiting = (kVocab * kHidden + kTokens * kHidden) * 2.0;
  EXPECT_DOUBLE_EQ(loss_of(fused_run(FusedLoss::Gradient)).working.value(), chunk + waiting);
}

// Autograd multiplies them by the gradient of the loss: read and write of 2 bytes.
TEST(Loss, OnlyAutogradScalesTheGradientsThatWaited) {
  TrainingRun run = fused_run(FusedLoss::Gradient);
  const OperatorList scaled = loss_of(run).backward;
  ASSERT_EQ(scaled.size(), 1u);
  EXPECT_DOUBLE_EQ(scaled[0].moved.value(), (kVocab * kHidden + kTokens * kHidden) * 4.0);
  run.framework.loss.scales_gradients = false;
  EXPECT_TRUE(loss_of(run).backward.empty());
}

TEST(Loss, GradientsInTheForwardPassLeaveNoGemmForTheBackwardPass) {
  const LossOperators plain = loss_of(small_run()), fused = loss_of(fused_run(FusedLoss::Gradient));
  const double gemm = 2.0 * kTokens * kVocab * kHidden;
  EXPECT_DOUBLE_EQ(total_flops(plain.forward).value(), gemm);
  EXPECT_DOUBLE_EQ(total_flops(plain.backward).value(), 2.0 * gemm);
  EXPECT_DOUBLE_EQ(total_flops(fused.forward).value(), 3.0 * gemm);
  EXPECT_EQ(total_flops(fused.backward).value(), 0.0);
}

TEST(Loss, EveryChunkReadsAndWritesTheHeadsGradient) {
  const auto moved = [](int chunks) {
    Bytes sum;
    for (const Operator& op : loss_of(fused_run(FusedLoss::Gradient, chunks)).forward) {
      if (op.kind == OperatorKind::Gemm) sum += op.moved;
    }
    return sum.value();
  };
  // A chunk reads the weights twice (logits, input gradient) and reads and writes the gradient: 4 * 2 V h bytes.
  EXPECT_DOUBLE_EQ(moved(32) - moved(16), 16.0 * 4.0 * 2.0 * kVocab * kHidden);
}

TEST(Loss, ACheckpointedChunkMakesItsLogitsTwice) {
  TrainingRun run = fused_run(FusedLoss::Recomputed, 8);
  EXPECT_DOUBLE_EQ(total_flops(loss_of(run).recompute).value(), 2.0 * kTokens * kVocab * kHidden);
  const Prediction once = predict(small_run()), twice = predict(run);
  EXPECT_EQ(twice.model_flops, once.model_flops);
  EXPECT_DOUBLE_EQ((twice.hardware_flops - twice.model_flops).value(), 8.0 * 2.0 * kTokens * kVocab * kHidden);
  EXPECT_GT(twice.step_time, once.step_time);
}

TEST(Loss, AFrozenHeadHasNoWeightGradient) {
  TrainingRun run = fused_run(FusedLoss::Gradient);
  run.strategy.adapters = Adapters{.rank = 8};
  EXPECT_DOUBLE_EQ(total_flops(loss_of(run).forward).value(), 2.0 * 2.0 * kTokens * kVocab * kHidden);
}

}  // namespace
}  // namespace llmsim::sim
