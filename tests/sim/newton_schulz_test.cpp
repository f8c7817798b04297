#include "sim/operators/newton_schulz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

using enum MuonTensorMode;

constexpr double kEdge = 1024.0, kCube = kEdge * kEdge * kEdge;

Strategy over_tensor_ranks(int ranks) {
  Strategy strategy;
  strategy.tp = ranks;
  return strategy;
}

std::vector<MuonMatrices> of_one_block(const Transformer& model, const Strategy& strategy,
                                       const UpdateBehaviour& update = {}) {
  return muon_matrices(model, strategy, update, {1});
}

// In cubes of the width, on one tensor rank.
double block_cubes(const Strategy& strategy, MuonTensorMode mode,
                   const UpdateBehaviour& update = {}) {
  double flops = 0.0;
  for (const MuonMatrices& equal : of_one_block(small_model(), strategy, update))
    flops += static_cast<double>(equal.count) * newton_schulz_flops(equal, mode, update).value();
  return flops / kCube;
}

// Bytes of all messages of a block.
double block_messages(const Strategy& strategy, MuonTensorMode mode, CollectiveKind kind) {
  double bytes = 0.0;
  for (const MuonMatrices& equal : of_one_block(small_model(), strategy)) {
    for (const auto& [op, times] : newton_schulz(equal, mode, {})) {
      if (op.kind == OperatorKind::Collective && op.collective == kind)
        bytes += static_cast<double>(equal.count) * times * op.message.value();
    }
  }
  return bytes;
}

// Queries, keys, values and the output are (m, m), up and down (m, 4 m): five steps of
// 2 (2 m^2 n + m^3).
TEST(NewtonSchulz, MakesTheMatricesOfABlockOrthogonal) {
  for (const MuonTensorMode mode : {Blockwise, Duplicated, Distributed})
    EXPECT_DOUBLE_EQ(block_cubes(over_tensor_ranks(1), mode), 5.0 * (4.0 * 6.0 + 2.0 * 18.0));
}

// Shards of (m, m / 2) and (m, 2 m).
TEST(NewtonSchulz, BlockwiseWorksOnShardsAlone) {
  EXPECT_DOUBLE_EQ(block_cubes(over_tensor_ranks(2), Blockwise),
                   5.0 * (4.0 * 2.0 * (2.0 / 4.0 + 1.0 / 8.0) + 2.0 * 2.0 * (2.0 * 2.0 + 1.0)));
  for (const CollectiveKind kind : {CollectiveKind::AllGather, CollectiveKind::AllReduce})
    EXPECT_EQ(block_messages(over_tensor_ranks(2), Blockwise, kind), 0.0);
}

// 12 m^2 values, gathered in fp32.
TEST(NewtonSchulz, DuplicatedDoesAllOnEachRank) {
  EXPECT_DOUBLE_EQ(block_cubes(over_tensor_ranks(2), Duplicated),
                   block_cubes(over_tensor_ranks(1), Duplicated));
  EXPECT_DOUBLE_EQ(block_messages(over_tensor_ranks(2), Duplicated, CollectiveKind::AllGather),
                   4.0 * 12.0 * kEdge * kEdge);
}

// X is (m, m / 2) or (m, 2 m), A A whole on each rank; five sums of m^2 16-bit values for each of
// six matrices.
TEST(NewtonSchulz, DistributedSumsSquares) {
  EXPECT_DOUBLE_EQ(block_cubes(over_tensor_ranks(2), Distributed),
                   5.0 * (4.0 * 2.0 * (2.0 / 2.0 + 1.0) + 2.0 * 2.0 * (2.0 * 2.0 + 1.0)));
  EXPECT_DOUBLE_EQ(block_messages(over_tensor_ranks(2), Distributed, CollectiveKind::AllReduce),
                   5.0 * 6.0 * 2.0 * kEdge * kEdge);
}

// The edge that is not divided is the longer one: A is (4 m, 4 m).
TEST(NewtonSchulz, DistributedMayWorkOnTheLongerEdge) {
  const MuonMatrices tall{
      .rows = 4096, .columns = 1024, .divided = TensorAxis::Columns, .ranks = 2, .count = 1};
  EXPECT_DOUBLE_EQ(newton_schulz_flops(tall, Distributed, {}).value(),
                   5.0 * 2.0 * (2.0 * 16.0 * 0.5 + 64.0) * kCube);
}

// 2 (1.5 m^2 n + 0.5 m^3); not of a matrix with an edge that is no multiple of 8.
TEST(NewtonSchulz, SymmetricKernelsMakeHalfOfTheSquares) {
  const UpdateBehaviour update{.symmetric_gemms = true};
  EXPECT_DOUBLE_EQ(block_cubes(over_tensor_ranks(1), Duplicated, update),
                   5.0 * (4.0 * 2.0 * 2.0 + 2.0 * 2.0 * 6.5));
  const MuonMatrices odd{.rows = 1024, .columns = 1028, .count = 1};
  EXPECT_EQ(newton_schulz_flops(odd, Duplicated, update), newton_schulz_flops(odd, Duplicated, {}));
}

