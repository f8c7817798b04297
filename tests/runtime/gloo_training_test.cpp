// Trainings whose ranks speak over Gloo, asynchronously, give what they give through shared memory:
// to the bit.
#include <string>

#include <gtest/gtest.h>

#include "tests/runtime/experts_setup.h"
#include "tests/runtime/local_training.h"
#include "tests/runtime/thread_ranks.h"
#include "tests/runtime/training_setup.h"

namespace llmsim::runtime {
namespace {

constexpr int kSteps = 2;

void expect_equal_over_gloo(const TrainingSetup& setup) {
  const ThreadWorld world(setup.strategy.num_devices());
  const auto connect = [&](int rank, const GroupMembers& members) {
    return world.connect(rank, members);
  };
  const auto actual = train_over(setup, kSteps, connect).steps,
             expected = train_locally(setup, kSteps).steps;
  for (std::size_t step = 0; step < kSteps; ++step) {
    EXPECT_EQ(actual[step].gradient_norm, expected[step].gradient_norm) << "step " << step;
    // Added up in the order of arrival.
    EXPECT_NEAR(actual[step].loss, expected[step].loss, 1e-6) << "step " << step;
  }
}

TEST(GlooTraining, OfDataRanks) {
  TrainingSetup setup = small_training(Family::Gpt2);
  setup.strategy.dp = 4;
  expect_equal_over_gloo(setup);
}

TEST(GlooTraining, OfShardedRanks) {
  TrainingSetup setup = small_training(Family::Llama);
  setup.strategy.dp = 4;
  setup.strategy.sharding = sim::Sharding::Zero3;
  expect_equal_over_gloo(setup);
}

TEST(GlooTraining, OfTensorStageAndDataRanks) {
  TrainingSetup setup = small_training(Family::Llama);
  setup.model.num_layers = 4;
  setup.strategy.tp = setup.strategy.pp = setup.strategy.dp = 2;
  setup.strategy.sequence_parallel = true;
  setup.strategy.pipeline_schedule = sim::PipelineSchedule::Interleaved;
  setup.strategy.virtual_stages = 2;
  expect_equal_over_gloo(setup);
}

// Pieces of an all-to-all are as large as the routers make them.
TEST(GlooTraining, OfExpertRanks) {
  TrainingSetup setup = small_moe(moe_forms().front());
  setup.strategy.dp = 4, setup.strategy.ep = 2;
  setup.strategy.sharding = sim::Sharding::Zero3;
  expect_equal_over_gloo(setup);
}

}  // namespace
}  // namespace llmsim::runtime
