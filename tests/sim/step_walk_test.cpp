#include "sim/memory/step_walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "sim/memory/footprint.h"
#include "tests/share.h"
#include "tests/sim/random_run.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

MemoryCurve timeline_of(const TrainingRun& run, int stage = 0, bool whole_step = true) {
  return memory_curve(run, layer_prices(run), stage, whole_step);
}

Bytes term_of(const MemoryPoint& point, std::string_view name) {
  for (const MemoryTerm& term : point.terms.present()) {
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
  std::vector<std::string_view> phases;
  const MemoryCurve timeline = timeline_of(two_passes());
  for (const MemoryPoint& point : timeline.points) phases.emplace_back(point.phase);
  EXPECT_EQ(phases, (std::vector<std::string_view>{"idle", "forward", "loss", "backward", "forward",
                                                   "loss", "backward", "update", "idle"}));
  EXPECT_EQ(timeline.points.front().allocated, timeline.points.back().allocated);
  EXPECT_EQ(timeline.points[1].pass, 0);
  EXPECT_EQ(timeline.points[6].pass, 3);
  for (const MemoryPoint& point : timeline.points) {
    EXPECT_DOUBLE_EQ(point.terms.total().value(), point.allocated.value()) << point.phase;
    EXPECT_GE(timeline.reserved(point), point.allocated) << point.phase;
  }
}

TEST(MemoryCurve, PointsNameMicroBatchAndLayer) {
  TrainingRun run = two_passes();
  run.model.vocab_size = 64;  // logits that weigh nothing
  const MemoryCurve timeline = timeline_of(run);
  const MemoryPoint& backward = timeline.points[6];
  EXPECT_STREQ(backward.phase, "backward");
  EXPECT_EQ(backward.micro_batch, 1);
  EXPECT_EQ(backward.layer, 7);  // the first block of the backward pass is the highest
  EXPECT_EQ(backward.passes_in_flight, 1);
  EXPECT_EQ(backward.blocks_in_flight, 8);
}

// Of 40 those that are followed are the first ones and the last; a DualPipe's second half comes from
// the other end of the pipeline.
TEST(MemoryCurve, MicroBatchesThatAreLeftOutAreCounted) {
  TrainingRun run = small_run(4);
  run.strategy.pp = 4, run.strategy.dp = 1;
  run.strategy.global_batch = 40;
  const auto numbers = [&] {
    std::set<int> seen;
    for (const MemoryPoint& point : timeline_of(run, 0, false).points)
      if (point.micro_batch) seen.insert(*point.micro_batch);
    return seen;
  };
  const std::set<int> one_end = numbers();
  int next = 0;
  for (const int number : one_end) EXPECT_EQ(number, number == *one_end.rbegin() ? 39 : next++);
  run.strategy.pipeline_schedule = PipelineSchedule::DualPipe;
  const std::set<int> both_ends = numbers();
  const auto of_each = static_cast<int>(both_ends.size()) / 2;
  EXPECT_LT(of_each, 20);
  for (int i = 0; i < of_each; ++i) {
    EXPECT_TRUE(both_ends.contains(i)) << i;
    EXPECT_TRUE(both_ends.contains(i + 1 == of_each ? 39 : 20 + i)) << i;
  }
}

// The first of four stages has four micro-batches in flight when its first backward pass begins.
TEST(MemoryPeak, TheHostHoldsWhatMicroBatchesInFlightOffload) {
  TrainingRun run = small_run(4);
  run.strategy.pp = 4, run.strategy.dp = 1;
  run.model.num_layers = 16;
  run.framework.autograd = false;
  run.strategy.offload.activations = true;
  run.strategy.recompute = {RecomputeKind::Full, 1};
  const LayerPrices prices = layer_bytes(run);
  const StageContents contents(run);
  SharedChunks chunks(run, contents.rank());
  const Bytes each = chunks.of(prices, contents.chunk(0, 0)).offloaded();
  ASSERT_GT(each, Bytes(0.0));
  EXPECT_DOUBLE_EQ(stage_peak(run, prices, contents, 0).host_peak.value(), 4.0 * each.value());
}

// A single stage sends nothing.
TEST(MemoryCurve, StagesOfTheRuntimeHoldWhatTheySend) {
  TrainingRun run = small_run();
  run.framework.autograd = false;
  const auto sent = [&] {
    Bytes most;
    for (const MemoryPoint& point : timeline_of(run).points)
      most = std::max(most, term_of(point, "pipeline_buffers"));
    return most;
  };
  EXPECT_EQ(sent(), Bytes(0.0));
  run.cluster = ideal_cluster(2);
  run.strategy.pp = 2;
  EXPECT_GT(sent(), Bytes(0.0));
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
    }
  }
}

