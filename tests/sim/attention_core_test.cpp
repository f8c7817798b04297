#include "sim/operators/attention_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/model/flops.h"
#include "sim/plan.h"
#include "sim/predict.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TrainingRun context_run(ContextScheme scheme, int ranks = 2) {
  TrainingRun run = small_run(ranks);
  run.strategy.dp = 1;
  run.strategy.cp = ranks;
  run.strategy.cp_scheme = scheme;
  return run;
}

LayerOperators core_of(const TrainingRun& run) {
  return operators_where(lower_block(run.model, run.strategy, run.framework, RecomputeKind::None),
                         [](const Operator& op) { return op.module == Module::CoreAttention; });
}

const Operator& only_collective(const OperatorList& operators) {
  return *std::find_if(operators.begin(), operators.end(),
                       [](const Operator& op) { return op.kind == OperatorKind::Collective; });
}

// One sequence of 1024 tokens, 8 heads of 128: half the square is 2 s^2 h = 2 * 1024^3 FLOP.
constexpr double kWhole = 2.0 * 1024.0 * 1024.0 * 1024.0;
// K and V of 512 tokens of width 1024 in two bytes.
constexpr double kKeysAndValues = 2.0 * 512.0 * 1024.0 * 2.0;

TEST(AttentionCore, EverySchemeDividesTheSameWorkByTheRanks) {
  EXPECT_DOUBLE_EQ(total_flops(core_of(small_run()).forward).value(), kWhole);
  for (const ContextScheme scheme :
       {ContextScheme::Ring, ContextScheme::AllGather, ContextScheme::AllToAll}) {
    for (const int ranks : {2, 4, 8}) {
      const LayerOperators core = core_of(context_run(scheme, ranks));
      EXPECT_DOUBLE_EQ(total_flops(core.forward).value(), kWhole / ranks) << name_of(scheme);
      EXPECT_DOUBLE_EQ(total_flops(core.backward).value(), 2.0 * kWhole / ranks) << name_of(scheme);
    }
  }
}

// Four documents in a sequence: a quarter of its scores, by the same bytes.
TEST(AttentionCore, PackedDocumentsDivideTheScores) {
  const LayerOperators whole = core_of(small_run());
  TrainingRun one = small_run();
  one.model.document_len = 256;
  const LayerOperators packed = core_of(one);
  EXPECT_DOUBLE_EQ(total_flops(packed.forward).value(), kWhole / 4.0);
  EXPECT_EQ(packed.forward.front().moved, whole.forward.front().moved);
  EXPECT_EQ(packed.forward.front().n, 256);
  EXPECT_TRUE(packed.forward.front().causal);
  for (const ContextScheme scheme :
       {ContextScheme::Ring, ContextScheme::AllGather, ContextScheme::AllToAll}) {
    TrainingRun run = context_run(scheme, 2);
    run.model.document_len = 256;
    EXPECT_DOUBLE_EQ(total_flops(core_of(run).forward).value(), kWhole / 4.0 / 2.0)
        << name_of(scheme);
  }
}

TEST(AttentionCore, ADocumentOfAllTokensIsASequence) {
  for (const ContextScheme scheme :
       {ContextScheme::Ring, ContextScheme::AllGather, ContextScheme::AllToAll}) {
    TrainingRun run = context_run(scheme, 4);
    const LayerOperators plain = core_of(run);
    run.model.document_len = run.model.seq_len;
    const LayerOperators one = core_of(run);
    for (std::size_t i = 0; i < plain.forward.size(); ++i) {
      EXPECT_EQ(one.forward[i].flops, plain.forward[i].flops);
      EXPECT_EQ(one.forward[i].n, plain.forward[i].n);
      EXPECT_EQ(one.forward[i].causal, plain.forward[i].causal);
    }
  }
}

TEST(AttentionCore, UnfusedGemmsOfTf32RunOnTheMatrixUnits) {
  TrainingRun run = small_run();
  run.strategy.flash_attention = false;
  run.strategy.precision = Precision::Fp32;
  const LayerOperators vector = core_of(run);
  run.strategy.precision = Precision::Tf32;
  const LayerOperators matrix = core_of(run);
  EXPECT_EQ(vector.forward.front().dtype, DType::Fp32);
  EXPECT_EQ(matrix.forward.front().dtype, DType::Tf32);
  // The tensors are the same.
  EXPECT_EQ(total(matrix.forward, &Operator::moved), total(vector.forward, &Operator::moved));
}

