#include "sim/memory/peak.h"

#include <gtest/gtest.h>

#include "sim/memory/stage_contents.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

MemoryPeak peak_of(const TrainingRun& run) {
  const LayerPrices prices = layer_prices(run);
  return memory_peak(run, prices, memory_footprint(run, prices));
}

// Four stages of two layers, eight micro-batches, gradients that stay.
TrainingRun pipeline() {
  TrainingRun run = small_run();
  run.cluster = ideal_cluster(4);
  run.strategy.pp = 4;
  run.framework.gradients.persist = true;
  return run;
}

TEST(MemoryPeak, TheFirstStageIsFullestWhenItsFirstBackwardPassBegins) {
  TrainingRun run = pipeline();
  run.model.vocab_size = 64;  // logits that weigh nothing
  const MemoryPeak peak = peak_of(run);
  EXPECT_EQ(peak.stage, 0);
  EXPECT_STREQ(peak.phase, "backward");
  EXPECT_EQ(peak.micro_batch, 0);
  EXPECT_EQ(peak.layer, 1);  // the last of its two
  EXPECT_EQ(peak.passes_in_flight, 4);
  EXPECT_EQ(peak.blocks_in_flight, 8);
  EXPECT_EQ(peak.parameters, StageContents(run.model, run.strategy).held(0));
}

TEST(MemoryPeak, LargeLogitsMakeItTheLossOfTheLastStage) {
  TrainingRun run = pipeline();
  run.model.vocab_size = 262144;
  const MemoryPeak peak = peak_of(run);
  EXPECT_EQ(peak.stage, 3);
  EXPECT_STREQ(peak.phase, "loss");
  EXPECT_EQ(peak.micro_batch, 0);
  EXPECT_FALSE(peak.layer);
  EXPECT_EQ(peak.blocks_in_flight, 2);
}

TEST(MemoryPeak, TemporariesOfAnUpdateHaveNoMicroBatch) {
  TrainingRun run = small_run();
  run.framework.update.temporary_bytes = 64.0;
  const MemoryPeak peak = peak_of(run);
  EXPECT_STREQ(peak.phase, "update");
  EXPECT_FALSE(peak.micro_batch);
  EXPECT_EQ(peak.passes_in_flight, 0);
}

}  // namespace
}  // namespace llmsim::sim
