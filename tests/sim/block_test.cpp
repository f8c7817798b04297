#include "sim/operators/block.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/cost/layer_prices.h"
#include "sim/operators/embedding_and_head.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

double collective_bytes(const OperatorList& operators, CollectiveKind kind) {
  double sum = 0.0;
  for (const Operator& op : operators) {
    if (op.kind == OperatorKind::Collective && op.collective == kind) sum += op.message.value();
  }
  return sum;
}

constexpr double kSequence = 1024.0;

TEST(Block, ForwardGemmsMultiplyEveryMatrixOnce) {
  // h = 1024: qkv 3 h^2, projection h^2, MLP 8 h^2 weights, two FLOPs for each weight and token.
  const TrainingRun run = small_run();
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_DOUBLE_EQ(gemm_flops(block.forward), 2.0 * 12.0 * kHidden * kHidden * kTokens);
}

TEST(Block, BackwardIsTwiceTheForwardGemms) {
  const TrainingRun run = small_run();
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_DOUBLE_EQ(gemm_flops(block.backward), 2.0 * gemm_flops(block.forward));
}

TEST(Block, UnfusedAttentionCountsTheWholeSquareAndFlashItsCausalHalf) {
  TrainingRun run = small_run();
  const double flash =
      total_flops(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward)
          .value();
  run.strategy.flash_attention = false;
  const double unfused =
      total_flops(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward)
          .value();
  const double square = 4.0 * kTokens * kSequence * kHidden;  // two GEMMs of 2 t s h
  EXPECT_DOUBLE_EQ(unfused - flash, square / 2.0);
}

TEST(Block, KeepsThePublishedBytesOfAGptWithDropout) {
  // Korthikanti et al.: s b h (34 + 5 a s / h) bytes, 16-bit activations, masks of one byte,
  // unfused attention.
  TrainingRun run = small_run();
  run.framework.dropout = 0.1;
  run.strategy.flash_attention = false;
  EXPECT_DOUBLE_EQ(
      saved_by_block(run).value(),
      kTokens * kHidden * (34.0 + 5.0 * 8.0 * kSequence / kHidden) + norm_sums(kTokens));
}

TEST(Block, SequenceParallelismDividesAllOfThatByTheTensorRanks) {
  TrainingRun run = small_run(4);
  run.framework.dropout = 0.1;
  run.strategy.flash_attention = false;
  run.strategy.dp = 1, run.strategy.tp = 4, run.strategy.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(
      saved_by_block(run).value(),
      (kTokens * kHidden * (34.0 + 5.0 * 8.0 * kSequence / kHidden) + norm_sums(kTokens)) / 4.0);
}

TEST(Block, TensorParallelismAloneKeepsTheResidualWhole) {
  // s b h (10 + 24 / n + 5 a s / (h n)).
  TrainingRun run = small_run(4);
  run.framework.dropout = 0.1;
  run.strategy.flash_attention = false;
  run.strategy.dp = 1, run.strategy.tp = 4;
  EXPECT_DOUBLE_EQ(saved_by_block(run).value(),
                   kTokens * kHidden * (10.0 + 24.0 / 4.0 + 5.0 * 8.0 * kSequence / kHidden / 4.0) +
                       norm_sums(kTokens));
}

TEST(Block, FlashOutputsThatAreTransposedAreKeptTwice) {
  TrainingRun run = small_run();
  const auto saved = [&] { return saved_by_block(run); };
  const Bytes once = saved();
  run.framework.saved.flash_output_copied = true;
  EXPECT_EQ(saved(), once);  // one sequence: a view
  run.strategy.micro_batch = 2;
  run.framework.attention_kernel = AttentionKernel::Cudnn;
  const Bytes fused = saved();
  run.framework.attention_kernel = AttentionKernel::Flash2;
  EXPECT_EQ(saved() - fused, Bytes(2.0 * 2.0 * kTokens * kHidden));
}

