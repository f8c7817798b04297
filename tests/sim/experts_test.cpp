#include "sim/operators/experts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/operators/recomputation.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// 8 tokens of width 16 that visit 2 of 4 experts of width 6 with a gated MLP: 16 rows.
struct ExpertsCase {
  Transformer model{.name = "moe",
                    .num_layers = 2,
                    .hidden_size = 16,
                    .num_heads = 2,
                    .num_kv_heads = 2,
                    .head_dim = 8,
                    .ffn_size = 32,
                    .vocab_size = 64,
                    .seq_len = 8,
                    .gated_mlp = true,
                    .moe = Moe{.num_experts = 4, .top_k = 2, .expert_ffn_size = 6}};
  Strategy strategy;
  Framework framework;

  LayerOperators lower() const { return layer(); }
  LayerOperators block(RecomputeKind recompute) const {
    return lower_block(model, strategy, framework, recompute, LayerKind::Moe);
  }
  Bytes saved(RecomputeKind recompute = RecomputeKind::None) const {
    return saved_by_block(*this, recompute, LayerKind::Moe);
  }
  // By the MoE layer alone; its input is saved by the router.
  Bytes saved_inside() const { return saved_bytes(layer()); }
  // The MoE layer alone, on an input without bytes.
  LayerGraph layer() const {
    LayerBuilder b(model, strategy, framework);
    const TensorId input = b.tensor("input", {0.0});
    b.layer.set_input(input);
    b.layer.set_output(add_experts(b, input));
    b.layer.finish();
    return std::move(b.layer);
  }
};

double exchanged(const OperatorList& list, std::string_view label) {
  double sum = 0.0;
  for (const Operator& op : list) {
    if (label == op.label && op.collective == CollectiveKind::AllToAll &&
        op.kind == OperatorKind::Collective)
      sum += op.message.value();
  }
  return sum;
}

double count_of(const OperatorList& list, CollectiveKind kind) {
  return static_cast<double>(std::count_if(list.begin(), list.end(), [&](const Operator& op) {
    return op.kind == OperatorKind::Collective && op.collective == kind;
  }));
}

TEST(Experts, EachRowIsMultipliedOnce) {
  const LayerOperators experts = ExpertsCase().lower();
  // Router 2 * 8 * 4 * 16; up 2 * 16 rows * 12 * 16; down 2 * 16 * 16 * 6; backward twice as much.
  const Flops forward = 2.0 * (8.0 * 4.0 * 16.0 + 16.0 * 12.0 * 16.0 + 16.0 * 16.0 * 6.0) * FLOP;
  EXPECT_EQ(total_flops(experts.forward), forward);
  EXPECT_EQ(total_flops(experts.backward), 2.0 * forward);
}

TEST(Experts, GemmsAreOfTheRowsOfOneExpert) {
  ExpertsCase c;
  const Operator whole = named(c.lower().forward, "expert_up");
  EXPECT_EQ(whole.batch, 4);
  EXPECT_EQ(whole.m, 4);
  EXPECT_EQ(whole.n, 12);
  // Over 2 ranks an expert has the rows of both.
  c.strategy.dp = c.strategy.ep = 2;
  const Operator divided = named(c.lower().forward, "expert_up");
  EXPECT_EQ(divided.batch, 2);
  EXPECT_EQ(divided.m, 8);
  EXPECT_EQ(divided.flops, whole.flops);
  EXPECT_LT(divided.moved, whole.moved);  // half of the weights are read
}

TEST(Experts, RowsGoToTheirExpertsAndBack) {
  ExpertsCase c;
  EXPECT_EQ(count_of(c.lower().forward, CollectiveKind::AllToAll), 0.0);
  c.strategy.dp = c.strategy.ep = 2;
  const LayerOperators experts = c.lower();
  // Counts, dispatch, combination.
  EXPECT_EQ(count_of(experts.forward, CollectiveKind::AllToAll), 3.0);
  EXPECT_EQ(count_of(experts.backward, CollectiveKind::AllToAll), 2.0);
  EXPECT_EQ(named(experts.forward, "expert_counts").message, Bytes(4.0 * 8.0));
  // Rows of bf16.
  EXPECT_EQ(named(experts.forward, "expert_combine").message, Bytes(16.0 * 16.0 * 2.0));
  EXPECT_EQ(named(experts.forward, "expert_combine").group, GroupKind::Expert);
}

