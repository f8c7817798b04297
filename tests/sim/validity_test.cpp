#include "sim/strategy/validity.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

std::string rule_of(const TrainingRun& run) {
  const auto broken = broken_rule(run.model, run.strategy, run.cluster);
  return broken ? broken->rule : "";
}

std::string message_of(const TrainingRun& run) {
  const auto broken = broken_rule(run.model, run.strategy, run.cluster);
  return broken ? broken->message : "";
}

TEST(Validity, AMeshThatMultipliesIsFine) { EXPECT_EQ(rule_of(small_run(8)), ""); }

TEST(Validity, TheMeshMustMultiplyToTheDevices) {
  TrainingRun run = small_run(8);
  run.strategy.tp = 2;
  EXPECT_EQ(message_of(run),
            "dp * tp * pp * cp = 8 * 2 * 1 * 1 = 16, but there are 8 devices; dp = 4 would fit");
}

TEST(Validity, TensorRanksMustDivideHeadsAndTheNearestAreNamed) {
  TrainingRun run = small_run(3);
  run.strategy.dp = 1, run.strategy.tp = 3;
  EXPECT_EQ(message_of(run), "tp = 3 does not divide num_heads = 8 (nearest: 2 or 4)");
}

TEST(Validity, TheNearestTensorRanksSuitTheWholeModel) {
  // 5 and 6 divide neither; 4 divides the heads but not ffn_size = 4098, 2 does.
  TrainingRun run = small_run(6);
  run.model.ffn_size = 4098;
  run.strategy.dp = 1, run.strategy.tp = 6;
  EXPECT_EQ(message_of(run), "tp = 6 does not divide num_heads = 8 (nearest: 2)");
}

TEST(Validity, APipelineThatOldMegatronShortenedIsNamed) {
  TrainingRun run = small_run(16);
  run.strategy.dp = 1, run.strategy.tp = 4, run.strategy.pp = 8;
  EXPECT_EQ(message_of(run),
            "dp * tp * pp * cp = 1 * 4 * 8 * 1 = 32, but there are 16 devices; tp * pp * cp = 32 "
            "must divide it (nearest: 16); "
            "Megatron-LM of 2021 lowered pp to devices / tp = 4 without a word: runs published as "
            "pp = 8 were that");
}

TEST(Validity, EveryRuleOfAPipelineNamesWhatWouldWork) {
  TrainingRun run = small_run(16);
  run.strategy.dp = 1, run.strategy.pp = 16, run.strategy.global_batch = 16;
  EXPECT_EQ(message_of(run),
            "pp * virtual_stages = 16 is more than the layers of the model, 8 (nearest: pp = 8)");
  run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4, run.strategy.virtual_stages = 3;
  EXPECT_EQ(message_of(run),
            "pp * virtual_stages = 12 is more than the layers of the model, 8 (nearest: "
            "virtual_stages = 2)");
  run.strategy.virtual_stages = 2, run.strategy.global_batch = 3,
  run.strategy.pipeline_schedule = PipelineSchedule::Interleaved;
  EXPECT_EQ(message_of(run),
            "num_microbatches = 3 is less than pp = 4, which the interleaved schedule needs "
            "(nearest: global_batch = 4, or pp = 3, "
            "or virtual_stages = 1)");
  run = small_run(1);
  run.strategy.virtual_stages = 2;
  EXPECT_EQ(message_of(run),
            "virtual_stages = 2 needs pp > 1, but pp = 1 (nearest: virtual_stages = 1, or pp = 2)");
}

TEST(Validity, MoreStagesThanLayersAreRefused) {
  TrainingRun run = small_run(16);
  run.strategy.dp = 1, run.strategy.pp = 16, run.strategy.global_batch = 16;
  EXPECT_EQ(rule_of(run), "pp * virtual stages > num_layers");
}

TEST(Validity, TheBatchMustDivide) {
  TrainingRun run = small_run(8);
  run.strategy.global_batch = 12;
  EXPECT_EQ(message_of(run),
            "dp * micro_batch = 8 does not divide global_batch = 12 (nearest: 6 or 12)");
}

TEST(Validity, InterleavingNeedsAMicroBatchForEachStage) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4, run.strategy.virtual_stages = 2;
  run.strategy.pipeline_schedule = PipelineSchedule::Interleaved, run.strategy.global_batch = 3;
  EXPECT_EQ(rule_of(run), "interleaving needs num_microbatches >= pp");
  run.strategy.global_batch = 5;
  EXPECT_EQ(rule_of(run), "");
}

