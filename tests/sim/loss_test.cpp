#include "sim/operators/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "sim/operators/embedding_and_head.h"
#include "sim/operators/layer_memory.h"
#include "sim/predict.h"
#include "tests/sim/operator_lists.h"
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

LayerOperators loss_of(const TrainingRun& run) {
  const LayerGraph head = lower_head(run.model, run.strategy, run.framework);
  return operators_where(head, [](const Operator& op) { return op.module != Module::Norm; });
}

// What is there of logits, their copies and gradients while the loss is computed, forward or
// backward.
Bytes working(TrainingRun run) {
  run.model.final_norm = false, run.framework.gradients.accumulated_by_gemm = true;
  const LayerGraph head = lower_head(run.model, run.strategy, run.framework);
  const PassBytes forward = forward_bytes(head, no_recomputation(head)),
                  backward = backward_bytes(head, no_recomputation(head));
  return std::max(forward.rise.logits + forward.rise.activations,
                  forward.net.logits + backward.rise.logits);
}

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
  EXPECT_DOUBLE_EQ(working(small_run()).value(), kTokens * kVocab * (2.0 + 4.0 + 4.0));
}

TEST(Loss, WithoutAnUpcastTheGradientStandsBesideTheLogitsOrInTheirPlace) {
  TrainingRun run = small_run();
  run.framework.loss.fp32_logits = false;
  // Logits, log-softmax, its gradient and that of the logits.
  EXPECT_DOUBLE_EQ(working(run).value(), kTokens * kVocab * 4.0 * 2.0);
  run.framework.fusion = ElementwiseFusion::Compiled;
  EXPECT_DOUBLE_EQ(working(run).value(), kTokens * kVocab * (2.0 + 2.0));
  run.framework.loss.gradient_in_place = true;
  EXPECT_DOUBLE_EQ(working(run).value(), kTokens * kVocab * 2.0);
}

TEST(Loss, FusedKernelsHandOnACopyOfWholeLogits) {
  EXPECT_DOUBLE_EQ(working(fused_run(FusedLoss::Kernel)).value(),
                   kTokens * kVocab * (2.0 + 4.0 + 4.0));
}

TEST(Loss, AKernelMayWriteTheGradientOverTheLogits) {
  TrainingRun run = fused_run(FusedLoss::Kernel);
  run.framework.loss.gradient_in_place = true;
  EXPECT_DOUBLE_EQ(working(run).value(), kTokens * kVocab * (2.0 + 4.0));
  run.framework.loss.fp32_logits = false;
  EXPECT_DOUBLE_EQ(working(run).value(), kTokens * kVocab * 2.0);
}

TEST(Loss, ChunkedUpcastsKeepSixteenBitLogitsAndTheirGradient) {
  // Forward 2 bytes whole and 4 + 4 of a chunk; backward 2 + 2 whole.
  EXPECT_DOUBLE_EQ(working(fused_run(FusedLoss::Logits, 2)).value(),
                   kTokens * kVocab * (2.0 + 8.0 / 2.0));
  EXPECT_DOUBLE_EQ(working(fused_run(FusedLoss::Logits, 8)).value(),
                   kTokens * kVocab * (2.0 + 2.0));
}

TEST(Loss, GradientsInTheForwardPassWaitForTheBackwardPass) {
  // One chunk in 32 of 16-bit logits, their fp32 copy and the 16-bit gradient; the head's gradient
  // and its input's.
  const double chunk = kTokens * kVocab / 32.0 * (2.0 + 4.0 + 2.0);
  const double waiting = (kVocab * kHidden + kTokens * kHidden) * 2.0;
  EXPECT_DOUBLE_EQ(working(fused_run(FusedLoss::Gradient)).value(), chunk + waiting);
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
  const LayerOperators plain = loss_of(small_run()),
                       fused = loss_of(fused_run(FusedLoss::Gradient));
  const double gemm = 2.0 * kTokens * kVocab * kHidden;
  EXPECT_DOUBLE_EQ(total_flops(plain.forward).value(), gemm);
  EXPECT_DOUBLE_EQ(total_flops(plain.backward).value(), 2.0 * gemm);
  EXPECT_DOUBLE_EQ(total_flops(fused.forward).value(), 3.0 * gemm);
  EXPECT_EQ(total_flops(fused.backward).value(), 0.0);
}

TEST(Loss, ACheckpointedChunkMakesItsLogitsTwice) {
  TrainingRun run = fused_run(FusedLoss::Recomputed, 8);
  EXPECT_DOUBLE_EQ(total_flops(loss_of(run).recompute).value(), 2.0 * kTokens * kVocab * kHidden);
  const Prediction once = predict(small_run()), twice = predict(run);
  EXPECT_EQ(twice.model_flops, once.model_flops);
  EXPECT_DOUBLE_EQ((twice.hardware_flops - twice.model_flops).value(),
                   8.0 * 2.0 * kTokens * kVocab * kHidden);
  EXPECT_GT(twice.step_time, once.step_time);
}

