#include <gtest/gtest.h>

#include "sim/memory/footprint.h"
#include "sim/schedule/step.h"
#include "sim/search/memory_bounds.h"
#include "sim/search/step_bounds.h"
#include "tests/share.h"
#include "tests/sim/random_run.h"

namespace llmsim::sim {
namespace {

struct Bounds {
  Seconds compute, step;
  Bytes peak, outputs;  // outputs: by the outputs of blocks, without prices
};

// As the search knows a run before it has chosen its pipeline.
TrainingRun without_pipeline(TrainingRun run) {
  run.strategy.pipeline_schedule = PipelineSchedule::OneForwardOneBackward;
  run.strategy.virtual_stages = 1;
  run.strategy.stage_layers.clear();
  return run;
}

Bounds bounds_of(const TrainingRun& run, const LayerPrices& prices) {
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  const StageCounts counts(
      std::make_shared<const EqualStages>(run.model, run.strategy, run.framework.low_precision),
      {run.strategy.recompute});
  const LayerBounds layers = layer_bounds(run, prices);
  const StepShape shape = step_shape(without_pipeline(run));
  const ShardingCosts costs = sharding_costs(run, rank, counts);
  const PipelineShape pipeline = pipeline_shape(run.strategy);
  const auto peak = [&](const LayerBounds& bytes) {
    std::vector<StageActivations> activations;
    activation_bounds(pipeline, passes_in_flight(pipeline, counts), counts, 0, bytes, activations);
    return peak_bound(state_bounds(run, rank, stage_parameters(rank, counts)), activations);
  };
  return {.compute = step_bound(shape, counts, 0, layers, nullptr),
          .step = step_bound(shape, counts, 0, layers, &costs),
          .peak = peak(layers),
          .outputs = peak(output_bounds(run))};
}

TEST(SearchBounds, NoStepIsShorterAndNoPeakIsSmallerThanItsBound) {
  for (unsigned seed = 0; seed < share_of(12000); ++seed) {
    const std::optional<TrainingRun> random = random_run(seed);
    if (!random) continue;
    SCOPED_TRACE(seed);
    TrainingRun run = *random;
    RandomChoice choose(seed + 1);
    run.cluster.devices_per_node = choose.of({2, 4, 8});
    run.cluster.device.achieved.device_spread = choose.of({0.0, 0.02});
    run.cluster.device.achieved.collective_unit_bandwidth = choose.of({0.0, 10.0}) * GBps;
    run.framework.host.per_kernel = choose.of({0.0, 1.0, 30.0}) * us;
    run.strategy.gradient_overlap = choose.yes(), run.strategy.gather_overlap = choose.yes();
    run.framework.blocking_transfers = choose.yes();
    const LayerPrices prices = layer_prices(run);
    const Bounds bounds = bounds_of(run, prices);
    const Seconds step = step_time(run, prices);
    ASSERT_LE(bounds.compute, step);
    ASSERT_LE(bounds.step, step);
    ASSERT_LE(bounds.peak, memory_footprint(run, prices).peak);
    ASSERT_LE(bounds.outputs, bounds.peak);
    StepSimulation passes(run, prices, StepSimulation::Passes{});
    ASSERT_LE(passes.bound(), step);
    passes.simulate();
    ASSERT_EQ(passes.terms().total(), step);
  }
}

// Micro-batches of 2 x 64 tokens of 32 values in 16 bits are 8 KiB after each of a stage's blocks,
// and a share of it on tensor ranks that divide the stream.
TEST(SearchBounds, OutputsOfBlocksByHand) {
  TrainingRun run = small_run();
  run.strategy.micro_batch = 2;
  const double each = 2.0 * run.model.seq_len * run.model.hidden_size * 2.0;
  EXPECT_EQ(output_bounds(run).residual, each);
  EXPECT_EQ(output_bounds(run).left.blocks.front(), each);
  run.strategy.tp = 2, run.strategy.sequence_parallel = true;
  EXPECT_EQ(output_bounds(run).left.blocks.front(), each / 2.0);
}

// One stage of blocks that compute, without host or spread: the bound is the step, but for the
// update and the head.
TEST(SearchBounds, OfOneStageWithoutMessagesIsTheStep) {
  TrainingRun run = small_run();
  run.optimizer_step = false;
  run.framework.gradients.accumulated_by_gemm = true;
  const LayerPrices prices = layer_prices(run);
  const double step = step_time(run, prices).value();
  EXPECT_NEAR(bounds_of(run, prices).step.value(), step, 1e-8 * step);
}

}  // namespace
}  // namespace llmsim::sim