TEST(Validity, SchedulesWithSplitPassesNameWhatTheyNeed) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 4, run.strategy.pipeline_schedule = PipelineSchedule::ZbH1;
  EXPECT_EQ(message_of(run),
            "pipeline_schedule = zb-h1 needs pp > 1, but pp = 1 (nearest: pp = 2)");
  run.strategy.dp = 1, run.strategy.pp = 4;
  EXPECT_EQ(message_of(run), "");
  run.strategy.pipeline_schedule = PipelineSchedule::ZbV;
  EXPECT_EQ(
      message_of(run),
      "pipeline_schedule = zb-v has two chunks of the model per stage, but virtual_stages = 1 "
      "(nearest: virtual_stages = 2)");
  run.strategy.virtual_stages = 2;
  EXPECT_EQ(message_of(run), "");
  run.strategy.pipeline_schedule = PipelineSchedule::VHalf;
  EXPECT_EQ(message_of(run), "");
  run.strategy.virtual_stages = 1;
  EXPECT_EQ(
      message_of(run),
      "pipeline_schedule = v-half has two chunks of the model per stage, but virtual_stages = 1 "
      "(nearest: virtual_stages = 2)");
  run.strategy.virtual_stages = 2;
  run.strategy.pipeline_schedule = PipelineSchedule::DualPipe;
  EXPECT_EQ(message_of(run),
            "pipeline_schedule = dualpipe has one chunk of the model per stage, but virtual_stages "
            "= 2 (nearest: virtual_stages = 1)");
  run.strategy.virtual_stages = 1;
  EXPECT_EQ(message_of(run), "");
}

TEST(Validity, AnAllToAllInsideARingDividesRanksAndHeads) {
  TrainingRun run = small_run(8);
  run.strategy.dp = 1, run.strategy.cp = 8;
  run.strategy.cp_scheme = ContextScheme::AllToAllRing, run.strategy.cp_inner = 3;
  EXPECT_EQ(message_of(run), "cp_inner = 3 does not divide cp = 8 (nearest: 2 or 4)");
  run.strategy.cp_inner = 4;
  EXPECT_EQ(message_of(run), "");
  run.model.num_kv_heads = 2;
  EXPECT_EQ(message_of(run), "cp_inner * tp = 4 does not divide num_kv_heads = 2 (nearest: 2)");
  run.strategy.cp_inner = 2;
  EXPECT_EQ(message_of(run), "");
  run.strategy.cp_inner = 1;
  run.model.num_kv_heads = 1;
  EXPECT_EQ(message_of(run), "");
}

// Megatron Core's "the data parallel size of the attention and moe layers must be the same".
TEST(Validity, StagesBetweenDataRanksNeedAsManyOfExperts) {
  TrainingRun run = small_run(8);
  run.model = small_moe();
  run.strategy.mesh_order = MeshOrder::DataLast;
  run.strategy.dp = 8, run.strategy.ep = 2;
  EXPECT_EQ(message_of(run), "");  // no stages
  run.strategy.dp = 4, run.strategy.pp = 2;
  EXPECT_EQ(message_of(run),
            "mesh_order = tp-cp-ep-pp-dp puts stages between data ranks, of which experts and all "
            "else must have as many: etp * ep = 2, but tp * cp = 1 (nearest: mesh_order = "
            "tp-cp-ep-dp-pp)");
  run.strategy.dp = 2, run.strategy.cp = 2;
  EXPECT_EQ(message_of(run), "");
}

TEST(Validity, DualPipeIsFedFromBothEnds) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4,
  run.strategy.pipeline_schedule = PipelineSchedule::DualPipe;
  run.strategy.global_batch = 6;
  EXPECT_EQ(message_of(run),
            "num_microbatches = 6, but dualpipe feeds half of them into each end: an even number "
            "of at least 2 * pp = 8 is needed "
            "(nearest: global_batch = 8)");
  run.strategy.global_batch = 11;
  EXPECT_EQ(message_of(run),
            "num_microbatches = 11, but dualpipe feeds half of them into each end: an even number "
            "of at least 2 * pp = 8 is needed "
            "(nearest: global_batch = 10 or 12)");
  run = small_run(3);
  run.strategy.dp = 1, run.strategy.pp = 3,
  run.strategy.pipeline_schedule = PipelineSchedule::DualPipe;
  EXPECT_EQ(message_of(run),
            "pipeline_schedule = dualpipe needs an even pp, but pp = 3 (nearest: pp = 2 or 4)");
}

TEST(Validity, ZeroNegativeAndAbsurdSizesAreRefused) {
  TrainingRun run = small_run(1);
  for (const int bad : {0, -1, 2000000000}) {
    run.strategy.micro_batch = bad;
    EXPECT_EQ(rule_of(run), "sizes out of range");
  }
}