TEST(Loss, AFrozenHeadHasNoWeightGradient) {
  TrainingRun run = fused_run(FusedLoss::Gradient);
  run.strategy.adapters = Adapters{.rank = 8};
  EXPECT_DOUBLE_EQ(total_flops(loss_of(run).forward).value(),
                   2.0 * 2.0 * kTokens * kVocab * kHidden);
}

// The header's table of bytes: t = 1024 tokens, V/n columns, h = 1024, over formats, tensor ranks
// and numbers of chunks c.
TEST(Loss, HoldsWhatTheHeaderSays) {
  for (const auto& [precision, e] :
       {std::pair{Precision::Bf16, 2.0}, std::pair{Precision::Fp32, 4.0}}) {
    for (const int n : {1, 4}) {
      for (const int c : {1, 8, 32}) {
        const double logits = kTokens * kVocab / n, head = kVocab / n * kHidden * e;
        const auto bytes = [&, precision = precision](std::optional<FusedLoss> kind,
                                                      double copies) {
          TrainingRun run = kind ? fused_run(*kind, c) : small_run();
          run.strategy.precision = precision, run.strategy.tp = n;
          run.framework.loss.fp32_logit_copies = copies;
          run.framework.casts_weights_per_microbatch = false;
          return working(run).value();
        };
        for (const double k : {1.0, 2.0}) {
          EXPECT_DOUBLE_EQ(bytes(std::nullopt, k), logits * (e + 4 * k));
          EXPECT_DOUBLE_EQ(bytes(FusedLoss::Recomputed, k), logits * (e + 4 * k) / c + 2 * head);
        }
        EXPECT_DOUBLE_EQ(bytes(FusedLoss::Kernel, 2.0), logits * (e + 8));
        EXPECT_DOUBLE_EQ(bytes(FusedLoss::Logits, 2.0), logits * std::max(2 * e, e + 8.0 / c));
        const double chunk = e < 4 ? 2 * e + 4 : e;
        EXPECT_DOUBLE_EQ(bytes(FusedLoss::Gradient, 2.0),
                         logits * chunk / c + head + kTokens * kHidden * e);
      }
    }
  }
}

TEST(Loss, ACastOfTheHeadsWeightsWaitsWithTheGradients) {
  TrainingRun run = fused_run(FusedLoss::Gradient);
  run.framework.casts_weights_per_microbatch = false;
  const Bytes without = working(run);
  run.framework.casts_weights_per_microbatch = true;
  EXPECT_DOUBLE_EQ((working(run) - without).value(), kVocab * kHidden * 2.0);
}

// Chunk by chunk three values of 4 bytes for each token; where logits are made twice, twice.
TEST(Loss, TensorRanksSumThreeValuesOfEachToken) {
  for (const FusedLoss kind : {FusedLoss::Gradient, FusedLoss::Recomputed}) {
    TrainingRun run = fused_run(kind, 8);
    run.strategy.tp = 4;
    const LayerOperators loss = loss_of(run);
    for (const OperatorList* list : {&loss.forward, &loss.recompute}) {
      double bytes = 0.0, calls = 0.0;
      for (const Operator& op : *list) {
        if (op.kind != OperatorKind::Collective) continue;
        bytes += op.launches * op.message.value(), calls += op.launches;
      }
      const bool sums = list == &loss.forward || kind == FusedLoss::Recomputed;
      EXPECT_DOUBLE_EQ(bytes, sums ? 3.0 * kTokens * 4.0 : 0.0);
      EXPECT_DOUBLE_EQ(calls, sums ? 24.0 : 0.0);
    }
  }
}

// Each of c chunks reads V h weights for its logits and its input's gradient, and reads and writes
// their gradient; Recomputed makes the logits twice.
TEST(Loss, EveryChunkReadsTheWeightsAsOftenAsTheHeaderSays) {
  const auto moved = [](FusedLoss kind, int chunks) {
    const LayerOperators loss = loss_of(fused_run(kind, chunks));
    Bytes sum;
    for (const OperatorList& list : {loss.forward, loss.recompute, loss.backward}) {
      for (const Operator& op : list) sum += op.kind == OperatorKind::Gemm ? op.moved : Bytes(0.0);
    }
    return sum.value();
  };
  const double weights = 2.0 * kVocab * kHidden;
  EXPECT_DOUBLE_EQ(moved(FusedLoss::Gradient, 32) - moved(FusedLoss::Gradient, 16),
                   16.0 * (2.0 + 2.0) * weights);
  EXPECT_DOUBLE_EQ(moved(FusedLoss::Recomputed, 32) - moved(FusedLoss::Recomputed, 16),
                   16.0 * (3.0 + 2.0) * weights);
}

}  // namespace
}  // namespace llmsim::sim
