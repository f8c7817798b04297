#include "sim/schedule/parameter_copies.h"

#include <gtest/gtest.h>

#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

double bytes_of(double (*copies)(const Run&, const DataExchange&), const TrainingRun& run) {
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  return copies(run, DataExchange(run, rank));
}

TEST(ParameterCopies, EveryMicrobatchButTheFirstAddsToTheSum) {
  // Eight micro-batches, 2-byte gradients: seven of eight read two values and write one.
  TrainingRun run = small_run();
  EXPECT_DOUBLE_EQ(bytes_of(accumulation_bytes, run), 7.0 / 8.0 * 3.0 * 2.0);
  run.strategy.global_batch = 1;
  EXPECT_DOUBLE_EQ(bytes_of(accumulation_bytes, run), 0.0);
  run.optimizer_step = false;
  EXPECT_DOUBLE_EQ(bytes_of(accumulation_bytes, run), 3.0 * 2.0);
}

TEST(ParameterCopies, GemmsThatAccumulateLeaveNothingToAdd) {
  TrainingRun run = small_run();
  run.framework.gradients.accumulated_by_gemm = true;
  EXPECT_DOUBLE_EQ(bytes_of(accumulation_bytes, run), 0.0);
}

TEST(ParameterCopies, ShardedGradientsAreAddedOnTheShard) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  EXPECT_DOUBLE_EQ(bytes_of(accumulation_bytes, run), 7.0 / 8.0 * 3.0 * 2.0 / 8.0);
}

TEST(ParameterCopies, BucketsCostAReadAndAWriteEachWay) {
  // fp32 gradients into a bucket and out of it: 2 x (4 + 4) bytes; nothing to copy on one device.
  TrainingRun run = small_run(8);
  run.framework.gradients.copies = 2.0;
  run.framework.gradients.reduced_in_fp32 = true;
  EXPECT_DOUBLE_EQ(bytes_of(reduction_copy_bytes, run), 16.0);
  TrainingRun single = small_run(1);
  single.framework = run.framework;
  EXPECT_DOUBLE_EQ(bytes_of(reduction_copy_bytes, single), 0.0);
}

TEST(ParameterCopies, AStepShowsThem) {
  // One device of 1 TB/s, eight micro-batches: 7 x 6 bytes of every weight and gradient pass through memory.
  const TrainingRun run = small_run();
  double copies = 0.0;
  for (const TimeTerm& t : predict(run).breakdown) copies += std::string(t.name) == "gradient_copies" ? t.time.value() : 0.0;
  const double expected = 7.0 * 6.0 * static_cast<double>(parameters(run.model).total()) / 1e12;
  EXPECT_NEAR(copies, expected, 1e-3 * expected);
}

}  // namespace
}  // namespace llmsim::sim