TEST(Experts, SharedExpertsSeeEveryToken) {
  ExpertsCase c;
  c.model.moe->num_shared_experts = 2, c.model.moe->shared_expert_ffn_size = 5;
  const Flops plain =
      ExpertsCase().lower().forward.empty() ? Flops{} : total_flops(ExpertsCase().lower().forward);
  EXPECT_EQ(total_flops(c.lower().forward) - plain, 2.0 * 8.0 * 3.0 * 10.0 * 16.0 * FLOP);
  const Flops ungated = total_flops(c.lower().forward);
  c.model.moe->shared_expert_gate = true;
  EXPECT_EQ(total_flops(c.lower().forward) - ungated, 2.0 * 8.0 * 16.0 * FLOP);
}

// The router's gradient reads what the experts returned: unlike an MLP's, their last GEMM is
// recomputed.
TEST(Experts, RecomputationMakesAllGemmsAgain) {
  ExpertsCase c;
  c.framework.recompute_stops_early = true;
  const LayerOperators block = c.block(RecomputeKind::Full);
  EXPECT_EQ(total_flops(block.recompute), total_flops(block.forward));
  EXPECT_EQ(c.saved(RecomputeKind::Full), Bytes(8.0 * 16.0 * 2.0));  // the block's input
}

TEST(Experts, RecomputationOfTheMlpLeavesThemAlone) {
  ExpertsCase c;
  c.strategy.recompute = {.kind = RecomputeKind::Selective,
                          .modules = {.core_attention = false, .mlp = true}};
  const LayerOperators block = c.block(RecomputeKind::Selective);
  EXPECT_TRUE(block.recompute.empty());
  EXPECT_EQ(c.saved(RecomputeKind::Selective), c.saved());
}

TEST(Experts, AreMadeAgainWithTheMoe) {
  ExpertsCase c;
  c.strategy.recompute = {.kind = RecomputeKind::Selective,
                          .modules = {.core_attention = false, .moe = true}};
  const LayerOperators block = c.block(RecomputeKind::Selective);
  EXPECT_EQ(total_flops(block.recompute), total_flops(c.lower().forward));
  EXPECT_EQ(c.saved() - c.saved(RecomputeKind::Selective), c.saved_inside());
  // An MLP in its place, in the model's dense blocks, stays.
  EXPECT_TRUE(
      lower_block(c.model, c.strategy, c.framework, RecomputeKind::Selective, LayerKind::Dense)
          .recompute.empty());
}

TEST(Experts, TheirActivationIsMadeAgainWithoutThatOfSharedOnes) {
  ExpertsCase c;
  c.model.moe->num_shared_experts = 1, c.model.moe->shared_expert_ffn_size = 5;
  const Bytes whole = c.saved();
  const auto recomputed = [&](RecomputedModules modules, LayerKind kind) {
    c.strategy.recompute = {.kind = RecomputeKind::Selective, .modules = modules};
    return lower_block(c.model, c.strategy, c.framework, RecomputeKind::Selective, kind);
  };
  const auto saved = [&](RecomputedModules modules) {
    c.strategy.recompute = {.kind = RecomputeKind::Selective, .modules = modules};
    return c.saved(RecomputeKind::Selective);
  };
  // Eager kernels keep the GEMM's input and silu(gate), in 16 bits: 16 rows of 6 values, and 8
  // tokens of 5.
  const Bytes routed(2.0 * 16.0 * 6.0 * 2.0), shared(2.0 * 8.0 * 5.0 * 2.0);
  const RecomputedModules theirs{.core_attention = false, .expert_activation = true};
  const RecomputedModules all{.core_attention = false, .activation = true};
  EXPECT_EQ(whole - saved(theirs), routed);
  EXPECT_EQ(recomputed(theirs, LayerKind::Moe).recompute.size(), 1u);
  EXPECT_EQ(whole - saved(all), routed + shared);
  EXPECT_EQ(recomputed(all, LayerKind::Moe).recompute.size(), 2u);
  EXPECT_TRUE(recomputed(theirs, LayerKind::Dense).recompute.empty());
  EXPECT_EQ(recomputed(all, LayerKind::Dense).recompute.size(), 1u);
}

