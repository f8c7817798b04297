#include "sim/schedule/pipeline.h"

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

std::vector<ChunkTimes> equal_chunks(int count, double forward, double backward) {
  return std::vector<ChunkTimes>(static_cast<std::size_t>(count), {.forward = Seconds(forward), .backward = Seconds(backward)});
}

double makespan(const PipelineShape& shape, const std::vector<ChunkTimes>& chunks) {
  return simulate_pipeline(shape, chunks).makespan.value();
}

TEST(Pipeline, OneStageIsTheSumOfItsPasses) {
  EXPECT_DOUBLE_EQ(makespan({.stages = 1, .num_microbatches = 5}, equal_chunks(1, 1.0, 2.0)), 15.0);
}

TEST(Pipeline, EqualStagesTakeTheClosedForm) {
  // (m + p - 1)(F + B) for both GPipe and 1F1B.
  for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneForwardOneBackward}) {
    for (const int p : {2, 4, 8}) {
      for (const int m : {8, 16, 64, 129}) {
        const PipelineShape shape{.schedule = schedule, .stages = p, .num_microbatches = m};
        EXPECT_NEAR(makespan(shape, equal_chunks(p, 1.0, 2.0)), 3.0 * (m + p - 1), 1e-9) << p << " stages, " << m;
      }
    }
  }
}

TEST(Pipeline, InterleavingDividesTheBubbleByTheChunks) {
  // m (F + B) + (p - 1)(F + B) / v, with F + B of the whole stage.
  for (const int v : {2, 4}) {
    for (const int m : {8, 16, 128}) {
      const PipelineShape shape{
          .schedule = PipelineSchedule::Interleaved, .stages = 4, .virtual_stages = v, .num_microbatches = m};
      EXPECT_NEAR(makespan(shape, equal_chunks(4 * v, 1.0 / v, 2.0 / v)), 3.0 * m + 3.0 * 3.0 / v, 1e-9) << v << ", " << m;
    }
  }
}

TEST(Pipeline, InterleavingTakesNumbersThatAreNoMultipleOfTheStages) {
  // Every pass runs, and the bubble stays below that of the schedule without interleaving, (p - 1)(F + B).
  for (const int m : {5, 6, 7, 10, 13, 23}) {
    const PipelineShape shape{.schedule = PipelineSchedule::Interleaved, .stages = 4, .virtual_stages = 3, .num_microbatches = m};
    EXPECT_GE(makespan(shape, equal_chunks(12, 1.0, 2.0)), 9.0 * m + 9.0 * 3 / 3 - 1e-9) << m;
    EXPECT_LE(makespan(shape, equal_chunks(12, 1.0, 2.0)), 9.0 * (m + 3)) << m;
  }
}

TEST(Pipeline, TheSlowestStageSetsThePeriod) {
  std::vector<ChunkTimes> chunks = equal_chunks(4, 1.0, 2.0);
  chunks[2] = {.forward = Seconds(2.0), .backward = Seconds(4.0)};
  const auto at = [&](int m) { return makespan({.stages = 4, .num_microbatches = m}, chunks); };
  EXPECT_NEAR(at(101) - at(100), 6.0, 1e-9);
}

TEST(Pipeline, RepeatingPeriodsEqualTheWholeSimulation) {
  // Unequal stages and transfers: 500 micro-batches by extrapolation against the sum of single steps of GPipe-free simulation.
  std::vector<ChunkTimes> chunks = equal_chunks(6, 1.0, 2.1);
  chunks[0].forward = Seconds(1.3);
  chunks[5].backward = Seconds(2.9);
  const PipelineShape shape{.stages = 6, .num_microbatches = 500, .transfer = Seconds(0.2)};
  const auto at = [&](int m) {
    PipelineShape other = shape;
    other.num_microbatches = m;
    return makespan(other, chunks);
  };
  // Up to 5 rounds of 6 are simulated in full; the slope there must be that of the long run.
  const double slope = (at(30) - at(24)) / 6.0;
  EXPECT_NEAR(at(500), at(26) + slope * (500 - 26), 1e-6);
  EXPECT_NEAR(slope, 3.9, 0.5);
}

TEST(Pipeline, InFlightMicroBatchesFollowTheSchedule) {
  const PipelineShape gpipe{.schedule = PipelineSchedule::GPipe, .stages = 4, .num_microbatches = 16};
  const PipelineShape one{.stages = 4, .num_microbatches = 16};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(peak_in_flight(gpipe, stage), 16);
    EXPECT_EQ(peak_in_flight(one, stage), 4 - stage);
  }
  EXPECT_EQ(peak_in_flight({.stages = 4, .num_microbatches = 2}, 0), 2);
}

TEST(Pipeline, MoreMicroBatchesNeverTakeLess) {
  const std::vector<ChunkTimes> chunks = equal_chunks(4, 1.0, 2.0);
  double last = 0.0;
  for (int m = 1; m <= 200; ++m) {
    const double time = makespan({.stages = 4, .num_microbatches = m, .transfer = Seconds(0.1)}, chunks);
    EXPECT_GT(time, last);
    last = time;
  }
}

}  // namespace
}  // namespace llmsim::sim