TEST(Block, SelectiveRecomputationDropsTheScores) {
  TrainingRun run = small_run();
  run.framework.dropout = 0.1;
  run.strategy.flash_attention = false;
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::Selective);
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::Selective).value(),
                   kTokens * kHidden * 34.0 + norm_sums(kTokens));
  EXPECT_DOUBLE_EQ(gemm_flops(block.recompute), 4.0 * kTokens * kSequence * kHidden);
}

TEST(Block, FullRecomputationKeepsTheInputAndRepeatsTheForwardPass) {
  const TrainingRun run = small_run();
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::Full);
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::Full).value(), 2.0 * kTokens * kHidden);
  EXPECT_EQ(total_flops(block.recompute), total_flops(block.forward));
}

TEST(Block, OperatorRecomputationLiesBetweenNoneAndFull) {
  const TrainingRun run = small_run();
  const auto saved = [&](RecomputeKind kind) { return saved_by_block(run, kind); };
  EXPECT_LT(saved(RecomputeKind::Op), saved(RecomputeKind::None));
  EXPECT_GT(saved(RecomputeKind::Op), saved(RecomputeKind::Full));
}

double moved_by(const OperatorList& operators, const std::string& label) {
  double sum = 0.0;
  for (const Operator& op : operators) sum += label == op.label ? op.moved.value() : 0.0;
  return sum;
}

// A byte in place of two for gate and values, also where the activation is recomputed from them.
TEST(Block, InputsOfAGatedActivationCanBeKeptInEightBits) {
  TrainingRun run = small_run(), kept = run;
  kept.framework.saved.fp8_activation_inputs = true;
  EXPECT_EQ(saved_by_block(kept), saved_by_block(run));  // no gate
  run.model.gated_mlp = kept.model.gated_mlp = true;
  const double values = 2.0 * kTokens * run.model.ffn_size;
  for (const RecomputeKind recompute : {RecomputeKind::None, RecomputeKind::Selective}) {
    run.strategy.recompute.modules = kept.strategy.recompute.modules = {.activation = true};
    EXPECT_DOUBLE_EQ((saved_by_block(run, recompute) - saved_by_block(kept, recompute)).value(),
                     values);
  }
  // Cast to 8 bits in the forward pass and back in the other: two and one bytes a value.
  const auto block = [](const TrainingRun& of) {
    return lower_block(of.model, of.strategy, of.framework, RecomputeKind::None);
  };
  EXPECT_DOUBLE_EQ(
      moved_by(block(kept).forward, "activation") - moved_by(block(run).forward, "activation"),
      3.0 * values);
  EXPECT_DOUBLE_EQ(
      moved_by(block(kept).backward, "activation") - moved_by(block(run).backward, "activation"),
      3.0 * values);
}

TEST(Block, TensorParallelismReducesTwiceInEachDirection) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.tp = 4;
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  const double residual = 2.0 * kTokens * kHidden;
  EXPECT_DOUBLE_EQ(collective_bytes(block.forward, CollectiveKind::AllReduce), 2.0 * residual);
  EXPECT_DOUBLE_EQ(collective_bytes(block.backward, CollectiveKind::AllReduce), 2.0 * residual);
}

TEST(Block, SequenceParallelismSplitsEachReductionInTwoHalves) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.tp = 4, run.strategy.sequence_parallel = true;
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  const double residual = 2.0 * kTokens * kHidden;
  EXPECT_DOUBLE_EQ(collective_bytes(block.forward, CollectiveKind::AllGather), 2.0 * residual);
  EXPECT_DOUBLE_EQ(collective_bytes(block.forward, CollectiveKind::ReduceScatter), 2.0 * residual);
  EXPECT_DOUBLE_EQ(collective_bytes(block.backward, CollectiveKind::ReduceScatter), 2.0 * residual);
  // two conjugates and the inputs of both column-parallel GEMMs once more
  EXPECT_DOUBLE_EQ(collective_bytes(block.backward, CollectiveKind::AllGather), 4.0 * residual);
}

