#include "sim/memory/memory_curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

MemoryCurve timeline_of(const TrainingRun& run, int stage = 0, const MemoryCurveOptions& options = {}) {
  return memory_curve(run, layer_prices(run), stage, options);
}

Bytes sum_of(const std::vector<MemoryTerm>& terms) {
  Bytes sum;
  for (const MemoryTerm& term : terms) sum += term.size;
  return sum;
}

Bytes term_of(const MemoryPoint& point, std::string_view name) {
  for (const MemoryTerm& term : point.terms) {
    if (name == term.name) return term.size;
  }
  return Bytes(0.0);
}

// One device, two micro-batches of one sequence, gradients that stay.
TrainingRun two_passes() {
  TrainingRun run = small_run();
  run.strategy.global_batch = 2;
  run.framework.gradients.persist = true;
  return run;
}

TEST(MemoryCurve, EveryPassHasItsPointAndTheStepBeginsAndEndsIdle) {
  std::vector<std::string_view> instants;
  const MemoryCurve timeline = timeline_of(two_passes());
  for (const MemoryPoint& point : timeline.points) instants.emplace_back(point.instant);
  EXPECT_EQ(instants, (std::vector<std::string_view>{"idle", "forward", "loss", "backward", "forward", "loss", "backward",
                                                     "gradients", "update", "idle"}));
  EXPECT_EQ(timeline.points.front().allocated, timeline.points.back().allocated);
  for (const MemoryPoint& point : timeline.points) {
    EXPECT_EQ(sum_of(point.terms), point.allocated) << point.instant;
    EXPECT_GE(point.reserved, point.allocated) << point.instant;
  }
}

TEST(MemoryCurve, PointsNameMicroBatchAndLayer) {
  const MemoryCurve timeline = timeline_of(two_passes());
  const MemoryPoint& forward = timeline.points[4];
  EXPECT_EQ(forward.micro_batch, 1);
  EXPECT_EQ(forward.layer, 7);
  EXPECT_EQ(forward.passes_in_flight, 1);
  EXPECT_EQ(forward.blocks_in_flight, 8);
  const MemoryPoint& loss = timeline.points[5];
  EXPECT_EQ(loss.micro_batch, 1);
  EXPECT_FALSE(loss.layer);
  EXPECT_EQ(timeline.points[6].layer, 7);  // the first block of the backward pass is the highest
  EXPECT_EQ(timeline.points[7].layer, 0);  // and the last one the end
  EXPECT_EQ(timeline.points[7].blocks_in_flight, 1);
}

// Where gradients do not outlive the step: with forward passes after the first backward pass they are whole at the peak; without,
// the footprint counts all of them beside all activations, which only the curve knows to be never there together.
TEST(MemoryCurve, IsBelowTheFootprintWhereGradientsComeAsActivationsGo) {
  TrainingRun run = small_run(4);
  run.strategy.dp = 1, run.strategy.pp = 4;
  run.framework.gradients.persist = false;
  const auto ratio = [&](int microbatches) {
    run.strategy.global_batch = microbatches;
    return timeline_of(run, 1).peak().allocated / memory_footprint(run, layer_prices(run)).stages[1].peak;
  };
  EXPECT_NEAR(ratio(8), 1.0, 1e-12);
  EXPECT_LT(ratio(3), 1.0);  // the second of four stages has three micro-batches in flight
}

TEST(MemoryCurve, ThePeakIsThatOfTheFootprint) {
  TrainingRun run = two_passes();
  for (const int stages : {1, 2, 4}) {
    run.strategy.pp = stages;
    run.cluster = ideal_cluster(stages);
    run.strategy.global_batch = 8;
    const LayerPrices prices = layer_prices(run);
    const Memory memory = memory_footprint(run, prices);
    for (int stage = 0; stage < stages; ++stage) {
      const MemoryCurve timeline = memory_curve(run, prices, stage);
      const StageMemory& closed = memory.stages[static_cast<std::size_t>(stage)];
      EXPECT_NEAR(timeline.peak().allocated / closed.peak, 1.0, 1e-12) << stage << " of " << stages;
      EXPECT_STREQ(timeline.peak().instant, closed.instant);
    }
  }
}