// 8 tokens of 16 to 5 and back: 2 * 8 * 10 * 16 and 2 * 8 * 16 * 5 FLOPs.  Eager kernels keep what
// goes into the activation (10 values), silu(gate) and what the last GEMM multiplies, in 16 bits.
TEST(Experts, SharedOnesAreMadeAgainByThemselves) {
  ExpertsCase c;
  c.model.moe->num_shared_experts = 1, c.model.moe->shared_expert_ffn_size = 5;
  const Bytes whole = c.saved();
  for (const bool activation : {false, true}) {
    c.strategy.recompute = {
        .kind = RecomputeKind::Selective,
        .modules = {.core_attention = false, .activation = activation, .shared_experts = true}};
    c.framework.recompute_stops_early = false;
    const LayerOperators block = c.block(RecomputeKind::Selective);
    const Bytes routed(activation ? 2.0 * 16.0 * 6.0 * 2.0 : 0.0);
    EXPECT_EQ(total_flops(block.recompute), (2.0 * 8 * 10 * 16 + 2.0 * 8 * 16 * 5) * FLOP);
    EXPECT_EQ(whole - c.saved(RecomputeKind::Selective), Bytes(8.0 * (10 + 5 + 5) * 2.0) + routed);
    c.framework.recompute_stops_early = true;
    EXPECT_EQ(total_flops(c.block(RecomputeKind::Selective).recompute), 2.0 * 8 * 10 * 16 * FLOP);
  }
  EXPECT_TRUE(
      lower_block(c.model, c.strategy, c.framework, RecomputeKind::Selective, LayerKind::Dense)
          .recompute.size() == 1u);
}

TEST(Experts, AModelWithoutSharedOnesGathersNothingForThem) {
  ExpertsCase c;
  c.strategy.tp = 2, c.strategy.sequence_parallel = true;
  c.strategy.recompute = {.kind = RecomputeKind::Selective,
                          .modules = {.core_attention = false, .shared_experts = true}};
  EXPECT_TRUE(c.block(RecomputeKind::Selective).recompute.empty());
}

TEST(Experts, SharedOnesEndWithAGemmThatNothingNeedsAgain) {
  ExpertsCase c;
  c.framework.recompute_stops_early = true;
  c.model.moe->num_shared_experts = 1, c.model.moe->shared_expert_ffn_size = 5;
  const LayerOperators ungated = c.block(RecomputeKind::Full);
  EXPECT_EQ(total_flops(ungated.forward) - total_flops(ungated.recompute),
            2.0 * 8.0 * 16.0 * 5.0 * FLOP);
  c.model.moe->shared_expert_gate = true;  // its gradient reads what the gate multiplied
  const LayerOperators gated = c.block(RecomputeKind::Full);
  EXPECT_EQ(total_flops(gated.recompute), total_flops(gated.forward));
}

// By hand, fused kernels: probabilities 8 * 4 * 4, weights and indices 16 (2 + 24), rows and what
// they return 2 * 16 * 16 * 2, inputs of the activation and of the second GEMM 16 (12 + 6) 2.
TEST(Experts, KeepRowsAndTheChoice) {
  ExpertsCase c;
  c.framework.fusion = ElementwiseFusion::Fused;
  EXPECT_EQ(c.saved_inside(), Bytes(128.0 + 416.0 + 1024.0 + 576.0));
}

// Two tensor ranks of four tokens each, which both have whole experts: 4 tokens visit 2 each, 8
// rows a rank, and the four experts are shared out over the two.
TEST(Experts, TensorRanksWithWholeExpertsRouteTheirOwnTokens) {
  ExpertsCase c;
  c.strategy.tp = c.strategy.ep = 2;
  c.strategy.sequence_parallel = true;
  c.strategy.etp = 1;
  const ExpertShape shape = expert_shape(c.model, c.strategy, c.framework);
  EXPECT_TRUE(shape.routes_shards);
  EXPECT_EQ(shape.tokens, 4);
  EXPECT_EQ(shape.rows, 8);
  EXPECT_EQ(shape.experts, 2);
  EXPECT_EQ(shape.ffn, 6);
  const LayerOperators experts = c.lower();
  // Router 2 * 4 * 4 * 16, GEMMs of 8 rows.
  EXPECT_EQ(total_flops(experts.forward),
            2.0 * (4.0 * 4.0 * 16.0 + 8.0 * 12.0 * 16.0 + 8.0 * 16.0 * 6.0) * FLOP);
  EXPECT_EQ(named(experts.forward, "expert_dispatch").kind, OperatorKind::Copy);
  EXPECT_EQ(named(experts.forward, "expert_combine").message, Bytes(8.0 * 16.0 * 2.0));
  // Attention gathers its tokens and scatters its sums; the experts need neither.
  const LayerOperators block = c.block(RecomputeKind::None);
  EXPECT_EQ(count_of(block.forward, CollectiveKind::AllGather), 1.0);
  EXPECT_EQ(count_of(block.forward, CollectiveKind::ReduceScatter), 1.0);
}

