#include "sim/pipeline/stage_order.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "sim/pipeline/pipeline.h"

namespace llmsim::sim {
namespace {

using enum PipelineSchedule;

// Gradients of data and weights of a whole part of the model for one micro-batch, as the papers
// name them.
struct PassTimes {
  double f, b, w;
  double both() const { return b + w; }
  double all() const { return f + b + w; }
};

std::vector<ChunkTimes> equal_chunks(const PipelineShape& shape, const PassTimes& t) {
  const ChunkTimes chunk{
      .forward = Seconds(t.f), .backward = Seconds(t.both()), .weights = Seconds(t.w)};
  return std::vector<ChunkTimes>(static_cast<std::size_t>(shape.layout().model_chunks()), chunk);
}

PipelineShape shape_of(PipelineSchedule schedule, int p, int m) {
  return {.schedule = schedule,
          .stages = p,
          .virtual_stages = is_v_shaped(schedule) ? 2 : 1,
          .num_microbatches = m};
}

// The most that a stage waits for between its first and its last pass, where it works for `busy`.
double largest_bubble(const PipelineTimes& times, double busy) {
  double most = 0.0;
  for (std::size_t s = 0; s < times.finish.size(); ++s)
    most = std::max(most, (times.finish[s] - times.start[s]).value() - busy);
  return most;
}

std::string text_of(const PipelineShape& shape, int stage) {
  std::string text;
  for (const PipelinePass& pass : stage_order(shape, stage)) {
    const char* names[] = {"F", "BW", "B", "W"};
    text += std::string(names[static_cast<int>(pass.kind)]) + std::to_string(pass.microbatch);
    if (shape.layout().chunks() > 1) text += "." + std::to_string(pass.chunk);
    text += pass.joins_next ? "&" : " ";
  }
  text.pop_back();
  return text;
}

TEST(SplitOrder, ZbH1LetsAsManyMicroBatchesWaitAsThereAreStagesBefore) {
  EXPECT_EQ(text_of(shape_of(ZbH1, 3, 4), 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(text_of(shape_of(ZbH1, 3, 4), 2), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
}

TEST(SplitOrder, ZbVTurnsAtTheLastStage) {
  EXPECT_EQ(text_of(shape_of(ZbV, 2, 3), 1),
            "F0.0 F0.1 F1.0 F1.1 B0.1 W0.1 F2.0 B0.0 W0.0 F2.1 B1.1 W1.1 B1.0 B2.1 B2.0 W1.0 "
            "W2.1 W2.0");
}

// Building blocks (p = 2, so d = 3) of stage 0: F.0 at 0, F.1 at 4, B.1 at 8, B.0 at 13; of stage
// 1: 2, 3, 10, 12; six later those of the second micro-batch.  Stage 0 waits twice for stage 1
// before it has a weight gradient to make.
TEST(SplitOrder, VHalfRepeatsItsBuildingBlock) {
  EXPECT_EQ(text_of(shape_of(VHalf, 2, 2), 0),
            "F0.0 F0.1 F1.0 B0.1 W0.1 F1.1 B0.0 B1.1 W0.0 W1.1 B1.0 W1.0");
  EXPECT_EQ(text_of(shape_of(VHalf, 2, 2), 1),
            "F0.0 F0.1 F1.0 F1.1 B0.1 B0.0 W0.1 W0.0 B1.1 B1.0 W1.1 W1.0");
}

// Two stages, four micro-batches: two from each end.
TEST(SplitOrder, DualPipeIsTheSameFromBothEnds) {
  EXPECT_EQ(text_of(shape_of(DualPipe, 2, 4), 0),
            "F0.0 F2.1 F1.0 BW2.1 F3.1&BW0.0 BW3.1 B1.0 W1.0");
  EXPECT_EQ(text_of(shape_of(DualPipe, 2, 4), 1),
            "F2.1 F0.0 F3.1 BW0.0 F1.0&BW2.1 BW1.0 B3.1 W3.1");
}

TEST(SplitOrder, EveryPassOfEveryMicroBatchRunsOnceAndWeightsFollowData) {
  for (const PipelineSchedule schedule : {ZbH1, ZbV, VHalf, VMin, DualPipe}) {
    for (const int p : {2, 4, 6}) {
      for (const int m : {2 * p, 2 * p + 2, 5 * p}) {
        const PipelineShape shape = shape_of(schedule, p, m);
        for (int stage = 0; stage < p; ++stage) {
          std::map<std::pair<int, int>, std::string> seen;  // of a micro-batch through a chunk
          for (const PipelinePass& pass : stage_order(shape, stage))
            seen[{pass.chunk, pass.microbatch}] += "FXBW"[static_cast<int>(pass.kind)];
          EXPECT_EQ(static_cast<int>(seen.size()),
                    shape.layout().chunks() * shape.layout().chunk_microbatches());
          for (const auto& [where, passes] : seen)
            EXPECT_TRUE(passes == "FBW" || passes == "FX") << passes;
        }
      }
    }
  }
}

// Bubble (p - 1)(F + B - W): Qi et al. 2023, table 2.
TEST(SplitOrder, ZbH1HasTheBubbleOfItsPaper) {
  for (const int p : {2, 3, 4, 8, 16}) {
    for (const int m : {p, 2 * p, 2 * p + 1, 5 * p + 3}) {
      for (const PassTimes& t : {PassTimes{1, 1, 1}, PassTimes{1, 1.2, 0.8}, PassTimes{2, 3, 1.5},
                                 PassTimes{1, 0.8, 1}}) {
        const PipelineShape shape = shape_of(ZbH1, p, m);
        const PipelineTimes times = simulate_pipeline(shape, equal_chunks(shape, t));
        EXPECT_NEAR(largest_bubble(times, m * t.all()), (p - 1) * (t.f + t.b - t.w), 1e-9)
            << p << " stages, " << m;
        EXPECT_EQ(times.start[0], Seconds(0.0));
      }
    }
  }
}

// No bubble where F = B = W; the first stage starts and ends first, the others p - 1 forward passes
// later at most.
TEST(SplitOrder, ZbVHasNoBubbleWherePassesAreEqual) {
  for (const int p : {2, 3, 4, 8}) {
    for (const int m : {2 * p - 1, 2 * p, 4 * p + 3}) {
      const PipelineShape shape = shape_of(ZbV, p, m);
      const PipelineTimes times = simulate_pipeline(shape, equal_chunks(shape, {1, 1, 1}));
      for (int stage = 0; stage < p; ++stage) {
        const auto s = static_cast<std::size_t>(stage);
        EXPECT_NEAR(times.start[s].value(), stage, 1e-9);
        EXPECT_NEAR(times.finish[s].value(), stage + 2 * m * 3.0, 1e-9) << p << " stages, " << m;
      }
    }
  }
}

// Elsewhere the first stage waits 2 (B - W) for each other stage where W is the shortest and F
// between the two.
TEST(SplitOrder, ZbVWaitsWherePassesAreUnequal) {
  for (const int p : {2, 4, 8}) {
    const PipelineShape shape = shape_of(ZbV, p, 4 * p);
    const PipelineTimes times = simulate_pipeline(shape, equal_chunks(shape, {1, 1.2, 0.8}));
    EXPECT_NEAR(largest_bubble(times, 8 * p * 3.0), (p - 1) * 2 * 0.4, 1e-9);
  }
}

// Runs of V-Half or V-Min over all numbers of stages up to 16, of one pass like another.
template <class Check>
void for_each_v(PipelineSchedule schedule, const Check& check) {
  for (int p = 2; p <= 16; ++p) {
    for (const int m : {2 * p, 3 * p + 1, 6 * p}) check(p, m, shape_of(schedule, p, m));
  }
}

// Every pass finds what it needs: no stage ends before its last.
TEST(SplitOrder, StagesOfVHalfAndVMinNeverWaitForOneAnother) {
  for (const PipelineSchedule schedule : {VHalf, VMin}) {
    for_each_v(schedule, [](int p, int m, const PipelineShape& shape) {
      for (const auto& events : pipeline_events(shape, equal_chunks(shape, {1, 1.2, 0.8})))
        EXPECT_EQ(events.size(), static_cast<std::size_t>(6 * m)) << p << " stages, " << m;
    });
    for (const int m : {1, 2, 5}) {
      const PipelineShape shape = shape_of(schedule, 8, m);
      EXPECT_EQ(pipeline_events(shape, equal_chunks(shape, {1, 1, 1})).back().size(),
                static_cast<std::size_t>(6 * m));
    }
  }
}

// In chunks of half a stage, of which 1F1B holds 2 p: p + 2 and 2 p / 3 + 3 at most, on every
// stage.
TEST(SplitOrder, VHalfAndVMinHoldAHalfAndAThird) {
  const auto most = [](const PipelineShape& shape) {
    int held = 0;
    for (int stage = 0; stage < shape.stages; ++stage)
      held = std::max(held, peak_in_flight(shape, stage));
    return held;
  };
  for_each_v(VHalf, [&](int p, int, const PipelineShape& shape) {
    EXPECT_EQ(most(shape), 2 * (p / 2) + 2);
  });
  for_each_v(VMin, [&](int p, int, const PipelineShape& shape) {
    EXPECT_EQ(most(shape), 2 * ((p + 1) / 3) + 2);
  });
}

// Of 1F1B's bubble (p - 1)(F + B + W), in chunks of half a stage 6 (p - 1): half and two thirds.
TEST(SplitOrder, VHalfAndVMinHaveTheBubblesOfTheirPaperWherePassesAreEqual) {
  const auto bubble = [](int m, const PipelineShape& shape) {
    return largest_bubble(simulate_pipeline(shape, equal_chunks(shape, {1, 1, 1})), 6.0 * m);
  };
  for_each_v(VHalf, [&](int p, int m, const PipelineShape& shape) {
    EXPECT_NEAR(bubble(m, shape), 3.0 * (p - 1) - p % 2, 1e-9) << p << " stages, " << m;
  });
  for_each_v(VMin, [&](int p, int m, const PipelineShape& shape) {
    EXPECT_NEAR(bubble(m, shape), 4.0 * (p - 1) + (p % 3 == 0 ? 1 : -1), 1e-9) << p << ", " << m;
  });
}

// Where passes are unequal V-Min waits in every building block, V-Half does not.
TEST(SplitOrder, OnlyVMinWaitsMoreWithMoreMicroBatches) {
  const auto bubble = [](PipelineSchedule schedule, int m) {
    const PipelineShape shape = shape_of(schedule, 8, m);
    return largest_bubble(simulate_pipeline(shape, equal_chunks(shape, {1, 1.2, 0.8})), 6.0 * m);
  };
  EXPECT_NEAR(bubble(VHalf, 64), bubble(VHalf, 32), 1e-9);
  EXPECT_GT(bubble(VMin, 64), bubble(VMin, 32) + 0.2 * 32);
}

// Work of a DualPipe stage: m / 2 micro-batches through both chunks, less what joined passes hide.
double dualpipe_work(const PipelineShape& shape, int stage, const PassTimes& t, double hidden) {
  double work = shape.num_microbatches * t.all();
  for (const PipelinePass& pass : stage_order(shape, stage)) work -= pass.joins_next ? hidden : 0.0;
  return work;
}

double largest_dualpipe_bubble(const PipelineShape& shape, const PassTimes& t, double exchange) {
  std::vector<ChunkTimes> chunks = equal_chunks(shape, t);
  for (ChunkTimes& chunk : chunks)
    chunk.forward_all_to_all = chunk.backward_all_to_all = Seconds(exchange);
  const PipelineTimes times = simulate_pipeline(shape, chunks);
  double most = 0.0;
  for (int stage = 0; stage < shape.stages; ++stage) {
    most = std::max(most, times.makespan.value() - dualpipe_work(shape, stage, t, 2.0 * exchange));
  }
  return most;
}

// Bubble (p / 2 - 1)(F&B + B' - 3 W) with B' = B + W, and F&B = F + B' - 2 x where each hides an
// all-to-all x of the other.
TEST(SplitOrder, DualPipeHasTheBubbleOfItsPaperWherePassesAreEqual) {
  for (const int p : {2, 4, 8, 16}) {
    for (const int m : {2 * p, 2 * p + 4, 6 * p}) {
      const PipelineShape shape = shape_of(DualPipe, p, m);
      const PassTimes t{1, 1, 1};
      EXPECT_NEAR(largest_dualpipe_bubble(shape, t, 0.0), (p / 2 - 1) * (3.0 + 2.0 - 3.0), 1e-9)
          << p << ", " << m;
      for (int stage = 0; stage < p; ++stage) {
        EXPECT_NEAR(simulate_pipeline(shape, equal_chunks(shape, t))
                        .finish[static_cast<std::size_t>(stage)]
                        .value(),
                    3.0 * m + (p / 2 - 1) * 2.0, 1e-9);
      }
    }
  }
}

TEST(SplitOrder, DualPipeWaitsAtMostTheBubbleOfItsPaper) {
  for (const int p : {4, 8, 16}) {
    const PipelineShape shape = shape_of(DualPipe, p, 4 * p);
    for (const PassTimes& t :
         {PassTimes{1, 1.2, 0.8}, PassTimes{2, 3, 1.5}, PassTimes{1, 1.1, 0.9}}) {
      const PipelineTimes times = simulate_pipeline(shape, equal_chunks(shape, t));
      const double bubble = times.makespan.value() - dualpipe_work(shape, 0, t, 0.0);
      const double paper = (p / 2 - 1) * (t.f + t.both() + t.both() - 3 * t.w);
      EXPECT_LE(bubble, paper + 1e-9);
      EXPECT_GE(bubble, 0.8 * paper);
    }
  }
}

TEST(SplitOrder, SchedulesHoldAsManyMicroBatchesAsTheirPapersSay) {
  for (const int p : {2, 4, 8}) {
    for (const int m : {2 * p, 6 * p}) {
      for (int stage = 0; stage < p; ++stage) {
        // p - stage whole, `stage` waiting.
        EXPECT_EQ(peak_in_flight(shape_of(ZbH1, p, m), stage), p);
        // Of 1 / (2 p) of the model each.
        EXPECT_EQ(peak_in_flight(shape_of(ZbV, p, m), stage), 2 * p);
        EXPECT_EQ(peak_in_flight(shape_of(DualPipe, p, m), stage), p + 1);
      }
    }
  }
}

// Two stages, two of four micro-batches from each end: F3.1&BW0.0 alone.
TEST(JoinedPasses, AreCounted) {
  EXPECT_EQ(joined_pairs(shape_of(DualPipe, 2, 4), 0), (std::array<int, 2>{0, 1}));
  for (const int p : {2, 4, 6, 8}) {
    for (const int m : {2 * p, 2 * p + 2, 5 * p}) {
      for (int stage = 0; stage < p; ++stage) {
        const PipelineShape shape = shape_of(DualPipe, p, m);
        std::array<int, 2> joined{};
        for (const PipelinePass& pass : stage_order(shape, stage)) {
          if (pass.joins_next) ++joined[static_cast<std::size_t>(pass.chunk)];
        }
        EXPECT_EQ(joined_pairs(shape, stage), joined) << p << " stages, " << m << ": " << stage;
      }
    }
  }
}

TEST(JoinedPasses, HideEachOthersExchangesBehindTheirCompute) {
  // 2 of the forward pass's 3 and 4 of the backward pass's 6 seconds are all-to-alls.
  const ChunkTimes forward{.forward = Seconds(3.0), .forward_all_to_all = Seconds(2.0)};
  const ChunkTimes backward{.backward = Seconds(6.0), .backward_all_to_all = Seconds(4.0)};
  // The 2 fit beside 2 of compute; of the 4 only 1 does: 1 + 2 + 3.
  const JoinedPasses joined = joined_passes(forward, backward, 0.0);
  EXPECT_EQ(joined.total, Seconds(6.0));
  EXPECT_EQ(joined.hidden, Seconds(3.0));
  EXPECT_EQ(joined.slowdown, Seconds(0.0));
  EXPECT_EQ(joined.forward.exposed, Seconds(0.0));
  EXPECT_EQ(joined.backward.exposed, Seconds(3.0));
}

TEST(JoinedPasses, ComputeIsSlowerBesideAnExchange) {
  // At half of its rate 2 of compute need 4 to hide 2: 1 is done beside the exchange, 1 after it.
  const ChunkTimes forward{.forward = Seconds(3.0), .forward_all_to_all = Seconds(2.0)};
  const ChunkTimes backward{.backward = Seconds(2.0)};
  const JoinedPasses joined = joined_passes(forward, backward, 0.5);
  EXPECT_EQ(joined.slowdown, Seconds(1.0));
  EXPECT_EQ(joined.forward.slowdown, Seconds(0.0));
  EXPECT_EQ(joined.backward.slowdown, Seconds(1.0));
  EXPECT_EQ(joined.hidden, Seconds(2.0));
  EXPECT_EQ(joined.total, Seconds(1.0 + 2.0 + 1.0));
}

TEST(PipelineEvents, EndWhereTheTimesSay) {
  for (const PipelineSchedule schedule :
       {GPipe, OneForwardOneBackward, ZbH1, ZbV, VHalf, VMin, DualPipe}) {
    PipelineShape shape = shape_of(schedule, 4, 12);
    shape.forward_transfer = shape.backward_transfer = Seconds(0.1);
    const std::vector<ChunkTimes> chunks = equal_chunks(shape, {1, 1.2, 0.8});
    const PipelineTimes times = simulate_pipeline(shape, chunks);
    const auto events = pipeline_events(shape, chunks);
    for (std::size_t stage = 0; stage < events.size(); ++stage) {
      EXPECT_EQ(events[stage].front().start, times.start[stage]);
      EXPECT_EQ(events[stage].back().end, times.finish[stage]);
      EXPECT_EQ(events[stage].size(), stage_order(shape, static_cast<int>(stage)).size());
    }
  }
}

// A transfer costs nothing where the V turns: two stages' forward passes of one micro-batch cross
// one link down and one up.
TEST(Pipeline, AVTurnsWithoutATransfer) {
  PipelineShape shape = shape_of(ZbV, 2, 1);
  shape.forward_transfer = shape.backward_transfer = Seconds(10.0);
  // F F | F F | B B | B B and three W behind: parts 0 and 3 on stage 0; the last two W of stage 0
  // follow its last B.
  const PipelineTimes times = simulate_pipeline(shape, equal_chunks(shape, {1, 1, 1}));
  // 1 + 10 + 1 + 1 + 10 + 1 forward, B of part 3, 10, parts 2 and 1 with a W between them, 10, B
  // and W of part 0.
  EXPECT_NEAR(times.finish[0].value(), 24.0 + 1 + 10 + 3 + 10 + 2, 1e-9);
}

TEST(StageOrder, FirstPassesAreItsBeginning) {
  for (const int chunks : {1, 3}) {
    const PipelineSchedule schedule =
        chunks == 1 ? PipelineSchedule::OneForwardOneBackward : PipelineSchedule::Interleaved;
    const PipelineShape shape{
        .schedule = schedule, .stages = 4, .virtual_stages = chunks, .num_microbatches = 10};
    const std::vector<PipelinePass> whole = stage_order(shape, 1);
    EXPECT_EQ(whole.size(), static_cast<std::size_t>(2 * 10 * chunks));
    const std::vector<PipelinePass> first = first_passes(shape, 1, 13);
    EXPECT_EQ(first, std::vector<PipelinePass>(whole.begin(), whole.begin() + 13));
    EXPECT_EQ(first_passes(shape, 1, 1000), whole);
  }
}

}  // namespace
}  // namespace llmsim::sim