TEST(MemoryCurve, UnequalChunksHaveThePeakOfTheFootprintToo) {
  TrainingRun run = two_passes();
  // Of eight chunks two on each of four stages: three of one block, five of two.
  run.model.num_layers = 11;
  run.strategy.pp = 4, run.strategy.virtual_stages = 2;
  run.strategy.pipeline_schedule = PipelineSchedule::Interleaved;
  run.strategy.global_batch = 32;
  run.cluster = ideal_cluster(4);
  const LayerPrices prices = layer_prices(run);
  const Memory memory = memory_footprint(run, prices);
  for (int stage = 0; stage < 4; ++stage) {
    const double ratio = memory_curve(run, prices, stage).peak().allocated /
                         memory.stages[static_cast<std::size_t>(stage)].peak;
    EXPECT_NEAR(ratio, 1.0, 1e-12) << stage;
  }
}

TEST(MemoryCurve, AsManyMicroBatchesAsReachThePeakAreEnough) {
  TrainingRun run = two_passes();
  run.strategy.pp = 4;
  run.strategy.global_batch = 64;
  run.cluster = ideal_cluster(4);
  const MemoryCurve whole = timeline_of(run, 1), shorter = timeline_of(run, 1, false);
  EXPECT_LT(shorter.points.size(), whole.points.size());
  EXPECT_EQ(shorter.peak().allocated, whole.peak().allocated);
  EXPECT_EQ(shorter.peak().micro_batch, whole.peak().micro_batch);
  EXPECT_EQ(shorter.points[shorter.points.size() - 3].micro_batch, 63);  // the step's last one
}

TEST(MemoryCurve, GradientsComeBlockByBlockWhereNothingKeepsThem) {
  TrainingRun run = two_passes();
  run.model.vocab_size = 64;
  run.strategy.micro_batch = 2;  // a block keeps more activations than it has gradients
  run.framework.gradients.persist = false;
  const MemoryCurve timeline = timeline_of(run);
  EXPECT_EQ(term_of(timeline.points.front(), "gradients"), Bytes(0.0));
  const auto backward = std::find_if(
      timeline.points.begin(), timeline.points.end(),
      [](const MemoryPoint& point) { return point.phase == std::string_view("backward"); });
  EXPECT_EQ(term_of(*backward, "gradients"), Bytes(0.0));  // before those of its last block
  const MemoryPoint& update = *(timeline.points.end() - 2);
  EXPECT_DOUBLE_EQ(term_of(update, "gradients").value(),
                   term_of(update, "weights") / Bytes(run.framework.storage.weight_bytes) *
                       run.framework.storage.gradient_bytes);
}

// Stage 2 of ZB-H1, two blocks: when the data gradients of the first micro-batch are made, the
// second one is whole in flight, and the factors of the first one's weight gradients wait; with the
// gradients that stay by then, that is more than any layer had.
TEST(MemoryCurve, WhatWeightGradientsWaitWithIsShownFromTheDataGradientsOn) {
  TrainingRun run = two_passes();
  run.strategy.pp = 4, run.strategy.pipeline_schedule = PipelineSchedule::ZbH1;
  run.strategy.global_batch = 8;
  run.framework.gradients.persist = false;
  run.cluster = ideal_cluster(4);
  const MemoryCurve timeline = timeline_of(run, 2);
  const MemoryPoint& backward = timeline.points[3];  // after idle and two forward passes
  EXPECT_STREQ(backward.phase, "backward");
  EXPECT_FALSE(backward.layer);
  const BlockPrice block = layer_prices(run).blocks[0];
  EXPECT_EQ(term_of(backward, "activations"), 2.0 * block.saved + 2.0 * block.weight_inputs);
}

// Of 4 blocks between two checkpoints the last is the first to go back, beside what the other three
// have written again.
TEST(MemoryCurve, BlocksBetweenTwoCheckpointsAreWrittenAgainTogether) {
  TrainingRun run = two_passes();
  run.model.vocab_size = 64;
  run.strategy.recompute.kind = RecomputeKind::Full;
  const Bytes one = term_of(timeline_of(run).peak(), "recomputed_activations");
  run.strategy.recompute.every_n = 4;
  const MemoryCurve four = timeline_of(run);
  EXPECT_DOUBLE_EQ((term_of(four.peak(), "recomputed_activations") - one).value(),
                   3.0 * layer_prices(run).blocks[0].memory.everything.value());
}