TEST(Experts, RanksThatDivideAnExpertGatherItsRowsAfterTheyHaveArrived) {
  ExpertsCase c;
  c.strategy.tp = 2, c.strategy.dp = c.strategy.ep = 2;
  c.strategy.sequence_parallel = true;
  c.framework.experts.routes_shards = true;
  const ExpertShape shape = expert_shape(c.model, c.strategy, c.framework);
  EXPECT_EQ(shape.sent, 8);   // of four tokens
  EXPECT_EQ(shape.rows, 16);  // those of both tensor ranks
  EXPECT_EQ(shape.ffn, 3);
  const LayerOperators experts = c.lower();
  EXPECT_EQ(named(experts.forward, "expert_gather").message, Bytes(16.0 * 16.0 * 2.0));
  EXPECT_EQ(named(experts.forward, "expert_gather").group, GroupKind::ExpertTensor);
  EXPECT_EQ(count_of(experts.forward, CollectiveKind::ReduceScatter), 1.0);
  EXPECT_EQ(count_of(experts.backward, CollectiveKind::ReduceScatter), 1.0);
}

TEST(Experts, SharedOnesGatherTheTokensThatTensorRanksRouteApart) {
  ExpertsCase c;
  c.model.moe->num_shared_experts = 1, c.model.moe->shared_expert_ffn_size = 6;
  c.strategy.tp = c.strategy.ep = 2;
  c.strategy.sequence_parallel = true;
  c.strategy.etp = 1;
  const LayerOperators experts = c.lower();
  EXPECT_EQ(named(experts.forward, "shared_input").message, Bytes(8.0 * 16.0 * 2.0));
  EXPECT_EQ(named(experts.forward, "shared_up").m, 8);
  EXPECT_EQ(named(experts.forward, "shared_up").n, 6);  // gate and up, 3 wide on each rank
}

TEST(Experts, AnAllGatherDispatchSendsTokensInsteadOfRows) {
  ExpertsCase c;
  c.strategy.dp = c.strategy.ep = 2;
  c.strategy.moe_dispatch = ExpertDispatch::AllGather;
  const LayerOperators experts = c.lower();
  EXPECT_EQ(count_of(experts.forward, CollectiveKind::AllToAll), 0.0);
  // Tokens of both ranks.
  EXPECT_EQ(named(experts.forward, "expert_dispatch").message, Bytes(2.0 * 8.0 * 16.0 * 2.0));
  EXPECT_EQ(count_of(experts.forward, CollectiveKind::ReduceScatter), 1.0);
  EXPECT_EQ(count_of(experts.backward, CollectiveKind::AllGather), 1.0);
}

// 16 tokens of two ranks make 32 rows, 16 for each; one rank alone has 16 whatever its experts get.
TEST(Experts, TheBusiestRankHasNoMoreThanAllRows) {
  ExpertsCase c;
  const auto rows = [&](int ranks, double imbalance) {
    c.strategy.dp = c.strategy.ep = ranks, c.strategy.moe_imbalance = imbalance;
    return expert_shape(c.model, c.strategy, c.framework).rows;
  };
  EXPECT_EQ(rows(2, 1.5), 24);
  EXPECT_EQ(rows(2, 2.0), 32);
  EXPECT_EQ(rows(2, 3.0), 32);
  EXPECT_EQ(rows(1, 1.5), 16);
}

