#include "sim/operators/recomputation.h"

#include <optional>

#include <gtest/gtest.h>

#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

constexpr double kUnit = 2.0 * kTokens * kHidden * kHidden;  // FLOP of a GEMM with h^2 weights
constexpr double kRow = 2.0 * kTokens * kHidden;             // bytes of h values of each token

LayerOperators block_of(TrainingRun run, const char* recompute) {
  run.strategy.recompute = *recompute_from(recompute);
  return lower_block(run.model, run.strategy, run.framework, run.strategy.recompute.kind);
}

double saved_by(TrainingRun run, const char* recompute) {
  run.strategy.recompute = *recompute_from(recompute);
  return saved_by_block(run, std::nullopt).value();
}

// The sample block has GEMMs q, k, v, out of h^2 and up, down of 4 h^2 weights.
TEST(BlockRecompute, EverySecondGemmIsMadeAgain) {
  const LayerOperators block = block_of(small_run(), "op");
  EXPECT_DOUBLE_EQ(gemm_flops(block.recompute), (1.0 + 1.0 + 4.0) * kUnit);  // k, out, down
  EXPECT_EQ(count_of(block.recompute, OperatorKind::Attention), 0);
  // input, q, v, up, attention's output and its log-sum-exp
  EXPECT_DOUBLE_EQ(saved_by(small_run(), "op"),
                   (1.0 + 1.0 + 1.0 + 4.0 + 1.0) * kRow + 4.0 * kTokens * 8.0);
}

TEST(BlockRecompute, AGatedBlockKeepsItsDownGemmAndMakesItsUpGemmAgain) {
  // q k v out gate up down: k, out and up are the even ones.
  TrainingRun run = small_run();
  run.model.gated_mlp = true;
  EXPECT_DOUBLE_EQ(gemm_flops(block_of(run, "op").recompute), (1.0 + 1.0 + 4.0) * kUnit);
}

TEST(BlockRecompute, EightBitGemmsAreMadeAgainUnlessThePolicyCountsThem) {
  TrainingRun run = small_run();
  run.strategy.precision = Precision::Fp8;
  EXPECT_DOUBLE_EQ(gemm_flops(block_of(run, "op").recompute), 12.0 * kUnit);
  run.framework.low_precision.counted_by_policy = true;
  EXPECT_DOUBLE_EQ(gemm_flops(block_of(run, "op").recompute), 6.0 * kUnit);
}

// A copy in 8 bits is cast by a kernel that no policy keeps: what stays is what stays in 16 bits.
TEST(BlockRecompute, InputsCastForCountedGemmsAreCastAgain) {
  TrainingRun run = small_run();
  const double in_16_bits = saved_by(run, "op");
  run.strategy.precision = Precision::Fp8;
  run.framework.low_precision.counted_by_policy = true;
  run.framework.low_precision.saves_inputs = true;
  EXPECT_DOUBLE_EQ(saved_by(run, "op"), in_16_bits);
}

TEST(BlockRecompute, KeepingAllGemmsRepeatsAttentionAndStreamsOnly) {
  const LayerOperators block = block_of(small_run(), "op=all");
  EXPECT_EQ(gemm_flops(block.recompute), 0.0);
  EXPECT_EQ(count_of(block.recompute, OperatorKind::Attention), 1);
  EXPECT_EQ(count_of(block.recompute, OperatorKind::Norm), 2);
  // Input, qkv, out, up.
  EXPECT_DOUBLE_EQ(saved_by(small_run(), "op=all"), (1.0 + 3.0 + 1.0 + 4.0) * kRow);
}

TEST(BlockRecompute, KeepingQkvRepeatsTheOtherGemms) {
  const LayerOperators block = block_of(small_run(), "op=qkv");
  EXPECT_DOUBLE_EQ(gemm_flops(block.recompute), 9.0 * kUnit);
  EXPECT_DOUBLE_EQ(saved_by(small_run(), "op=qkv"), 4.0 * kRow);
}

// Of 12 units of GEMMs q, k and v have 3, the projection 1, up and down 4 each; the last GEMM's output
// is not saved, as nothing needs it.
TEST(BlockRecompute, KeepingNamedOutputsRepeatsTheOthers) {
  const auto repeated = [](const char* text) {
    return gemm_flops(block_of(small_run(), text).recompute) / kUnit;
  };
  const auto kept = [](const char* text) { return saved_by(small_run(), text) / kRow; };
  EXPECT_DOUBLE_EQ(repeated("op=attn_proj"), 11.0);
  EXPECT_DOUBLE_EQ(kept("op=attn_proj"), 2.0);
  EXPECT_DOUBLE_EQ(repeated("op=qkv+attn_proj"), 8.0);
  EXPECT_DOUBLE_EQ(kept("op=qkv+attn_proj"), 5.0);
  EXPECT_DOUBLE_EQ(repeated("op=qkv+attn_proj+mlp_down"), 4.0);
  EXPECT_DOUBLE_EQ(kept("op=qkv+attn_proj+mlp_down"), 5.0);
  EXPECT_DOUBLE_EQ(repeated("op=mlp_up"), 8.0);
  const LayerOperators with_context = block_of(small_run(), "op=qkv+core_attn+attn_proj");
  EXPECT_EQ(count_of(with_context.recompute, OperatorKind::Attention), 0);
  EXPECT_GT(kept("op=qkv+core_attn+attn_proj"), kept("op=qkv+attn_proj"));
}