// (m, 4 m): 4 GEMMs of 2 m^2 4 m and 14 of 2 m^3; squares as usual.
TEST(NewtonSchulz, GramIterationsWorkOnSquares) {
  EXPECT_DOUBLE_EQ(block_cubes(over_tensor_ranks(1), Duplicated, {.gram_newton_schulz = true}),
                   4.0 * 30.0 + 2.0 * (4.0 * 8.0 + 14.0 * 2.0));
}

TEST(NewtonSchulz, GateAndUpAreOneMatrixOrTwo) {
  Transformer model = small_model();
  model.gated_mlp = true;
  const auto count_wide = [&](const UpdateBehaviour& update, std::int64_t columns) {
    std::int64_t count = 0;
    for (const MuonMatrices& equal : of_one_block(model, {}, update))
      count += equal.columns == columns ? equal.count : 0;
    return count;
  };
  EXPECT_EQ(count_wide({.splits_gate = true}, 4096), 2);
  EXPECT_EQ(count_wide({.splits_gate = false}, 8192), 1);
}

TEST(NewtonSchulz, ExpertsAreMatricesOfTheirOwn) {
  Strategy strategy;
  strategy.dp = strategy.ep = 4;
  std::int64_t experts = 0, routers = 0;
  for (const MuonMatrices& equal : of_one_block(small_moe(), strategy)) {
    if (equal.of_experts) experts += equal.count;
    if (equal.rows == 1024 && equal.columns == 8) routers += equal.count;
  }
  EXPECT_EQ(experts, 2 * 2);  // up and down of two of the eight
  EXPECT_EQ(routers, 1);
}

// Gates, states and steps of a Mamba mixer stand side by side in its input.
TEST(NewtonSchulz, TheInputOfMambaIsLeftToAdam) {
  Transformer model = small_model();
  model.mamba = Mamba{.num_heads = 32, .head_dim = 64, .num_groups = 8, .state_size = 128};
  model.layer_pattern = "M-M-M-M-";
  double values = 0.0;
  const LayerWeights weights = layer_weights(model, layer_kinds(model)[0]);
  for (const MuonMatrices& equal : of_one_block(model, {}))
    values += static_cast<double>(equal.count) * equal.values();
  const LayerWeight output = weights[WeightName::MixerOutput];
  ASSERT_GT(weights[WeightName::MixerInput].rows, 0);
  EXPECT_EQ(values, static_cast<double>(output.rows * output.columns));
}

TEST(NewtonSchulz, AGatheredMatrixTakesMemoryTwice) {
  const MuonMatrices divided{
      .rows = 1024, .columns = 4096, .divided = TensorAxis::Columns, .ranks = 2, .count = 1};
  EXPECT_DOUBLE_EQ(newton_schulz_bytes(divided, Duplicated), 16.0 * 1024.0 * 4096.0);
  EXPECT_DOUBLE_EQ(newton_schulz_bytes(divided, Blockwise), 8.0 * 1024.0 * 2048.0);
}

// --- how ranks share matrices ---

std::vector<SharedMatrices> random_matrices(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<SharedMatrices> matrices(1 + random() % 6);
  for (SharedMatrices& equal : matrices) {
    equal.count = 1 + random() % 100;
    equal.work = 1.0 + static_cast<int>(random() % 50);
    equal.values = equal.work, equal.time = Seconds(equal.work);
  }
  return matrices;
}

TEST(BusiestRank, HasAtLeastTheMeanAndTheLargestMatrix) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const std::vector<SharedMatrices> matrices = random_matrices(seed);
    double all = 0.0, largest = 0.0;
    for (const SharedMatrices& equal : matrices) {
      all += static_cast<double>(equal.count) * equal.work;
      largest = std::max(largest, equal.work);
    }
    const int ranks = 1 + static_cast<int>(seed % 37);
    const double most = busiest_rank(matrices, ranks).values;
    EXPECT_GE(most, all / ranks) << seed;
    EXPECT_GE(most, largest) << seed;
    EXPECT_LE(most, all / ranks + largest) << seed;  // as of any list in this order (Graham 1969)
    EXPECT_DOUBLE_EQ(busiest_rank(matrices, ranks).time.value(), most) << seed;
    EXPECT_DOUBLE_EQ(busiest_rank(matrices, 1).values, all) << seed;
  }
}

TEST(BusiestRank, HasTheMeanWhereRanksDivideAllCounts) {
  EXPECT_DOUBLE_EQ(
      busiest_rank(
          {{.count = 32, .work = 3.0, .values = 3.0}, {.count = 16, .work = 5.0, .values = 5.0}}, 8)
          .values,
      4.0 * 3.0 + 2.0 * 5.0);
}

// 5, 4, 3, 3, 3 on two ranks: 5 + 3 and 4 + 3 + 3.
TEST(BusiestRank, TheLargestAreGivenFirst) {
  const std::vector<SharedMatrices> matrices{{.count = 3, .work = 3.0, .values = 3.0},
                                             {.count = 1, .work = 5.0, .values = 5.0},
                                             {.count = 1, .work = 4.0, .values = 4.0}};
  EXPECT_DOUBLE_EQ(busiest_rank(matrices, 2).values, 10.0);
}

TEST(BusiestRank, SomeHaveNothingWhereMatricesAreFew) {
  EXPECT_DOUBLE_EQ(busiest_rank({{.count = 3, .work = 7.0, .values = 2.0}}, 64).values, 2.0);
}

}  // namespace
}  // namespace llmsim::sim