// What autograd saves of F.linear after a gather is the gathered input of both column-parallel
// GEMMs, in the place of this rank's quarter, and nothing is gathered again.
TEST(Block, InputsThatAreSavedWholeAreNotGatheredAgain) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.tp = 4, run.strategy.sequence_parallel = true;
  const double residual = 2.0 * kTokens * kHidden;
  const Bytes own = layer_prices(run).blocks[0].saved;
  run.framework.saved.gathered_inputs = true;
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_DOUBLE_EQ(collective_bytes(block.forward, CollectiveKind::AllGather), 2.0 * residual);
  EXPECT_DOUBLE_EQ(collective_bytes(block.backward, CollectiveKind::AllGather), 2.0 * residual);
  EXPECT_DOUBLE_EQ((layer_prices(run).blocks[0].saved - own).value(), 2.0 * 0.75 * residual);
}

TEST(Block, InputsCastBeforeTheyAreGatheredAreHalfAsLong) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.tp = 4, run.strategy.sequence_parallel = true;
  run.strategy.precision = Precision::Fp8;
  run.framework.low_precision.gathers_inputs = true;
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  const double residual = kTokens * kHidden;
  EXPECT_DOUBLE_EQ(collective_bytes(block.forward, CollectiveKind::AllGather), 2.0 * residual);
  EXPECT_DOUBLE_EQ(collective_bytes(block.backward, CollectiveKind::AllGather), 4.0 * residual);
  // Sums are of 16-bit values.
  EXPECT_DOUBLE_EQ(collective_bytes(block.forward, CollectiveKind::ReduceScatter),
                   2.0 * 2.0 * residual);
}

TEST(Block, TensorRanksShareTheGemms) {
  TrainingRun run = small_run(4);
  const double whole =
      gemm_flops(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward);
  run.strategy.dp = 1, run.strategy.tp = 4;
  EXPECT_DOUBLE_EQ(
      gemm_flops(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward),
      whole / 4.0);
}

TEST(Block, GroupedQueriesNarrowTheProjectionOnly) {
  TrainingRun run = small_run();
  run.model.num_kv_heads = 2;
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  // qkv is (8 + 2 * 2) heads of 128 instead of 24: 1.5 h^2 instead of 3 h^2.
  EXPECT_DOUBLE_EQ(gemm_flops(block.forward), 2.0 * 10.5 * kHidden * kHidden * kTokens);
}

TEST(Block, AWindowShowsEachQueryOnlyItsKeys) {
  TrainingRun run = small_run();
  const double dense =
      total_flops(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward)
          .value();
  run.model.sliding_window = 256;
  const double windowed =
      total_flops(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward)
          .value();
  // causal: s^2/2 scores; window w: s w - w^2/2
  const double s = 1024.0, w = 256.0;
  EXPECT_DOUBLE_EQ(dense - windowed, 4.0 * kHidden * (s * s / 2.0 - (s * w - w * w / 2.0)));
}

TEST(Block, BiasGradientsReadTheOutputGradientsOnce) {
  // qkv 3 h, projection h, MLP 4 h and h values of 2 bytes for each token; nothing where the GEMM's
  // epilogue sums them.
  TrainingRun run = small_run();
  run.model.bias = Biases::gpt();
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_DOUBLE_EQ(moved_by(block.backward, "bias_gradient"), kTokens * 9.0 * kHidden * 2.0);
  run.framework.gradients.fused_bias = true;
  const LayerOperators fused =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_DOUBLE_EQ(moved_by(fused.backward, "bias_gradient"), 0.0);
}

TEST(Block, AutocastCastsWeightsAndTheirGradients) {
  // 12 h^2 weights: fp32 read and 16 bits written in forward, the other way round in backward.
  TrainingRun run = small_run();
  run.framework.casts_weights_per_microbatch = true;
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_DOUBLE_EQ(moved_by(block.forward, "weight_cast"), 12.0 * kHidden * kHidden * 6.0);
  EXPECT_DOUBLE_EQ(moved_by(block.backward, "gradient_cast"), 12.0 * kHidden * kHidden * 6.0);
}