TEST(Validity, ShardGroupsMustDivideTheDataRanks) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Hsdp, run.strategy.shard_size = 3;
  EXPECT_EQ(rule_of(run), "shard_size does not divide dp * cp");
}

TEST(Validity, BothFormsGiveTheSameVerdict) {
  for (int tp = 1; tp <= 9; ++tp) {
    for (int dp = 1; dp <= 9; ++dp) {
      TrainingRun run = small_run(8);
      run.strategy.tp = tp, run.strategy.dp = dp;
      const char* name = broken_rule_name(run.model, run.strategy, 8);
      EXPECT_EQ(rule_of(run), name == nullptr ? "" : name);
    }
  }
}

TEST(Validity, ExpertRanksDivideTheExpertsAndTheRanksThatShareThem) {
  TrainingRun run = small_run(12);
  run.strategy.ep = 4;
  EXPECT_EQ(message_of(run), "ep = 4 needs an MoE model, which the model is not (nearest: ep = 1)");
  run.model = small_moe();
  EXPECT_EQ(message_of(run), "");
  run.strategy.ep = 3;
  EXPECT_EQ(message_of(run), "ep = 3 does not divide num_experts = 8 (nearest: 2 or 4)");
  run.strategy.ep = 8;
  EXPECT_EQ(message_of(run), "ep = 8 does not divide dp * cp = 12 (nearest: 6 or 12)");
  run.strategy.ep = 4, run.strategy.sharding = Sharding::Hsdp, run.strategy.shard_size = 6;
  EXPECT_EQ(message_of(run), "ep = 4 does not divide shard_size = 6 (nearest: 3 or 6)");
}

// Of eight layers: the head may be a chunk of its own, the embedding not.
TEST(Validity, EachChunkButTheHeadsNeedsALayer) {
  TrainingRun run = small_run(2);
  run.strategy.dp = 1, run.strategy.pp = 2;
  run.strategy.stage_layers = {8, 0};
  EXPECT_EQ(message_of(run), "");
  run.strategy.stage_layers = {0, 8};
  EXPECT_EQ(message_of(run),
            "stage_layers = [0, 8]: each stage needs a layer for each of its chunks, "
            "virtual_stages = 1, but for the chunk of the head");
  run.strategy.stage_layers = {9, -1};
  EXPECT_NE(message_of(run), "");
  run.strategy.virtual_stages = 2, run.strategy.global_batch = 8;
  run.strategy.pipeline_schedule = PipelineSchedule::Interleaved;
  run.strategy.stage_layers = {3, 3, 2, 0};
  EXPECT_EQ(message_of(run), "");
  run.strategy.stage_layers = {8, 0};  // of stages, of two chunks each
  EXPECT_NE(message_of(run), "");
}

TEST(Validity, TensorRanksDivideTheWidthOfAnExpert) {
  TrainingRun run = small_run(8);
  run.model = small_moe();
  run.model.moe->expert_ffn_size = 12;
  run.strategy.dp = 1, run.strategy.tp = 8;
  EXPECT_EQ(message_of(run), "tp = 8 does not divide moe.expert_ffn_size = 12 (nearest: 6 or 12)");
}

TEST(Validity, WholeExpertsDivideAllRanksOfAStageAndNeedTheirTokensDivided) {
  TrainingRun run = small_run(8);
  run.model = small_moe();
  run.strategy.dp = 2, run.strategy.tp = 4, run.strategy.ep = 8;
  EXPECT_EQ(message_of(run), "ep = 8 does not divide dp * cp = 2 (nearest: 2)");
  run.strategy.etp = 1;
  EXPECT_EQ(message_of(run),
            "etp = 1 is not tp = 4, which needs sequence parallelism: each tensor rank dispatches "
            "tokens of its own (nearest: "
            "etp = tp)");
  run.strategy.sequence_parallel = true;
  EXPECT_EQ(message_of(run), "");
  run.strategy.etp = 2;
  EXPECT_EQ(message_of(run), "etp * ep = 16 does not divide tp * dp * cp = 8 (nearest: 8)");
  run.strategy.etp = 3;
  EXPECT_EQ(message_of(run), "etp = 3 does not divide tp = 4 (nearest: 2 or 4)");
  run.strategy.etp = 1, run.strategy.moe_imbalance = 0.5;
  EXPECT_EQ(message_of(run),
            "moe_imbalance and moe_capacity are relative to the mean load: 1 or more");
}

}  // namespace
}  // namespace llmsim::sim
