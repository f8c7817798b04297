#include "sim/pipeline/repeating_pipeline.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

using Chunks = std::vector<ChunkTimes>;

Chunks equal_chunks(const PipelineShape& shape) {
  return Chunks(static_cast<std::size_t>(shape.layout().model_chunks()),
                {.forward = Seconds(1.1), .backward = Seconds(2.3)});
}

// Parts that differ by up to `spread` of their time.
Chunks uneven_chunks(const PipelineShape& shape, double spread, std::mt19937& random) {
  std::uniform_real_distribution<double> more(1.0, 1.0 + spread);
  Chunks chunks = equal_chunks(shape);
  for (ChunkTimes& chunk : chunks) chunk.forward *= more(random), chunk.backward *= more(random);
  return chunks;
}

Chunks heavy_ends(const PipelineShape& shape) {
  Chunks chunks = equal_chunks(shape);
  chunks.front().forward *= 1.07;
  chunks.back().backward *= 1.31;
  return chunks;
}

std::string text(const PipelineShape& shape) {
  return "p " + std::to_string(shape.stages) + ", v " + std::to_string(shape.virtual_stages) +
         ", m " + std::to_string(shape.num_microbatches) + ", transfer " +
         std::to_string(shape.forward_transfer.value());
}

// To 1e-9: every stage begins and ends when its first and last event do, and is idle between them
// as long as no event goes on.
void expect_exact(const PipelineShape& shape, const Chunks& chunks) {
  const PipelineTimes times = simulate_pipeline(shape, chunks);
  const auto events = pipeline_events(shape, chunks);
  double last = 0.0;
  for (std::size_t stage = 0; stage < events.size(); ++stage) {
    const double start = events[stage].front().start.value();
    const double end = events[stage].back().end.value();
    double idle = 0.0;
    for (std::size_t i = 1; i < events[stage].size(); ++i)
      idle += (events[stage][i].start - events[stage][i - 1].end).value();
    EXPECT_NEAR(times.idle[stage].value(), idle, 1e-9 * end) << text(shape);
    last = std::max(last, end);
    EXPECT_NEAR(times.start[stage].value(), start, 1e-9 * end) << text(shape);
    EXPECT_NEAR(times.finish[stage].value(), end, 1e-9 * end) << text(shape);
  }
  EXPECT_NEAR(times.makespan.value(), last, 1e-9 * last) << text(shape);
}

// 1 to 4 chunks a stage; numbers of micro-batches that are and that are not multiples of the
// stages.
std::vector<PipelineShape> shapes() {
  std::vector<PipelineShape> list;
  for (const int stages : {2, 3, 4, 6, 8, 13}) {
    for (const int chunks : {1, 2, 3, 4}) {
      for (const int microbatches : {stages, 2 * stages + 1, 47, 64, 128, 301}) {
        if (microbatches < stages) continue;
        for (const double transfer : {0.0, 0.013, 0.6}) {
          list.push_back({.schedule = chunks > 1 ? PipelineSchedule::Interleaved
                                                 : PipelineSchedule::OneForwardOneBackward,
                          .stages = stages,
                          .virtual_stages = chunks,
                          .num_microbatches = microbatches,
                          .forward_transfer = Seconds(transfer),
                          .backward_transfer = Seconds(0.7 * transfer)});
        }
      }
    }
  }
  return list;
}

TEST(RepeatingPipeline, EqualStagesTakeAsLongAsTheirEvents) {
  for (const PipelineShape& shape : shapes()) expect_exact(shape, equal_chunks(shape));
}

TEST(RepeatingPipeline, HeavyEndsTakeAsLongAsTheirEvents) {
  for (const PipelineShape& shape : shapes()) expect_exact(shape, heavy_ends(shape));
}

TEST(RepeatingPipeline, UnevenStagesTakeAsLongAsTheirEvents) {
  std::mt19937 random(1);
  for (const PipelineShape& shape : shapes())
    expect_exact(shape, uneven_chunks(shape, 0.4, random));
}

