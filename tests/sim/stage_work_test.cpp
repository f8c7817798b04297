#include "sim/schedule/stage_work.h"

#include <gtest/gtest.h>

#include "sim/memory/step_walk.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Of the tied table, between the first and the last of two stages.
Bytes table_message(const TrainingRun& run) {
  Bytes sum;
  for (const RepeatedCollective& closing :
       closing_collectives(run, stage_chunks(run.model, run.strategy, 0))) {
    if (closing.group == GroupKind::Embedding) sum += closing.calls * closing.message;
  }
  return sum;
}

TrainingRun tied_stages(int tensor) {
  TrainingRun run = small_run(2 * tensor);
  run.model.tied_embeddings = true;
  run.strategy.dp = 1, run.strategy.pp = 2, run.strategy.tp = tensor;
  return run;
}

// 32768 rows of 1024, in 4 bytes where gradients are reduced in fp32 and in 2 where they are not:
// however many bytes hold one, as DeepSpeed's bf16 optimizer does in 8 (16 bits, fp32 sums, and
// flat copies).
TEST(ClosingCollectives, GradientsOfATiedTableTravelInTheFormatOfTheirReduction) {
  TrainingRun run = tied_stages(1);
  for (const double stored : {2.0, 4.0, 8.0}) {
    run.framework.storage.gradient_bytes = stored;
    run.framework.gradients.reduced_in_fp32 = true;
    EXPECT_EQ(table_message(run), Bytes(4.0 * 32768 * 1024)) << stored;
    run.framework.gradients.reduced_in_fp32 = false;
    EXPECT_EQ(table_message(run), Bytes(2.0 * 32768 * 1024)) << stored;
  }
}

TEST(ClosingCollectives, EachTensorRankSendsItsPartOfATiedTable) {
  TrainingRun run = tied_stages(4);
  EXPECT_EQ(table_message(run), Bytes(2.0 * 32768 * 1024 / 4));
  run.strategy.precision = Precision::Fp32;
  EXPECT_EQ(table_message(run), Bytes(4.0 * 32768 * 1024 / 4));
}

// 8192 tokens of a step; GEMMs of two FLOPs for each of 12 h^2 weights of a block and h v of the
// head; scores and weighted sums of all 1024 keys, or of the half that the mask leaves.
TEST(StageWork, CountsGemmsAndAttentionApart) {
  TrainingRun run = small_run();
  run.strategy.flash_attention = true;
  const StageWork work = stage_work(run, stage_chunks(run.model, run.strategy, 0));
  const double tokens = 8.0 * kTokens, h = kHidden;
  const double gemms = 2.0 * tokens * (8.0 * 12.0 * h * h + h * 32768.0);
  EXPECT_DOUBLE_EQ(work.forward.gemms.value(), gemms);
  EXPECT_DOUBLE_EQ(work.backward.gemms.value(), 2.0 * gemms);
  const double scores = 8.0 * 2.0 * 2.0 * tokens * kTokens * h;
  EXPECT_NEAR(work.forward.attention.value() / (0.5 * scores), 1.0, 0.01);
  EXPECT_DOUBLE_EQ(work.backward.attention.value(), 2.0 * work.forward.attention.value());
}

TEST(RankCounts, HoldWhatTheStepHolds) {
  const TrainingRun run = small_run();
  const StagePeak peak = stage_peak(run, layer_bytes(run), StageContents(run), 0);
  const HeldBytes held = rank_counts(run, 0).held;
  EXPECT_GT(held.peak, 0);
  EXPECT_NEAR(static_cast<double>(held.peak), peak.peak.value(), 1.0);
  EXPECT_NEAR(static_cast<double>(held.persistent), peak.idle.value(), 1.0);
}

// Where the V turns, activations and gradients stay on the stage: of its two chunks one sends on
// and one back, the other two ends meet.
TEST(StageMessages, TheStageWhereAVTurnsSendsNoneToItself) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4, run.strategy.virtual_stages = 2;
  run.strategy.pipeline_schedule = PipelineSchedule::ZbV;
  run.strategy.global_batch = 8;
  const auto calls = [&](int stage) {
    double sum = 0.0;
    for (const RepeatedCollective& sends :
         stage_messages(run, stage_chunks(run.model, run.strategy, stage)))
      sum += sends.calls;
    return sum;
  };
  EXPECT_EQ(calls(0), 8.0 * 2.0);  // the model's first and last chunk
  EXPECT_EQ(calls(1), 8.0 * 4.0);
  EXPECT_EQ(calls(3), 8.0 * 2.0);
}

// Eight micro-batches on four stages: the second sends activations and gradients, and receives as
// many; the ends one of each.
TEST(StageMessages, AreOfBothDirections) {
  TrainingRun run = small_run(8);
  run.strategy.dp = 1, run.strategy.pp = 4, run.strategy.tp = 2;
  run.strategy.global_batch = 8;
  const auto messages = [&](int stage) {
    return stage_messages(run, stage_chunks(run.model, run.strategy, stage));
  };
  const Bytes whole(1024.0 * 1024.0 * 2.0);
  ASSERT_EQ(messages(1).size(), 1u);
  EXPECT_EQ(messages(1)[0].message, whole);
  EXPECT_EQ(messages(1)[0].calls, 16.0);
  EXPECT_EQ(messages(0)[0].calls, 8.0);
  EXPECT_EQ(messages(3)[0].calls, 8.0);

  run.framework.divides_sent_activations = true;  // and gradients are whole
  ASSERT_EQ(messages(1).size(), 3u);
  EXPECT_EQ(messages(1)[0].message, whole / 2.0);
  EXPECT_EQ(messages(1)[0].calls, 8.0);
  EXPECT_EQ(messages(1)[1].message, whole);
  EXPECT_EQ(messages(1)[1].calls, 8.0);
  EXPECT_EQ(messages(1)[2].kind, CollectiveKind::AllGather);
  EXPECT_EQ(messages(1)[2].group, GroupKind::Tensor);
  EXPECT_EQ(messages(1)[2].message, whole);
  EXPECT_EQ(messages(1)[2].calls, 8.0);
  // The first sends activations and receives gradients, which are whole.
  ASSERT_EQ(messages(0).size(), 1u);
  EXPECT_EQ(messages(0)[0].message, whole / 2.0);
  ASSERT_EQ(messages(3).size(), 2u);  // the last sends whole gradients and gathers activations
  EXPECT_EQ(messages(3)[0].message, whole);
  EXPECT_EQ(messages(3)[1].kind, CollectiveKind::AllGather);
  run.strategy = {};
  EXPECT_TRUE(stage_messages(run, stage_chunks(run.model, run.strategy, 0)).empty());
}

}  // namespace
}  // namespace llmsim::sim