// A rank of 8 has one of 8 experts, or the mean of 16 of 128, whose spread is a quarter as large; a
// rank alone has all rows, and a run may say what it has.
TEST(Experts, OfARouterThatALossBalancesTheBusiestRankHasMoreThanTheMean) {
  Moe moe;
  moe.num_experts = 8;
  EXPECT_NEAR(expected_imbalance(moe, 8, 0.062), 1.088, 0.001);  // 1 + 0.062 * 1.424
  EXPECT_EQ(expected_imbalance(moe, 1, 0.062), 1.0);
  moe.num_experts = 128;
  EXPECT_NEAR(expected_imbalance(moe, 8, 0.062), 1.022, 0.001);
  ExpertsCase c;
  c.strategy.dp = c.strategy.ep = 4, c.strategy.micro_batch = 100;  // 1,600 rows
  c.framework.experts.load_spread = 0.062;
  EXPECT_EQ(expert_shape(c.model, c.strategy, c.framework).rows,
            std::ceil(1600.0 * expected_imbalance(*c.model.moe, 4, 0.062)));
  c.strategy.moe_imbalance = 1.0;
  EXPECT_EQ(expert_shape(c.model, c.strategy, c.framework).rows, 1600);
}

// 8 tokens visit 2 of 64 experts: 16 rows keep 16 busy, one row each, and the weights of the other
// 48 are not read.
TEST(Experts, NoMoreAreBusyThanThereAreRows) {
  ExpertsCase c;
  c.model.moe->num_experts = 64;
  EXPECT_EQ(expert_shape(c.model, c.strategy, c.framework).busy, 16);
  EXPECT_EQ(expert_shape(c.model, c.strategy, c.framework).rows_per_expert, 1);
  const Operator up = named(c.lower().forward, "expert_up");
  EXPECT_EQ(up.batch, 16);
  EXPECT_EQ(up.m, 1);
  // Rows, 16 weights of 16 by 12, results.
  EXPECT_EQ(up.moved, Bytes(2.0 * (16 * 16 + 16 * 16 * 12 + 16 * 12)));
}

TEST(Experts, TheBusiestRankOrTheCapacitySetsTheRows) {
  ExpertsCase c;
  c.strategy.dp = c.strategy.ep = 2, c.strategy.moe_imbalance = 1.5;
  EXPECT_EQ(expert_shape(c.model, c.strategy, c.framework).rows, 24);  // of 16
  c.strategy.moe_capacity = 1.25;
  EXPECT_EQ(expert_shape(c.model, c.strategy, c.framework).rows, 20);
  EXPECT_EQ(named(c.lower().forward, "expert_up").flops, 2.0 * 20.0 * 12.0 * 16.0 * FLOP);
  EXPECT_EQ(named(c.lower().forward, "router").flops, 2.0 * 8.0 * 4.0 * 16.0 * FLOP);
}

TEST(Experts, EachIsAKernelUnlessOneMultipliesThemAll) {
  ExpertsCase c;
  EXPECT_EQ(named(c.lower().forward, "expert_up").kernels, 4);
  EXPECT_TRUE(named(c.lower().forward, "expert_up").ragged);
  EXPECT_FALSE(named(c.lower().forward, "router").ragged);
  c.framework.experts.grouped_kernel = true;
  EXPECT_EQ(named(c.lower().forward, "expert_up").kernels, 1);
}

// 16 rows of 16: 1024 bytes read and written, there and back.
TEST(Experts, RowsOfLowPrecisionGemmsMayBeCopiedToAPaddedTensor) {
  ExpertsCase c;
  c.framework.experts.copies_to_pad = true;
  c.strategy.precision = Precision::Fp8;
  const LayerOperators experts = c.lower();
  for (const char* label : {"expert_pad", "expert_unpad"}) {
    EXPECT_EQ(named(experts.forward, label).moved, Bytes(16 * 16 * 4.0)) << label;
    EXPECT_EQ(named(experts.backward, label).moved, Bytes(16 * 16 * 4.0)) << label;
  }
  const auto pads = [](const OperatorList& list) {
    return std::any_of(list.begin(), list.end(), [](const Operator& op) {
      return op.label == std::string_view("expert_pad");
    });
  };
  c.strategy.precision = Precision::Bf16;
  EXPECT_FALSE(pads(c.lower().forward));
}