// Where they are cast for the backward pass as well, a recomputation finds them cast.
TEST(Block, AutocastWithoutACacheCastsWeightsOnceAPass) {
  TrainingRun run = small_run();
  run.framework.casts_weights_per_microbatch = run.framework.casts_weights_in_backward = true;
  const double cast = 12.0 * kHidden * kHidden * 6.0;
  for (const RecomputeKind recompute : {RecomputeKind::None, RecomputeKind::Full}) {
    run.strategy.recompute.kind = recompute;
    const LayerOperators block = lower_block(run.model, run.strategy, run.framework, recompute);
    EXPECT_DOUBLE_EQ(moved_by(block.forward, "weight_cast"), cast);
    EXPECT_DOUBLE_EQ(moved_by(block.backward, "weight_cast"), cast);
    EXPECT_DOUBLE_EQ(moved_by(block.recompute, "weight_cast"), 0.0);
  }
}

TEST(Block, AGeluOfEightOperatorsMovesNineTimesAFusedOne) {
  // 18 e against 2 e for each of 4 h values of a token, in forward.
  TrainingRun run = small_run();
  run.framework.fusion = ElementwiseFusion::Eager;
  const double one =
      moved_by(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward,
               "activation");
  run.framework.composed_activation = true;
  const double eight =
      moved_by(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward,
               "activation");
  EXPECT_DOUBLE_EQ(one, kTokens * 4.0 * kHidden * 4.0);
  EXPECT_DOUBLE_EQ(eight, 9.0 * one);
}

TEST(Block, AnEagerLlamaKeepsFourWidthsForEachNormAndEveryFactorOfItsMlp) {
  // Units of t h 16-bit values.  Each norm: its input in fp32 (2), the normalised input (1), its
  // output (1).  Attention: q, k, v and its output (4).  MLP, f = 4 h: gate, up, silu(gate) and
  // their GEMM (16).
  TrainingRun run = small_run();
  run.model.norm = Norm::RmsNorm;
  run.model.gated_mlp = true;
  run.framework.fusion = ElementwiseFusion::Eager;
  const double sums = (8.0 + 2.0) * kTokens * 4.0;  // of the scores of 8 heads and of two norms
  EXPECT_DOUBLE_EQ(saved_by_block(run).value(),
                   2.0 * kTokens * kHidden * (8.0 + 4.0 + 16.0) + sums);
}

// PyTorch's autocast over fp32 weights.  Bytes for each of t h values: the stream, 4, twice; after
// each norm the normalised values and no output, 4; copies for q, k and v, 2 each, and for gate and
// up; q, k, v and the output of attention 2 each; the MLP's 4 x 8 at f = 4 h.
TEST(Block, UnderAutocastEachLinearLayerSavesACopyOfItsInput) {
  TrainingRun run = small_run();
  run.model.norm = Norm::RmsNorm;
  run.model.gated_mlp = true;
  run.framework.fusion = ElementwiseFusion::Eager;
  run.framework.casts_weights_per_microbatch = true;
  const double sums = (8.0 + 2.0) * kTokens * 4.0, values = kTokens * kHidden;
  const auto saved = [&] { return saved_by_block(run).value(); };
  EXPECT_DOUBLE_EQ(saved(),
                   values * (2.0 * (4.0 + 4.0) + 3.0 * 2.0 + 2.0 * 2.0 + 8.0 + 32.0) + sums);
  run.framework.saved.fused_qkv = true;  // one copy, and rotated q and k beside the GEMM's output
  EXPECT_DOUBLE_EQ(saved(),
                   values * (2.0 * (4.0 + 4.0) + 2.0 + 2.0 * 2.0 + 8.0 + 4.0 + 32.0) + sums);
}

