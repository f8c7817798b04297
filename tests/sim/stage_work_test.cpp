#include "sim/schedule/stage_work.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Of the tied table, between the first and the last of two stages.
Bytes table_message(const TrainingRun& run) {
  Bytes sum;
  for (const RepeatedCollective& closing : closing_collectives(run, stage_parts(run.model, run.strategy, 0))) {
    if (closing.group == GroupKind::Embedding) sum += closing.calls * closing.message;
  }
  return sum;
}

TrainingRun tied_stages(int tensor) {
  TrainingRun run = small_run(2 * tensor);
  run.model.tied_embeddings = true;
  run.strategy.data_parallel = 1, run.strategy.pipeline_parallel = 2, run.strategy.tensor_parallel = tensor;
  return run;
}

// 32768 rows of 1024, in 4 bytes where gradients are reduced in fp32 and in 2 where they are not: however many bytes hold one,
// as DeepSpeed's bf16 optimizer does in 8 (16 bits, fp32 sums, and flat copies).
TEST(ClosingCollectives, GradientsOfATiedTableTravelInTheFormatOfTheirReduction) {
  TrainingRun run = tied_stages(1);
  for (const double stored : {2.0, 4.0, 8.0}) {
    run.stack.storage.gradient_bytes = stored;
    run.stack.gradients.reduced_in_fp32 = true;
    EXPECT_EQ(table_message(run), Bytes(4.0 * 32768 * 1024)) << stored;
    run.stack.gradients.reduced_in_fp32 = false;
    EXPECT_EQ(table_message(run), Bytes(2.0 * 32768 * 1024)) << stored;
  }
}

TEST(ClosingCollectives, EachTensorRankSendsItsPartOfATiedTable) {
  TrainingRun run = tied_stages(4);
  EXPECT_EQ(table_message(run), Bytes(2.0 * 32768 * 1024 / 4));
  run.strategy.precision = Precision::Fp32;
  EXPECT_EQ(table_message(run), Bytes(4.0 * 32768 * 1024 / 4));
}

}  // namespace
}  // namespace llmsim::sim