MemoryPeak peak_of(const TrainingRun& run) {
  const LayerPrices prices = layer_prices(run);
  Memory memory = memory_footprint(run, prices);
  return explain_peaks(memory, run, prices);
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
  EXPECT_EQ(peak.parameters, StageContents(run).held(0));
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

// Whatever the run.  A search and the tables follow the same step, the one in bytes and the other
// in bytes by term, and the search leaves out micro-batches that repeat others.

constexpr unsigned kSeeds = 4000;
constexpr double kRounding = 1e-12;  // relative: sums of doubles in different orders

std::string description(const TrainingRun& run, unsigned seed, int stage) {
  const Strategy& s = run.strategy;
  std::string text = "seed " + std::to_string(seed) + ", stage " + std::to_string(stage) + " of " +
                     std::to_string(s.pp);
  text += run.framework.autograd ? ", autograd, " : ", runtime, ";
  text += run.model.moe ? "MoE, " : "dense, ";
  text += name_of(s.sharding) + std::string(", ") + name_of(s.pipeline_schedule) + ", recompute " +
          text_of(s.recompute);
  return text + ", " + std::to_string(s.num_microbatches()) + " micro-batches";
}

template <class Check>
int for_each_stage(const Check& check) {
  int runs = 0;
  for (unsigned seed = 0; seed < share_of(kSeeds); ++seed) {
    const std::optional<TrainingRun> run = random_run(seed);
    if (!run) continue;
    ++runs;
    const LayerPrices prices = layer_bytes(*run);
    const StageContents contents(*run);
    for (int stage = 0; stage < run->strategy.pp; ++stage) {
      SCOPED_TRACE(description(*run, seed, stage));
      check(*run, prices, contents, stage);
      if (testing::Test::HasFailure()) return runs;
    }
  }
  return runs;
}

Bytes highest(const std::vector<MemoryPoint>& points) {
  Bytes most = points.front().allocated;
  for (const MemoryPoint& point : points) most = std::max(most, point.allocated);
  return most;
}

TEST(StepWalk, APeakIsTheHighestPointOfItsTable) {
  const int runs =
      for_each_stage([](const auto& run, const auto& prices, const auto& contents, int stage) {
        const StagePeak peak = stage_peak(run, prices, contents, stage);
        const std::vector<MemoryPoint> points = stage_points(run, prices, contents, stage, false);
        EXPECT_NEAR(highest(points) / peak.peak, 1.0, kRounding);
        EXPECT_NEAR(points.front().allocated / peak.idle, 1.0, kRounding);
        // a step gives back what it takes.
        EXPECT_NEAR(points.back().allocated / peak.idle, 1.0, kRounding);
      });
  EXPECT_GT(runs, static_cast<int>(share_of(500)));
}

// Of stages that share their passes with others, and though passes that change nothing are left out.
TEST(StepWalk, TheHighestPointIsThatOfTheTable) {
  std::unique_ptr<StageWalks> walks;
  for_each_stage([&](const auto& run, const auto& prices, const auto& contents, int stage) {
    if (stage == 0) walks = std::make_unique<StageWalks>(run, prices, contents);
    const std::vector<MemoryPoint> points = stage_points(run, prices, contents, stage, false);
    const MemoryPoint& first = *std::max_element(
        points.begin(), points.end(),
        [](const MemoryPoint& a, const MemoryPoint& b) { return a.allocated < b.allocated; });
    const MemoryPoint highest = walks->highest(stage);
    EXPECT_NEAR(highest.allocated / first.allocated, 1.0, kRounding);
    EXPECT_EQ(std::string_view(highest.phase), first.phase);
    for (int i = 0; i < kNumMemoryKinds; ++i) {
      const auto kind = static_cast<MemoryKind>(i);
      EXPECT_NEAR((highest.terms[kind] - first.terms[kind]) / first.allocated, 0.0, kRounding)
          << name_of(kind);
    }
    const StagePeak shared = walks->peak(stage), own = stage_peak(run, prices, contents, stage);
    EXPECT_EQ(shared.peak, own.peak);
    EXPECT_EQ(shared.after_forward, own.after_forward);
    // The same passes, in bytes and in bytes by term.
    EXPECT_NEAR(highest.allocated / shared.peak, 1.0, kRounding);
  });
}

TEST(StepWalk, ThePeakOfTheWholeStepIsThatOfTheMicroBatchesThatAreFollowed) {
  for_each_stage([](const auto& run, const auto& prices, const auto& contents, int stage) {
    const Bytes peak = stage_peak(run, prices, contents, stage).peak;
    EXPECT_NEAR(highest(stage_points(run, prices, contents, stage, true)) / peak, 1.0, kRounding);
  });
}

TEST(StepWalk, TermsAddUpAndNoneIsNegative) {
  for_each_stage([](const auto& run, const auto& prices, const auto& contents, int stage) {
    for (const MemoryPoint& point : stage_points(run, prices, contents, stage, false)) {
      EXPECT_NEAR(point.terms.total() / point.allocated, 1.0, kRounding) << point.phase;
      for (int i = 0; i < kNumMemoryKinds; ++i) {
        const auto kind = static_cast<MemoryKind>(i);
        EXPECT_GE(point.terms[kind], -kRounding * point.allocated)
            << point.phase << ": " << name_of(kind);
      }
    }
  });
}

}  // namespace
}  // namespace llmsim::sim