TEST(MemoryCurve, UnequalChunksHaveThePeakOfTheFootprintToo) {
  TrainingRun run = two_passes();
  run.model.num_layers = 11;  // of eight chunks two on each of four stages: three of one block, five of two
  run.strategy.pp = 4, run.strategy.virtual_stages = 2;
  run.strategy.pipeline_schedule = PipelineSchedule::Interleaved;
  run.strategy.global_batch = 32;
  run.cluster = ideal_cluster(4);
  const LayerPrices prices = layer_prices(run);
  const Memory memory = memory_footprint(run, prices);
  for (int stage = 0; stage < 4; ++stage) {
    const double ratio = memory_curve(run, prices, stage).peak().allocated / memory.stages[static_cast<std::size_t>(stage)].peak;
    EXPECT_NEAR(ratio, 1.0, 1e-12) << stage;
  }
}

TEST(MemoryCurve, AsManyMicroBatchesAsReachThePeakAreEnough) {
  TrainingRun run = two_passes();
  run.strategy.pp = 4;
  run.strategy.global_batch = 64;
  run.cluster = ideal_cluster(4);
  const MemoryCurve whole = timeline_of(run, 1), shorter = timeline_of(run, 1, {.whole_step = false});
  EXPECT_LT(shorter.points.size(), whole.points.size());
  EXPECT_EQ(shorter.peak().allocated, whole.peak().allocated);
  EXPECT_EQ(shorter.peak().micro_batch, whole.peak().micro_batch);
  EXPECT_EQ(shorter.points[shorter.points.size() - 3].micro_batch, 63);  // the gradients of the step's last one
}

TEST(MemoryCurve, GradientsComeBlockByBlockWhereNothingKeepsThem) {
  TrainingRun run = two_passes();
  run.strategy.micro_batch = 2;  // a block keeps more activations than it has gradients
  run.framework.gradients.persist = false;
  const MemoryCurve timeline = timeline_of(run);
  EXPECT_EQ(term_of(timeline.points.front(), "gradients"), Bytes(0.0));
  const auto backward = std::find_if(timeline.points.begin(), timeline.points.end(),
                                     [](const MemoryPoint& point) { return point.instant == std::string_view("backward"); });
  EXPECT_EQ(term_of(*backward, "gradients"), Bytes(0.0));  // before those of its last block
  const MemoryPoint& end = *(timeline.points.end() - 3);
  EXPECT_DOUBLE_EQ(term_of(end, "gradients").value(),
                   term_of(end, "weights") / Bytes(run.framework.storage.weight_bytes) * run.framework.storage.gradient_bytes);
}

TEST(MemoryCurve, OffloadedActivationsLeaveGradientsToGrowUntilTheLastBlock) {
  TrainingRun run = small_run();
  run.strategy.recompute.kind = RecomputeKind::Full;
  run.strategy.offload.activations = true;
  run.strategy.global_batch = 1;
  const LayerPrices prices = layer_prices(run);
  const Bytes peak = memory_footprint(run, prices).peak;
  const MemoryCurve timeline = memory_curve(run, prices, 0);
  EXPECT_STREQ(timeline.peak().instant, "gradients");
  // One checkpoint is left of the two that stay: 1024 x 1024 values of 2 bytes.
  EXPECT_EQ(peak - timeline.peak().allocated, Bytes(1024.0 * 1024.0 * 2.0));
}

TEST(MemoryCurve, BlocksThatAreMadeAgainTogetherAreGivenBackOneByOne) {
  TrainingRun run = two_passes();
  run.strategy.recompute.kind = RecomputeKind::Full;
  run.strategy.recompute.every_n = 4;
  run.strategy.global_batch = 1;
  const MemoryCurve timeline = timeline_of(run);
  const auto restored = [&](std::string_view instant) {
    return term_of(*std::find_if(timeline.points.begin(), timeline.points.end(),
                                 [&](const MemoryPoint& point) { return point.instant == instant; }),
                   "recomputed_activations");
  };
  EXPECT_DOUBLE_EQ(restored("backward") / restored("gradients"), 4.0);
}

}  // namespace
}  // namespace llmsim::sim
