#include "sim/schedule/stage_work.h"

#include <gtest/gtest.h>

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
