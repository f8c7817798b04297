#include "sim/strategy/recompute.h"

#include <gtest/gtest.h>

#include "sim/operators/block.h"
#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr double kTokens = 1024.0, kHidden = 1024.0;
constexpr double kUnit = 2.0 * kTokens * kHidden * kHidden;  // FLOP of a product with h^2 weights
constexpr double kRow = 2.0 * kTokens * kHidden;             // bytes of h values of each token

BlockOperators block_of(TrainingRun run, const char* recompute) {
  run.strategy.recompute = *recompute_from(recompute);
  return lower_block(run.model, run.strategy, run.stack, run.strategy.recompute.kind);
}

double product_flops(const OperatorList& operators) {
  double sum = 0.0;
  for (const Operator& op : operators) sum += op.kind == OperatorKind::Gemm ? op.flops.value() : 0.0;
  return sum;
}

int count_of(const OperatorList& operators, OperatorKind kind) {
  int count = 0;
  for (const Operator& op : operators) count += op.kind == kind ? 1 : 0;
  return count;
}

TEST(Recompute, EveryTextIsReadBackAsWritten) {
  for (const char* text : {"none", "selective", "selective=mlp", "selective=core_attn+mlp+layernorm+activation", "full", "full/2",
                           "full=5", "every-n=4", "every-n=2/3", "op", "op=all", "op=qkv"}) {
    ASSERT_TRUE(recompute_from(text)) << text;
    EXPECT_EQ(text_of(*recompute_from(text)), text);
  }
}

TEST(Recompute, OtherTextsAreNothing) {
  for (const char* text : {"", "some", "every-n", "every-n=0", "every-n=3/2", "full=x", "selective=", "selective=softmax",
                           "none=1", "op=2", "every-n/4", "full=99999"}) {
    EXPECT_FALSE(recompute_from(text)) << text;
  }
}

TEST(Recompute, WordsOfARecordSayWhichParts) {
  const auto read = [](RecomputeKind kind, const char* detail) {
    return text_of(described({.kind = kind, .every_n = 3}, detail));
  };
  EXPECT_EQ(read(RecomputeKind::Selective, "modules: mlp,layernorm"), "selective=mlp+layernorm");
  EXPECT_EQ(read(RecomputeKind::Selective, "full recompute of the first 5 layers per stage"), "full=5");
  EXPECT_EQ(read(RecomputeKind::Op, "minimal: matmul outputs are saved"), "op=all");
  EXPECT_EQ(read(RecomputeKind::Op, "qkv projections are offloaded to the host, the rest recomputed"), "op=qkv");
  EXPECT_EQ(read(RecomputeKind::Op, "torchtitan per-op policy"), "op");
  EXPECT_EQ(read(RecomputeKind::EveryN, "2 of every 3 blocks are recomputed"), "every-n=2/3");
  EXPECT_EQ(read(RecomputeKind::EveryN, "one of every n blocks is recomputed"), "every-n=3");
}

TEST(Recompute, ItsOwnWordsAreUnderstood) {
  for (const char* text : {"selective=mlp", "full=5", "every-n=2/3", "op=all", "op=qkv"}) {
    const Recompute recompute = *recompute_from(text);
    EXPECT_EQ(described({.kind = recompute.kind, .every_n = recompute.every_n}, description_of(recompute)), recompute) << text;
  }
}

TEST(Recompute, CountsTheBlocksOfAChunk) {
  EXPECT_EQ(recompute_from("none")->blocks_of(12), 0.0);
  EXPECT_EQ(recompute_from("selective")->blocks_of(12), 12.0);
  EXPECT_EQ(recompute_from("full=5")->blocks_of(12), 5.0);
  EXPECT_EQ(recompute_from("full=5")->blocks_of(4), 4.0);
  EXPECT_EQ(recompute_from("every-n=4")->blocks_of(12), 3.0);
  EXPECT_EQ(recompute_from("every-n=2/3")->blocks_of(12), 8.0);
}

// The sample block has products q, k, v, out of h^2 and up, down of 4 h^2 weights.
TEST(Recompute, EverySecondProductIsMadeAgain) {
  const BlockOperators block = block_of(small_run(), "op");
  EXPECT_DOUBLE_EQ(product_flops(block.recompute), (1.0 + 1.0 + 4.0) * kUnit);  // k, out, down
  EXPECT_EQ(count_of(block.recompute, OperatorKind::Attention), 0);
  // input, q, v, up, attention's output and its log-sum-exp
  EXPECT_DOUBLE_EQ(block.saved.value(), (1.0 + 1.0 + 1.0 + 4.0 + 1.0) * kRow + 4.0 * kTokens * 8.0);
}