// 16 rows of 16 in 16 bits, 4 experts: 28 bytes an element in 2 kernels an expert and 2 of all
// rows; backward 40 bytes, 6 and 2.
TEST(Experts, MayGetTheirLastBiasOneByOneInFp32) {
  ExpertsCase c;
  c.model.moe->expert_bias = true;
  const auto down_biases = [](const OperatorList& list) {
    return std::count_if(list.begin(), list.end(), [](const Operator& op) {
      return op.label == std::string_view("expert_bias");
    });
  };
  EXPECT_EQ(down_biases(c.lower().forward), 0);
  const int before = total(c.lower().backward, &Operator::kernels);

  c.framework.experts.biases_one_by_one = true;
  const LayerOperators experts = c.lower();
  const Operator &forward = named(experts.forward, "expert_bias"),
                 &backward = named(experts.backward, "expert_bias");
  EXPECT_EQ(forward.moved, Bytes(16 * 16 * 28.0));
  EXPECT_EQ(forward.kernels, 4 * 2 + 2);
  EXPECT_EQ(backward.moved, Bytes(16 * 16 * 40.0));
  EXPECT_EQ(backward.kernels, 4 * 6 + 2);
  // In place of one kernel for the gradient of that bias.
  EXPECT_EQ(total(experts.backward, &Operator::kernels), before + 26 - 1);

  c.model.moe->expert_bias = false;
  EXPECT_EQ(down_biases(c.lower().forward), 0);
}

TEST(Experts, WeightsInsideTheExpertsNeedTheActivationInsteadOfTheOutput) {
  ExpertsCase c;
  c.framework.saved.weighted_in_experts = false;
  const Bytes outside = c.saved_inside();
  c.framework.saved.weighted_in_experts = true;
  // 16 rows: not 16 outputs of 2 bytes each, but 6 activations of an expert.
  EXPECT_EQ(outside - c.saved_inside(), Bytes(16.0 * 16.0 * 2.0 - 16.0 * 6.0 * 2.0));
  c.framework.fusion = ElementwiseFusion::Fused;
  const Bytes fused = c.saved_inside();
  c.framework.saved.weighted_in_experts = false;
  EXPECT_EQ(c.saved_inside() - fused, Bytes(16.0 * 16.0 * 2.0));
}

TEST(Experts, TokensMayTravelInTheFormatOfTheGemms) {
  ExpertsCase c;
  c.strategy.dp = c.strategy.ep = 2;
  c.strategy.precision = Precision::Fp8;
  const double rows = 16.0 * 16.0;
  EXPECT_DOUBLE_EQ(exchanged(c.lower().forward, "expert_dispatch"), 2.0 * rows);
  c.framework.experts.dispatches_low_precision = true;
  c.framework.low_precision.scaling = LowPrecisionScaling::Blockwise;
  const LayerOperators experts = c.lower();
  EXPECT_DOUBLE_EQ(exchanged(experts.forward, "expert_dispatch"), (1.0 + 4.0 / 128.0) * rows);
  EXPECT_DOUBLE_EQ(exchanged(experts.forward, "expert_combine"), 2.0 * rows);
  EXPECT_DOUBLE_EQ(exchanged(experts.backward, "expert_dispatch"), 2.0 * rows);
  c.strategy.precision = Precision::Bf16;
  EXPECT_DOUBLE_EQ(exchanged(c.lower().forward, "expert_dispatch"), 2.0 * rows);
}

// Four of twelve experts give back what they read: of three that a token visits one is among them.
TEST(ZeroExperts, AreChosenAndCostNothing) {
  Transformer model = small_moe();
  model.moe->num_experts = 8, model.moe->top_k = 3;
  const std::int64_t plain = parameters(model).total();
  model.moe->num_zero_experts = 4;
  EXPECT_EQ(visited_experts(*model.moe), 2);
  EXPECT_EQ(parameters(model).total(), plain + 8 * 1024 * 4);  // columns of routers
  const auto work = [](const Transformer& of) {
    return named(lower_block(of, Strategy{}, Framework{}, RecomputeKind::None, LayerKind::Moe)
                     .forward,
                 "expert_up")
        .flops.value();
  };
  Transformer two = small_moe();
  EXPECT_DOUBLE_EQ(work(model), work(two));
}

// Gemma 4: three norms in each layer with experts, a factor for each value the router reads and for
// each expert.
TEST(ExpertBranches, MayHaveNormsAndScalesOfTheirOwn) {
  Transformer model = small_moe();
  model.norm = Norm::RmsNorm;
  const std::int64_t plain = parameters(model).total();
  model.moe->branch_norms = model.moe->router_scales = true;
  EXPECT_EQ(parameters(model).total(), plain + 8 * (3 * 1024 + 1024 + 8));
  const LayerOperators block =
      lower_block(model, Strategy{}, Framework{}, RecomputeKind::None, LayerKind::Moe);
  EXPECT_GT(named(block.forward, "branch_norms").moved.value(), 0.0);
}

}  // namespace
}  // namespace llmsim::sim