// Scores of 8 heads: the softmax gives 4 bytes, of which the GEMM has a copy in 2.
TEST(Block, UnderAutocastTheSoftmaxOfUnfusedAttentionIsFp32) {
  TrainingRun run = small_run();
  run.framework.fusion = ElementwiseFusion::Eager;
  run.framework.casts_weights_per_microbatch = true;
  const auto saved = [&] { return saved_by_block(run).value(); };
  run.strategy.flash_attention = true;
  const double flash = saved();  // its output and a sum for each row stay, too
  run.strategy.flash_attention = false;
  const double scores = 8.0 * kTokens * kSequence, rows = 8.0 * kTokens * 4.0;
  EXPECT_DOUBLE_EQ(saved() - flash, scores * (4.0 + 2.0) - rows);
  run.framework.dropout = 0.1;
  const double masks = 2.0 * kTokens * kHidden;  // of the residual stream
  EXPECT_DOUBLE_EQ(saved() - flash, scores * (4.0 + 2.0 + 1.0) - rows + masks);
}

TEST(Block, FrozenLayersKeepNoInputsUnlessTheirKernelsDo) {
  // As above, adapters on q and v: the norms keep their fp32 input (2 + 2), the first its output
  // (1); no GEMM of the MLP (12).
  TrainingRun run = small_run();
  run.model.norm = Norm::RmsNorm;
  run.model.gated_mlp = true;
  run.framework.fusion = ElementwiseFusion::Eager;
  run.strategy.adapters = Adapters{.rank = 8};
  const double unit = 2.0 * kTokens * kHidden, sums = (8.0 + 2.0) * kTokens * 4.0;
  const auto saved = [&] { return saved_by_block(run).value(); };
  EXPECT_DOUBLE_EQ(saved(), unit * (5.0 + 4.0 + 12.0) + sums);
  run.framework.saved.frozen_inputs = true;  // the second norm's output and the GEMM
  EXPECT_DOUBLE_EQ(saved(), unit * (6.0 + 4.0 + 16.0) + sums);
  run.framework.saved.frozen_inputs = false;
  // The adapter's input after dropout and its mask of one byte.
  run.framework.saved.adapter_dropout = 0.05;
  EXPECT_DOUBLE_EQ(saved(), unit * (5.0 + 4.0 + 12.0 + 1.5) + sums);
}

TEST(Block, GroupedKeysAndValuesMayBeCopiedToAllHeads) {
  TrainingRun run = small_run();
  run.model.num_kv_heads = 2;
  const auto saved = [&] { return saved_by_block(run).value(); };
  const double grouped = saved();
  run.framework.saved.expanded_kv_heads = true;
  // k and v, 16-bit.
  EXPECT_DOUBLE_EQ(saved() - grouped, 2.0 * 2.0 * kTokens * (8.0 - 2.0) * 128.0);
}

TEST(Block, AGeluWrittenOutKeepsThreeMoreTensors) {
  TrainingRun run = small_run();
  run.framework.fusion = ElementwiseFusion::Eager;
  const auto saved = [&] { return saved_by_block(run).value(); };
  const double one_kernel = saved();
  run.framework.composed_activation = true;
  EXPECT_DOUBLE_EQ(saved() - one_kernel, 3.0 * 2.0 * kTokens * 4096.0);
}

// Of GPT-2 under autocast on an H200 (hwdb/measurements) 12 bytes a value more than one kernel saves.
TEST(Block, AGeluWrittenOutIsInFp32UnderAutocast) {
  TrainingRun run = small_run();
  run.framework.fusion = ElementwiseFusion::Eager;
  run.framework.casts_weights_per_microbatch = true;
  const double one_kernel = saved_by_block(run).value();
  run.framework.composed_activation = true;
  EXPECT_DOUBLE_EQ(saved_by_block(run).value() - one_kernel, 12.0 * kTokens * 4096.0);
}