// Whose waits for one another change by less than they take, for hundreds of micro-batches.
TEST(RepeatingPipeline, NearlyEqualStagesTakeAsLongAsTheirEvents) {
  std::mt19937 random(2);
  for (const double spread : {1e-2, 1e-4, 1e-6, 1e-9, 1e-12}) {
    for (const PipelineShape& shape : shapes())
      expect_exact(shape, uneven_chunks(shape, spread, random));
  }
}

TEST(RepeatingPipeline, OneStageOfSeveralChunksIsTheSumOfItsPasses) {
  const PipelineShape shape{.schedule = PipelineSchedule::Interleaved,
                            .stages = 1,
                            .virtual_stages = 3,
                            .num_microbatches = 1000};
  EXPECT_NEAR(simulate_pipeline(shape, equal_chunks(shape)).makespan.value(),
              3 * 1000 * (1.1 + 2.3), 1e-6);
}

// A lower bound for any order.  Stage k begins when micro-batch 0 has passed the first chunks of
// the stages before it, then does all its passes, and ends with a backward pass of its first chunk,
// whose gradients go back through the first chunks of the stages before it.  With transfers of t,
// and of u back,
//
//   makespan >= max over k of  sum_{j<k} (F_j + t) + m sum over chunks c of (F_kc + B_kc)
//                              + sum_{j<k} (B_j + u)
double lower_bound(const PipelineShape& shape, const Chunks& chunks) {
  const auto part = [&](int stage, int chunk) {
    return chunks[static_cast<std::size_t>(shape.layout().place(stage, chunk))];
  };
  double bound = 0.0, ends = 0.0;
  for (int k = 0; k < shape.stages; ++k) {
    double work = 0.0;
    for (int chunk = 0; chunk < shape.virtual_stages; ++chunk)
      work += (part(k, chunk).forward + part(k, chunk).backward).value();
    bound = std::max(bound, ends + shape.num_microbatches * work);
    ends += (part(k, 0).forward + part(k, 0).backward + shape.forward_transfer +
             shape.backward_transfer)
                .value();
  }
  return bound;
}

TEST(RepeatingPipeline, IsNeverFasterThanTheWorkOfAStageAndItsWayThereAndBack) {
  std::mt19937 random(3);
  for (const PipelineShape& shape : shapes()) {
    for (const Chunks& chunks : {heavy_ends(shape), uneven_chunks(shape, 0.5, random)}) {
      const double least = lower_bound(shape, chunks);
      EXPECT_GE(simulate_pipeline(shape, chunks).makespan.value(), least * (1 - 1e-12))
          << text(shape);
    }
  }
}

// The last stage takes 10 + 20, the three before it 1 + 2: it never waits once it has begun, so
// that the bound is reached: 3 * 1 + 99 * 30 + 3 * 2.
TEST(RepeatingPipeline, ReachesTheBoundWhereTheLastStageIsSlow) {
  const PipelineShape shape{.stages = 4, .num_microbatches = 99};
  Chunks chunks(4, {.forward = Seconds(1.0), .backward = Seconds(2.0)});
  chunks[3] = {.forward = Seconds(10.0), .backward = Seconds(20.0)};
  EXPECT_NEAR(simulate_pipeline(shape, chunks).makespan.value(), 2979.0, 1e-9);
  EXPECT_NEAR(lower_bound(shape, chunks), 2979.0, 1e-9);
}

// 126 = 21 * 6, but 128 = 21 * 6 + 2 = 18 * 7 + 2: two micro-batches would wait for themselves on
// six stages, so groups are of 8.  7 = 3 * 2 + 1 = 2 * 3 + 1 leave one, 4 + 3 do not.
TEST(RepeatingPipeline, GroupsLeaveNoRestSmallerThanTheStages) {
  EXPECT_EQ(microbatch_group({.stages = 6, .virtual_stages = 2, .num_microbatches = 126}), 6);
  EXPECT_EQ(microbatch_group({.stages = 6, .virtual_stages = 2, .num_microbatches = 128}), 8);
  EXPECT_EQ(microbatch_group({.stages = 2, .virtual_stages = 2, .num_microbatches = 7}), 4);
}

}  // namespace
}  // namespace llmsim::sim