TEST(BlockRecompute, AnEarlyStopLeavesOutTheLastGemm) {
  TrainingRun run = small_run();
  run.framework.recompute_stops_early = true;
  EXPECT_DOUBLE_EQ(gemm_flops(block_of(run, "full").recompute), 8.0 * kUnit);
  EXPECT_DOUBLE_EQ(gemm_flops(block_of(run, "op").recompute), 2.0 * kUnit);
  run.framework.dropout = 0.1;  // its mask comes last
  EXPECT_DOUBLE_EQ(gemm_flops(block_of(run, "full").recompute), 12.0 * kUnit);
}

TEST(BlockRecompute, ModulesDropWhatTheyKeepInside) {
  const double whole = saved_by(small_run(), "none");
  // Of up and of GELU.
  EXPECT_DOUBLE_EQ(whole - saved_by(small_run(), "selective=mlp"), 8.0 * kRow);
  EXPECT_DOUBLE_EQ(whole - saved_by(small_run(), "selective=activation"), 4.0 * kRow);  // of GELU
  // Of two norms.
  EXPECT_DOUBLE_EQ(whole - saved_by(small_run(), "selective=layernorm"), 2.0 * kRow);
  EXPECT_DOUBLE_EQ(gemm_flops(block_of(small_run(), "selective=mlp").recompute), 8.0 * kUnit);
  EXPECT_EQ(count_of(block_of(small_run(), "selective=layernorm").recompute, OperatorKind::Norm),
            2);
  EXPECT_EQ(
      count_of(block_of(small_run(), "selective=layernorm").recompute, OperatorKind::Attention), 0);
}

// A copy into another layout ends the core of an eager framework: what it gives is the projection's
// input, which stays.
// What PyTorch's partitioner keeps once it makes again what fuses, as a share of what it keeps
// without a budget, both without the input: budgets of 0.7 or more leave it at that
// (hwdb/launch/targets/torchtitan.rows).
TEST(BlockRecompute, OutputsOfGemmsAndAttentionAreLessThanSevenTenths) {
  for (const bool gated : {false, true}) {
    TrainingRun run = small_run();
    run.model.gated_mlp = gated;
    run.framework.fusion = ElementwiseFusion::Compiled;
    const double share =
        (saved_by(run, "selective=layernorm+activation") - kRow) / (saved_by(run, "none") - kRow);
    EXPECT_GT(share, 0.55) << gated;
    EXPECT_LT(share, 0.7) << gated;
  }
}

TEST(BlockRecompute, ACoreThatIsMadeAgainDropsItsScoresUnderEveryFusion) {
  for (const auto fusion :
       {ElementwiseFusion::Eager, ElementwiseFusion::Compiled, ElementwiseFusion::Fused}) {
    TrainingRun run = small_run();
    run.strategy.flash_attention = false;
    run.framework.fusion = fusion;
    // 8 heads x 1024 x 1024 scores of 2 bytes
    EXPECT_DOUBLE_EQ(saved_by(run, "none") - saved_by(run, "selective"),
                     8.0 * kTokens * kTokens * 2.0);
  }
}

// Whatever a forward pass leaves, the backward pass frees: its input stands in the place of its
// output then.
TEST(BlockRecompute, BothPassesGiveBackWhatTheyTook) {
  for (const Transformer& model : {small_model(), small_moe()}) {
    for (const char* recompute :
         {"none", "full", "selective", "selective=mlp+moe", "selective=layernorm+activation",
          "selective=shared_experts+moe_act", "op", "op=all", "op=qkv"}) {
      for (const int form : {0, 1, 2, 3}) {
        TrainingRun run = small_run(4);
        run.model = model;
        run.model.gated_mlp = form % 2 == 1;
        run.framework.recompute_stops_early = form < 2;
        run.framework.dropout = form == 3 ? 0.1 : 0.0;
        run.strategy.flash_attention = form != 2;
        if (form > 0) run.strategy.tp = 2, run.strategy.sequence_parallel = form > 1;
        run.strategy.recompute = *recompute_from(recompute);
        const LayerKind kind = model.moe ? LayerKind::Moe : LayerKind::Dense;
        const LayerGraph block =
            lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kind);
        const auto plan =
            recomputation_of(block, run.strategy.recompute, run.model, run.framework, kind);
        const double left = forward_bytes(block, plan).net.total().value();
        EXPECT_NEAR(backward_bytes(block, plan).net.total().value(), -left, 1e-9 * left)
            << recompute << form << bool(model.moe);
      }
    }
  }
}

// 4 h^2 weights of the MLP, made in 2 bytes and cast to gradients of 4; those of units are a piece
// of the unit's whole gradients, which another term counts.
TEST(BlockBackward, WeightGradientsOfUnitsAreCountedWithTheUnit) {
  TrainingRun run = small_run(8);
  run.model.seq_len = 128;
  run.framework.storage.gradient_bytes = 4.0;
  const auto rise = [&] {
    const LayerGraph block =
        lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
    return backward_bytes(block, no_recomputation(block)).rise.total().value();
  };
  const double made = 4.0 * kHidden * kHidden * (2.0 + 4.0), activations = 16.0 * 256.0 * 1024.0;
  EXPECT_GT(rise(), made);
  EXPECT_LT(rise(), made + activations);
  run.framework.sharded.gradients_of_units = true;
  EXPECT_LT(rise(), activations);
}

}  // namespace
}  // namespace llmsim::sim