TEST(AttentionCore, ARingComputesItsOwnTriangleAndHalfOfEachOtherPiece) {
  const LayerOperators core = core_of(context_run(ContextScheme::Ring, 4));
  const Operator &own = core.forward[0], &others = core.forward[1];
  EXPECT_TRUE(own.causal);
  EXPECT_EQ(own.m, 256);
  EXPECT_EQ(own.n, 256);
  EXPECT_FALSE(others.causal);
  EXPECT_EQ(others.m, 256);
  EXPECT_EQ(others.n, 128);
  EXPECT_EQ(others.launches, 3);
}

// Without a mask the square is whole, and no rank waits for another in any order.
TEST(AttentionCore, TheTokensOfAnEncoderSeeTheWholeSquare) {
  for (const bool balanced : {true, false}) {
    for (const ContextScheme scheme :
         {ContextScheme::Ring, ContextScheme::AllGather, ContextScheme::AllToAll}) {
      TrainingRun run = context_run(scheme, 4);
      run.model.encoder = Encoder{};
      run.strategy.cp_balanced = balanced;
      const LayerOperators core = core_of(run);
      EXPECT_DOUBLE_EQ(total_flops(core.forward).value(), 2.0 * kWhole / 4) << name_of(scheme);
      for (const Operator& op : core.forward) {
        EXPECT_FALSE(op.causal) << name_of(scheme);
        EXPECT_EQ(op.repeats, 1.0) << name_of(scheme);
      }
    }
  }
}

TEST(AttentionCore, ARingSendsKeysAndValuesOnAndTheirGradientsBack) {
  const LayerOperators core = core_of(context_run(ContextScheme::Ring));
  EXPECT_EQ(only_collective(core.forward).collective, CollectiveKind::SendRecv);
  EXPECT_DOUBLE_EQ(only_collective(core.forward).message.value(), kKeysAndValues);
  EXPECT_EQ(only_collective(core_of(context_run(ContextScheme::Ring, 8)).forward).launches, 7);
  EXPECT_DOUBLE_EQ(only_collective(core.backward).message.value(), 2.0 * kKeysAndValues);
}

TEST(AttentionCore, GatheringMovesTheKeysOfTheWholeSequence) {
  const LayerOperators core = core_of(context_run(ContextScheme::AllGather));
  EXPECT_EQ(only_collective(core.forward).collective, CollectiveKind::AllGather);
  EXPECT_DOUBLE_EQ(only_collective(core.forward).message.value(), 2.0 * kKeysAndValues);
}

TEST(AttentionCore, ExchangingHeadsMovesQueriesKeysValuesAndOutput) {
  const LayerOperators core = core_of(context_run(ContextScheme::AllToAll, 4));
  double bytes = 0.0;
  for (const Operator& op : core.forward) bytes += op.message.value();
  EXPECT_DOUBLE_EQ(bytes, 4.0 * 256.0 * 1024.0 * 2.0);
  const auto kernel =
      std::find_if(core.forward.begin(), core.forward.end(),
                   [](const Operator& op) { return op.kind == OperatorKind::Attention; });
  EXPECT_EQ(kernel->batch, 2);
  EXPECT_EQ(kernel->m, 1024);
}

TEST(AttentionCore, FewKeyHeadsAreSentToSeveralRanks) {
  // 2 key heads on 4 ranks: each rank needs one, so the 256 tokens' keys of width 256 travel twice.
  TrainingRun run = context_run(ContextScheme::AllToAll, 4);
  run.model.num_kv_heads = 2;
  EXPECT_DOUBLE_EQ(only_collective(core_of(run).forward).message.value(),
                   2.0 * 256.0 * 256.0 * 2.0);
}

TrainingRun hierarchical_run(int inner, int ranks = 8) {
  TrainingRun run = context_run(ContextScheme::AllToAllRing, ranks);
  run.strategy.cp_inner = inner;
  return run;
}

