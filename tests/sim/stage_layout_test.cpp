#include "sim/strategy/stages.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

using enum PipelineSchedule;

std::vector<int> parts_of(const StageLayout& layout, int stage) {
  std::vector<int> parts;
  for (int chunk = 0; chunk < layout.chunks(); ++chunk) parts.push_back(layout.part(stage, chunk));
  return parts;
}

TEST(StageLayout, ChunksFollowTheSchedule) {
  EXPECT_EQ(parts_of({.schedule = ZbH1, .stages = 4}, 1), (std::vector<int>{1}));
  EXPECT_EQ(parts_of({.schedule = Interleaved, .stages = 4, .virtual_stages = 2}, 1), (std::vector<int>{1, 5}));
  // Down 0 1 2 3 and up again 4 5 6 7.
  EXPECT_EQ(parts_of({.schedule = ZbV, .stages = 4, .virtual_stages = 2}, 0), (std::vector<int>{0, 7}));
  EXPECT_EQ(parts_of({.schedule = ZbV, .stages = 4, .virtual_stages = 2}, 3), (std::vector<int>{3, 4}));
  EXPECT_EQ(parts_of({.schedule = DualPipe, .stages = 4}, 0), (std::vector<int>{0, 3}));
  EXPECT_EQ(parts_of({.schedule = DualPipe, .stages = 4}, 2), (std::vector<int>{2, 1}));
}

TEST(StageLayout, DualPipeHoldsEveryPartTwice) {
  const StageLayout layout{.schedule = DualPipe, .stages = 6, .num_microbatches = 12};
  std::vector<int> held(6, 0);
  for (int stage = 0; stage < 6; ++stage) {
    for (const int part : parts_of(layout, stage)) ++held[static_cast<std::size_t>(part)];
  }
  EXPECT_EQ(layout.parts(), 6);
  EXPECT_EQ(held, std::vector<int>(6, 2));
  EXPECT_EQ(layout.chunk_microbatches(), 6);
}

// Eight layers on two stages: the first has the first and the last quarter, and both ends of the model.
TEST(StageLayout, TheFirstStageOfAVHasBothEndsOfTheModel) {
  Strategy s;
  s.pp = s.virtual_stages = 2, s.pipeline_schedule = ZbV;
  const std::vector<ModelPart> parts = stage_parts(small_model(), s, 0);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_TRUE(parts[0].embedding && parts[1].head);
  EXPECT_EQ(parts[1].first_layer, 6);
}

}  // namespace
}  // namespace llmsim::sim
