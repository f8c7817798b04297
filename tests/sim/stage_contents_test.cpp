#include "sim/memory/stage_contents.h"

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Eight blocks on two stages of two chunks: blocks 0-1 and 4-5 on the first, 2-3 and 6-7 on the second.
Strategy interleaved() {
  Strategy strategy;
  strategy.pp = 2, strategy.virtual_stages = 2;
  strategy.pipeline_schedule = PipelineSchedule::Interleaved;
  strategy.global_batch = 8;
  return strategy;
}

TEST(StageContents, AStageHasEveryChunkOfItsOwn) {
  const Strategy strategy = interleaved();
  const StageContents contents(small_model(), strategy);
  EXPECT_EQ(contents.part(0, 0), (ModelPart{.blocks = 2, .embedding = true}));
  EXPECT_EQ(contents.part(0, 1), (ModelPart{.blocks = 2}));
  EXPECT_EQ(contents.part(1, 1), (ModelPart{.blocks = 2, .head = true}));
  EXPECT_EQ(contents.blocks(0), 4);
  const RankParameters& rank = contents.rank();
  EXPECT_DOUBLE_EQ(contents.held(0), 4.0 * rank.block + rank.embedding);
  EXPECT_DOUBLE_EQ(contents.held(1), 4.0 * rank.block + rank.head);
}

TEST(StageContents, StagesOfAnUntiedModelHoldItOnce) {
  Transformer model = small_model();
  model.tied_embeddings = false;
  const Strategy strategy = interleaved();
  const StageContents contents(model, strategy);
  EXPECT_DOUBLE_EQ(contents.held(0) + contents.held(1), static_cast<double>(parameters(model).total()));
}

// A tied table is held once where a stage has both ends: of a V once in all, of a DualPipe by the first and by the last stage.
TEST(StageContents, ATiedTableIsHeldOnceOnAStage) {
  Transformer model = small_model();
  model.tied_embeddings = true;
  const auto total = static_cast<double>(parameters(model).total());
  const auto held = [&](PipelineSchedule schedule, int virtual_stages) {
    Strategy strategy = interleaved();
    strategy.pipeline_schedule = schedule, strategy.virtual_stages = virtual_stages;
    const StageContents contents(model, strategy);
    return contents.held(0) + contents.held(1);
  };
  EXPECT_DOUBLE_EQ(held(PipelineSchedule::ZbV, 2), total);
  EXPECT_DOUBLE_EQ(held(PipelineSchedule::DualPipe, 1), 2.0 * total);
  EXPECT_DOUBLE_EQ(held(PipelineSchedule::Interleaved, 2), total + 32768.0 * 1024.0);
}

TEST(StageContents, PassesInFlightFollowTheSchedule) {
  Strategy strategy = interleaved();
  const auto in_flight = [&](int stage) { return StageContents(small_model(), strategy).chunks_in_flight(stage); };
  // Warm-up of 2 (stages - stage - 1) + (chunks - 1) stages = 4 and 2 passes, and the one that follows it.
  EXPECT_EQ(in_flight(0), 5);
  EXPECT_EQ(in_flight(1), 3);
  strategy.virtual_stages = 1, strategy.pipeline_schedule = PipelineSchedule::OneForwardOneBackward;
  EXPECT_EQ(in_flight(0), 2);
  EXPECT_EQ(in_flight(1), 1);
  strategy.pipeline_schedule = PipelineSchedule::GPipe;
  EXPECT_EQ(in_flight(1), 8);
}

}  // namespace
}  // namespace llmsim::sim