// 8 ranks with 128 tokens and 8 heads each: over 4 neighbours 512 tokens of 2 heads, in a ring of
// 2.
TEST(AttentionCore, AnAllToAllInsideARingGivesItMoreTokensOfFewerHeads) {
  const LayerOperators core = core_of(hierarchical_run(4));
  double exchanged = 0.0, sent = 0.0;
  for (const Operator& op : core.forward) {
    if (op.group == GroupKind::ContextInner) exchanged += op.message.value();
    if (op.group == GroupKind::ContextOuter) sent += op.launches * op.message.value();
  }
  const double tensor = 128.0 * 1024.0 * 2.0;
  EXPECT_DOUBLE_EQ(exchanged, 4.0 * tensor);  // q, k, v and the output
  EXPECT_DOUBLE_EQ(sent, 2.0 * tensor);       // k and v, once
  EXPECT_DOUBLE_EQ(total_flops(core.forward).value(), kWhole / 8.0);
  const auto kernel =
      std::find_if(core.forward.begin(), core.forward.end(),
                   [](const Operator& op) { return op.kind == OperatorKind::Attention; });
  EXPECT_EQ(kernel->batch, 2);
  EXPECT_EQ(kernel->m, 512);
  EXPECT_EQ(core.forward.front().collective, CollectiveKind::AllToAll);
  EXPECT_EQ(core.forward.back().collective, CollectiveKind::AllToAll);
  EXPECT_EQ(core.backward.front().message, Bytes(tensor));  // gradients of the output
}

TEST(AttentionCore, AllToAllsOfAllRanksAndOfOneAreUlyssesAndARing) {
  const auto same = [](const TrainingRun& one, const TrainingRun& other) {
    const Prediction first = predict(one), second = predict(other);
    EXPECT_EQ(first.step_time, second.step_time);
    EXPECT_EQ(first.memory.stages[0].peak, second.memory.stages[0].peak);
    EXPECT_EQ(first.communication.size(), second.communication.size());
  };
  for (const int ranks : {2, 4, 8}) {
    same(hierarchical_run(ranks, ranks), context_run(ContextScheme::AllToAll, ranks));
    same(hierarchical_run(1, ranks), context_run(ContextScheme::Ring, ranks));
  }
  TrainingRun unsaid = hierarchical_run(1);
  unsaid.strategy.cp_inner.reset();
  same(unsaid, context_run(ContextScheme::Ring, 8));
}

// Over two nodes of 4 GPUs the ring alone leaves a node, once in place of 7 times: of all groups of
// neighbours the whole node is the fastest where its links are, and the communication has both.
TEST(AttentionCore, AnAllToAllInsideANodeLeavesTheRingBetweenNodes) {
  const auto on_nodes = [](TrainingRun run) {
    run.model.seq_len = run.model.max_positions = 65536;
    run.cluster.devices_per_node = run.cluster.fabric.devices = 4;
    run.cluster.fabric.device_bandwidth = 400.0 * GBps;
    run.cluster.network.node_bandwidth = 50.0 * GBps;
    return predict(run);
  };
  const Prediction both = on_nodes(hierarchical_run(4));
  EXPECT_LT(both.step_time, on_nodes(context_run(ContextScheme::AllToAll, 8)).step_time);
  std::vector<std::pair<std::string, int>> groups;
  for (const CommunicationTerm& term : both.communication) {
    if (std::string(term.group) == "cp") groups.emplace_back(term.collective, term.ranks);
  }
  EXPECT_EQ(groups,
            (std::vector<std::pair<std::string, int>>{{"all_to_all", 4}, {"send_recv", 2}}));
}

TEST(AttentionCore, InPlainOrderAllWaitForTheLastPiece) {
  // Of four pieces the last sees 3.5 of the 8 quarter squares of work: 7/4 of the mean.
  TrainingRun run = context_run(ContextScheme::AllGather, 4);
  EXPECT_DOUBLE_EQ(core_of(run).forward[1].repeats, 1.0);
  run.strategy.cp_balanced = false;
  EXPECT_DOUBLE_EQ(core_of(run).forward[1].repeats, 1.75);
}

TEST(AttentionCore, ARingHidesItsMessagesUnderTheKernels) {
  // 100 GB/s: 2 MiB take 21 us and 8.4 us of latency; the kernel beside them takes 5.4 us at 100
  // TFLOP/s, a million times longer at 100 MFLOP/s.
  TrainingRun run = context_run(ContextScheme::Ring);
  const PassPrice fast = layer_prices(run).blocks[0].forward;
  const Seconds message = Seconds(8.4e-6) + Bytes(kKeysAndValues) / (100.0 * GBps);
  const Seconds kernel = 0.25 * kWhole * FLOP / (100.0 * TFLOPS);
  EXPECT_NEAR(fast.context.value(), (message - kernel).value(), 1e-12);
  run.cluster.device.matrix_peak.fill(1e-4 * TFLOPS);
  EXPECT_EQ(layer_prices(run).blocks[0].forward.context, Seconds(0.0));
}