TEST(Block, AParallelBlockReducesAndGathersOnce) {
  TrainingRun run = small_run(4);
  run.model.parallel_block = true, run.model.norms_per_layer = 1;
  run.strategy.dp = 1, run.strategy.tp = 4;
  const double residual = 2.0 * kTokens * kHidden;
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_DOUBLE_EQ(collective_bytes(block.forward, CollectiveKind::AllReduce), residual);
  EXPECT_DOUBLE_EQ(collective_bytes(block.backward, CollectiveKind::AllReduce), residual);
  run.strategy.sequence_parallel = true;
  const LayerOperators sequence =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_DOUBLE_EQ(collective_bytes(sequence.forward, CollectiveKind::ReduceScatter), residual);
  EXPECT_DOUBLE_EQ(collective_bytes(sequence.forward, CollectiveKind::AllGather), residual);
}

TEST(Block, AParallelBlockMayJoinItsInputGemms) {
  TrainingRun run = small_run();
  run.model.parallel_block = true, run.model.norms_per_layer = 1;
  const LayerOperators apart =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  const Bytes saved = saved_by_block(run);
  run.framework.fuses_parallel_inputs = true;
  const LayerOperators joined =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_EQ(count_of(apart.forward, OperatorKind::Gemm), 4);
  EXPECT_EQ(count_of(joined.forward, OperatorKind::Gemm), 3);
  EXPECT_DOUBLE_EQ(gemm_flops(joined.forward), gemm_flops(apart.forward));
  EXPECT_EQ(saved_by_block(run), saved);
  EXPECT_EQ(count_of(joined.forward, OperatorKind::Norm), 1);
}

// 8 heads on 4 ranks leave two score matrices, which the kernel for four at a time does not take.
TEST(Block, ASoftmaxKernelForFourMatricesLeavesTwoToSeparateKernels) {
  TrainingRun run = small_run(4);
  run.framework.fusion = ElementwiseFusion::Fused;
  run.strategy.flash_attention = false;
  run.strategy.dp = 1, run.strategy.tp = 4;
  const double two = 2.0 * kSequence * kSequence;
  const auto moved = [&] {
    return moved_by(
        lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward,
        "softmax");
  };
  run.strategy.micro_batch = 1;
  EXPECT_DOUBLE_EQ(moved(), two * (6.0 * 2.0 + 4.0 * 4.0));  // scale, mask, to fp32, softmax, back
  run.strategy.micro_batch = 2;
  EXPECT_DOUBLE_EQ(moved(), 2.0 * two * 2.0 * 2.0);  // read and write
}

TEST(Block, TheBiasOfAlibiIsLaidUnderTheScores) {
  TrainingRun run = small_run();
  run.strategy.flash_attention = false;
  EXPECT_EQ(
      moved_by(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward,
               "position_bias"),
      0.0);
  run.model.position = Position::Alibi;
  // 8 heads of 1024 x 1024 scores of two bytes, written and read.
  EXPECT_DOUBLE_EQ(
      moved_by(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None).forward,
               "position_bias"),
      8.0 * kSequence * kSequence * 4.0);
}

TEST(Block, NormalisedQueriesAndKeysAreKeptTwice) {
  TrainingRun run = small_run();
  const Bytes plain = saved_by_block(run);
  run.model.qk_norm = QkNorm::PerHead;
  const LayerOperators block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None);
  EXPECT_DOUBLE_EQ((saved_by_block(run) - plain).value(), 2.0 * kTokens * kHidden * 2.0);
  // Read and write.
  EXPECT_DOUBLE_EQ(moved_by(block.forward, "qk_norm"), 2.0 * kTokens * kHidden * 4.0);
}

TEST(Ends, ANormAfterTheEmbeddingReadsAndWritesTheResidual) {
  TrainingRun run = small_run();
  run.model.embedding_norm = true;
  EXPECT_DOUBLE_EQ(
      moved_by(lower_embedding(run.model, run.strategy, run.framework).forward, "embedding_norm"),
      2.0 * 2.0 * kTokens * kHidden);
}

}  // namespace
}  // namespace llmsim::sim
