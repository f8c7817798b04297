#include "sim/memory/held_activations.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

// (p - s) M_B + s M_W on stage s: Qi et al. 2023, section 2.3.
TEST(HeldActivations, OfZbH1AreThoseOfItsPaper) {
  for (const int p : {2, 4, 8}) {
    const PipelineShape shape{.schedule = PipelineSchedule::ZbH1, .stages = p, .num_microbatches = 3 * p};
    const std::vector<ChunkActivations> chunks{{.kept = Bytes(10.0), .waiting = Bytes(7.0)}};
    for (int s = 0; s < p; ++s) EXPECT_EQ(most_held(stage_order(shape, s), chunks), Bytes((p - s) * 10.0 + s * 7.0)) << s;
  }
}

// As many as 1F1B's first stage, whose micro-batches keep 2 chunks of 5: p (5 + 5).
TEST(HeldActivations, OfZbVAreThoseOf1F1BOnEveryStage) {
  for (const int p : {2, 4, 8}) {
    const PipelineShape shape{.schedule = PipelineSchedule::ZbV, .stages = p, .virtual_stages = 2, .num_microbatches = 3 * p};
    const std::vector<ChunkActivations> chunks(2, {.kept = Bytes(5.0), .waiting = Bytes(4.0)});
    for (int s = 0; s < p; ++s) EXPECT_EQ(most_held(stage_order(shape, s), chunks), Bytes(p * 10.0)) << s;
  }
}

TEST(HeldActivations, OfDualPipeAreOneMoreMicroBatchThanStages) {
  for (const int p : {2, 4, 8}) {
    const PipelineShape shape{.schedule = PipelineSchedule::DualPipe, .stages = p, .num_microbatches = 4 * p};
    const std::vector<ChunkActivations> chunks(2, {.kept = Bytes(10.0), .waiting = Bytes(7.0)});
    Bytes most;
    for (int s = 0; s < p; ++s) most = std::max(most, most_held(stage_order(shape, s), chunks));
    EXPECT_EQ(most, Bytes((p + 1) * 10.0));
  }
}

// Recomputed blocks keep their inputs alone, and leave more behind than they kept: 2 forward passes of 1, then 4 wait.
TEST(HeldActivations, WaitingOnesCanBeMoreThanKeptOnes) {
  const std::vector<PipelinePass> order{{.microbatch = 0},
                                        {.microbatch = 1},
                                        {.microbatch = 0, .kind = PassKind::DataGradient},
                                        {.microbatch = 1, .kind = PassKind::DataGradient},
                                        {.microbatch = 0, .kind = PassKind::WeightGradient},
                                        {.microbatch = 1, .kind = PassKind::WeightGradient}};
  const std::vector<ChunkActivations> chunks{{.kept = Bytes(1.0), .waiting = Bytes(4.0)}};
  EXPECT_EQ(most_held(order, chunks), Bytes(8.0));
}

}  // namespace
}  // namespace llmsim::sim