TEST(AttentionCore, AWindowGathersBecauseARingWouldPassMostInVain) {
  TrainingRun run = context_run(ContextScheme::Ring);
  run.model.sliding_window = 128;
  EXPECT_EQ(context_scheme_of(run.model, run.strategy), ContextScheme::AllGather);
  run.strategy.cp = 4, run.strategy.cp_inner = 2;
  run.strategy.cp_scheme = ContextScheme::AllToAllRing;
  EXPECT_EQ(context_scheme_of(run.model, run.strategy), ContextScheme::AllGather);
  run.strategy.cp_scheme = ContextScheme::Ring;
  run.model.sliding_window = 4096;  // sees everything
  EXPECT_EQ(context_scheme_of(run.model, run.strategy), ContextScheme::Ring);
}

TEST(AttentionCore, LayersWithAndWithoutWindowCostTheirMean) {
  TrainingRun run = small_run();
  run.model.sliding_window = 256, run.model.sliding_window_interval = 2;
  const Prediction mixed = predict(run);
  const double tokens = 8.0 * 1024.0;
  EXPECT_DOUBLE_EQ(mixed.model_flops.value(),
                   3.0 * tokens * forward_flops_per_token(run.model, true).value());
  run.model.sliding_window_interval = 1;
  const Seconds windowed = predict(run).step_time;
  run.model.sliding_window.reset();
  const Seconds whole = predict(run).step_time;
  EXPECT_NEAR(mixed.step_time.value(), 0.5 * (windowed + whole).value(), 1e-9 * whole.value());
}

TEST(ContextParallelism, IsAGroupOfItsOwnInTheCommunicationAndATermOfTheStep) {
  const Prediction p = predict(context_run(ContextScheme::AllGather));
  ASSERT_TRUE(p.feasible());
  const auto group =
      std::find_if(p.communication.begin(), p.communication.end(),
                   [](const CommunicationTerm& term) { return std::string(term.group) == "cp"; });
  ASSERT_NE(group, p.communication.end());
  EXPECT_EQ(group->ranks, 2);
  // 16 micro-batches, 8 layers, forward and backward.
  EXPECT_DOUBLE_EQ(group->count, 256.0);
  EXPECT_TRUE(std::any_of(p.breakdown.begin(), p.breakdown.end(), [](const TimeTerm& term) {
    return std::string(term.name) == "context_parallel_exposed";
  }));
}

TEST(ContextParallelism, NeedsTwoPiecesOfTheSequenceForEachRankInBalancedOrder) {
  TrainingRun run = context_run(ContextScheme::Ring);
  run.model.seq_len = 1022;
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->message,
            "2 * cp = 4 does not divide seq_len = 1022 (nearest: 2 or 7)");
  run.strategy.cp_balanced = false;
  EXPECT_FALSE(broken_rule(run.model, run.strategy, run.cluster));
}

TEST(ContextParallelism, ExchangesNoMoreThanThereAreHeads) {
  const TrainingRun run = context_run(ContextScheme::AllToAll, 16);
  EXPECT_EQ(broken_rule(run.model, run.strategy, run.cluster)->message,
            "cp * tp = 16 does not divide num_heads = 8 (nearest: 8)");
}

TEST(ContextParallelism, IsSearchedWhereSequencesAreLong) {
  PlanQuery query;
  query.base = small_run(8);
  query.top = 1000;
  query.base.model.seq_len = query.base.model.max_positions = 32768;
  query.base.strategy.global_batch = 8;
  query.base.strategy.dp = 1;
  int longest = 0;
  Plan found = plan(query);
  found.plans.insert(found.plans.end(), found.others.begin(), found.others.end());
  for (const Prediction& p : found.plans) longest = std::max(longest, p.run.strategy.cp);
  EXPECT_EQ(longest, 8);
  query.base.model.seq_len = 1024;  // the least that a rank is left with
  const Plan plain = plan(query);
  ASSERT_FALSE(plain.plans.empty());
  for (const Prediction& p : plain.plans) EXPECT_EQ(p.run.strategy.cp, 1);
}

}  // namespace
}  // namespace llmsim::sim
