#include "sim/memory/shards.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TEST(RankParameters, TensorRanksShareTheMatrices) {
  TrainingRun run = small_run(8);
  run.strategy.dp = 1, run.strategy.tp = 8;
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  const Parameters whole = parameters(run.model);
  EXPECT_DOUBLE_EQ(rank.embedding, static_cast<double>(whole.embedding) / 8.0 +
                                       static_cast<double>(whole.positions));
}

TEST(RankParameters, ATiedHeadIsASecondCopyOnlyOnAnotherPart) {
  RankParameters rank{.kinds = {{{.own = 10.0}}}, .embedding = 100.0, .head = 50.0};
  const ModelChunk whole{.blocks = 2, .embedding = true, .head = true, .of_kind = {2}},
      last{.blocks = 2, .head = true, .of_kind = {2}};
  EXPECT_EQ(rank.held(whole), 2.0 * 10.0 + 100.0 + 50.0);
  rank.tied = true;
  EXPECT_EQ(rank.held(whole), 2.0 * 10.0 + 100.0);
  EXPECT_EQ(rank.held(last), 2.0 * 10.0 + 50.0);
}

// Stage 0 of a V has the embedding in its first part and the head in its last: what of the head is
// no table is left of it.
TEST(RankParameters, ATiedHeadOnTheStageOfTheEmbeddingIsNoSecondCopy) {
  RankParameters rank{.kinds = {{{.own = 10.0}}},
                      .embedding = 100.0,
                      .head = 95.0,
                      .head_layers = 5.0,
                      .tied = true};
  const ModelChunk first{.blocks = 2, .embedding = true, .of_kind = {2}},
      last{.blocks = 1, .head = true, .meets_embedding = true, .of_kind = {1}};
  EXPECT_EQ(rank.held(first) + rank.held(last), (2.0 * 10.0 + 100.0) + (1.0 * 10.0 + 5.0));
  EXPECT_EQ(rank.read_embedding_and_head(last), 95.0);
  // Untied, the head has a table of its own, but predicted tokens are embedded by the table that is
  // there.
  rank.tied = false, rank.predicts = true, rank.prediction = 7.0;
  EXPECT_EQ(rank.embedding_and_head(last), 95.0 + 7.0);
  EXPECT_EQ(rank.read_embedding_and_head(last), 95.0 + 7.0 + 100.0);
}

TEST(RankParameters, AdaptersAreAllThatIsTrained) {
  RankParameters rank{
      .kinds = {{{.own = 10.0, .adapters = 3.0}}}, .embedding = 100.0, .head = 50.0};
  const ModelChunk first{.blocks = 2, .embedding = true, .of_kind = {2}};
  EXPECT_EQ(rank.trained(first), 2.0 * 10.0 + 100.0);
  rank.adapted = true;
  EXPECT_EQ(rank.trained(first), 2.0 * 3.0);
  EXPECT_EQ(rank.held(first), 2.0 * 10.0 + 100.0);
}

// ZeRO-1 over groups of four of eight ranks: each state is there twice, and its gradients are
// summed over both.
TEST(StateShards, GroupsOfRanksHoldCopiesOfAllShards) {
  Strategy strategy;
  strategy.dp = 8, strategy.sharding = Sharding::Zero1;
  EXPECT_EQ(strategy.shard_ranks(), 8);
  EXPECT_FALSE(strategy.replicates_shards());
  strategy.shard_size = 4;
  EXPECT_EQ(strategy.shard_ranks(), 4);
  EXPECT_TRUE(strategy.replicates_shards());
  EXPECT_EQ(state_shards(strategy).optimizer, 4.0);
  strategy.sharding = Sharding::None;
  EXPECT_EQ(strategy.shard_ranks(), 1);
  EXPECT_FALSE(strategy.replicates_shards());
}

TEST(StateShards, EachStageOfZeroDividesOneMoreKindOfState) {
  const auto shares = [](Sharding sharding) {
    Strategy strategy;
    strategy.dp = 8, strategy.sharding = sharding;
    strategy.shard_size = sharding == Sharding::Hsdp ? 4 : 0;
    const StateShards shards = state_shards(strategy);
    return std::array{shards.weights, shards.gradients, shards.optimizer};
  };
  EXPECT_EQ(shares(Sharding::None), (std::array{1.0, 1.0, 1.0}));
  EXPECT_EQ(shares(Sharding::Zero1), (std::array{1.0, 1.0, 8.0}));
  EXPECT_EQ(shares(Sharding::Zero2), (std::array{1.0, 8.0, 8.0}));
  EXPECT_EQ(shares(Sharding::Zero3), (std::array{8.0, 8.0, 8.0}));
  EXPECT_EQ(shares(Sharding::Hsdp), (std::array{4.0, 4.0, 4.0}));
}

// By hand: attention 4 * 1024^2, an expert 2 * 1024 * 512, a router 1024 * 8, two norm weights of
// 1024.
TEST(RankParameters, ExpertRanksShareTheExpertsAlone) {
  TrainingRun run = small_run(4);
  run.model = small_moe();
  run.strategy.ep = 4;
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  const KindParameters& block = rank.kinds[0];
  EXPECT_EQ(block.own, 4.0 * 1024 * 1024 + 1024 * 8 + 2 * 1024);
  EXPECT_EQ(block.experts, 8.0 / 4.0 * 2 * 1024 * 512);
  EXPECT_EQ(block.partial, 1024.0 * 8);
  const ModelChunk part{.blocks = 3, .of_kind = {3}, .moe_blocks = 3};
  EXPECT_EQ(rank.held(part), 3.0 * (block.own + block.experts));
  EXPECT_EQ(rank.divided_experts(part), 3.0 * block.experts);
}

TEST(RankParameters, AModelOfBothKindsHasAllItsParameters) {
  TrainingRun run = small_run();
  run.model = small_moe();
  run.model.moe->num_dense_layers = 1, run.model.moe->layer_interval = 2;
  run.model.moe->num_shared_experts = 2, run.model.moe->shared_expert_ffn_size = 128,
  run.model.moe->shared_expert_gate = true;
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  double held = 0.0;
  for (const ModelChunk& part : model_chunks(run.model, run.strategy)) held += rank.held(part);
  EXPECT_EQ(held, static_cast<double>(parameters(run.model).total()));
}

TEST(TrainedParameters, AreThoseOfTheExpertsAndTheOthers) {
  TrainingRun run = small_run(8);
  run.model = small_moe();
  run.strategy.ep = 4;
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  const ModelChunk chunk = model_chunks(run.model, run.strategy).front();
  const StageParameters parts = trained_parameters(rank, chunk);
  EXPECT_GT(parts.experts, 0.0);
  EXPECT_EQ(parts.shared + parts.experts, rank.trained(chunk));
}

TEST(StateShards, ExpertsAreSharedByFewerRanks) {
  Strategy strategy;
  strategy.dp = 8, strategy.ep = 4, strategy.sharding = Sharding::Zero3;
  EXPECT_EQ(state_shards(strategy).weights, 8.0);
  EXPECT_EQ(expert_state_shards(strategy).weights, 2.0);
}

}  // namespace
}  // namespace llmsim::sim