TEST(Recompute, AGatedBlockKeepsItsDownProductAndMakesItsUpProductAgain) {
  // q k v out gate up down: k, out and up are the even ones.
  TrainingRun run = small_run();
  run.model.gated_mlp = true;
  EXPECT_DOUBLE_EQ(product_flops(block_of(run, "op").recompute), (1.0 + 1.0 + 4.0) * kUnit);
}

TEST(Recompute, EightBitProductsAreUnknownToThePolicy) {
  TrainingRun run = small_run();
  run.strategy.precision = Precision::Fp8;
  EXPECT_DOUBLE_EQ(product_flops(block_of(run, "op").recompute), 12.0 * kUnit);
}

TEST(Recompute, KeepingAllProductsRepeatsAttentionAndStreamsOnly) {
  const BlockOperators block = block_of(small_run(), "op=all");
  EXPECT_EQ(product_flops(block.recompute), 0.0);
  EXPECT_EQ(count_of(block.recompute, OperatorKind::Attention), 1);
  EXPECT_EQ(count_of(block.recompute, OperatorKind::Norm), 2);
  EXPECT_DOUBLE_EQ(block.saved.value(), (1.0 + 3.0 + 1.0 + 4.0) * kRow);  // input, qkv, out, up
}

TEST(Recompute, KeepingQkvRepeatsTheOtherProducts) {
  const BlockOperators block = block_of(small_run(), "op=qkv");
  EXPECT_DOUBLE_EQ(product_flops(block.recompute), 9.0 * kUnit);
  EXPECT_DOUBLE_EQ(block.saved.value(), 4.0 * kRow);
}

TEST(Recompute, AnEarlyStopLeavesOutTheLastProduct) {
  TrainingRun run = small_run();
  run.stack.recompute_stops_early = true;
  EXPECT_DOUBLE_EQ(product_flops(block_of(run, "full").recompute), 8.0 * kUnit);
  EXPECT_DOUBLE_EQ(product_flops(block_of(run, "op").recompute), 2.0 * kUnit);
  run.stack.dropout = 0.1;  // its mask comes last
  EXPECT_DOUBLE_EQ(product_flops(block_of(run, "full").recompute), 12.0 * kUnit);
}

TEST(Recompute, ModulesDropWhatTheyKeepInside) {
  const Bytes whole = block_of(small_run(), "none").saved;
  EXPECT_DOUBLE_EQ((whole - block_of(small_run(), "selective=mlp").saved).value(), 8.0 * kRow);         // of up and of GELU
  EXPECT_DOUBLE_EQ((whole - block_of(small_run(), "selective=activation").saved).value(), 4.0 * kRow);  // of GELU
  EXPECT_DOUBLE_EQ((whole - block_of(small_run(), "selective=layernorm").saved).value(), 2.0 * kRow);   // of two norms
  EXPECT_DOUBLE_EQ(product_flops(block_of(small_run(), "selective=mlp").recompute), 8.0 * kUnit);
  EXPECT_EQ(count_of(block_of(small_run(), "selective=layernorm").recompute, OperatorKind::Norm), 2);
  EXPECT_EQ(count_of(block_of(small_run(), "selective=layernorm").recompute, OperatorKind::Attention), 0);
}

TEST(Recompute, OfTheFirstBlocksLiesBetweenNoneAndFull) {
  TrainingRun run = small_run();
  const auto step = [&](const char* recompute) {
    run.strategy.recompute = *recompute_from(recompute);
    return predict(run);
  };
  const Prediction none = step("none"), some = step("full=2"), full = step("full");
  // Two of eight blocks.
  EXPECT_NEAR((some.step_time - none.step_time).value(), 0.25 * (full.step_time - none.step_time).value(), 1e-12);
  EXPECT_NEAR((some.hardware_flops - none.hardware_flops).value(), 0.25 * (full.hardware_flops - none.hardware_flops).value(),
              1.0);
  EXPECT_GT(none.memory.peak, some.memory.peak);
  EXPECT_GT(some.memory.peak, full.memory.peak);
}

}  // namespace
}  // namespace llmsim::sim
