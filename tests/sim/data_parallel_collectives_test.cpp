#include "sim/schedule/data_parallel_collectives.h"

#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "sim/predict.h"
#include "sim/schedule/step.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Sixteen devices on two nodes; `rank` as for 16 blocks of one million parameters.
struct ExchangeCase {
  TrainingRun run = small_run(16);
  RankParameters rank{.kinds = {{{.own = 1e6}}}, .embedding = 4e6, .head = 2e6};

  DataParallelCollectives exchange() const { return DataParallelCollectives(run, rank); }
};

TEST(DataParallelCollectives, UnitsOfShardedWeightsAreWhatTheFrameworkWraps) {
  ExchangeCase c;
  c.run.strategy.sharding = Sharding::Zero3;
  EXPECT_EQ(c.exchange().units({.blocks = 16, .of_kind = {16}}), 16);
  c.run.framework.sharded.unit_blocks = 3.0;
  EXPECT_EQ(c.exchange().units({.blocks = 16, .of_kind = {16}}), 6);  // 16 / 3, rounded up
  c.run.framework.sharded.unit_blocks = 0.125;
  EXPECT_EQ(c.exchange().units({.blocks = 16, .of_kind = {16}}), 128);
  c.run.framework.sharded.unit_blocks = 0.0;
  EXPECT_EQ(c.exchange().units({.blocks = 16, .of_kind = {16}}), 1);
}

TEST(DataParallelCollectives, WholeWeightsAreReducedInBuckets) {
  ExchangeCase c;
  EXPECT_EQ(c.exchange().units({.blocks = 16, .of_kind = {16}}), 16);
  c.run.framework.gradients.bucket = 4e6;
  EXPECT_EQ(c.exchange().units({.blocks = 16, .of_kind = {16}}), 4);
  c.run.framework.gradients.bucket_per_rank = 1e6;  // 16 million at 16 ranks
  EXPECT_EQ(c.exchange().units({.blocks = 16, .of_kind = {16}}), 1);
}

TEST(DataParallelCollectives, FlatUnitsAreOneMessageEachPaddedToTheirRanks) {
  ExchangeCase c;
  c.run.framework.sharded.flat_units = true;
  c.run.strategy.sharding = Sharding::Zero3;
  c.rank.kinds[0].own = 1e6 + 1;
  const DataParallelMessages all =
      c.exchange().messages({{.blocks = 16, .embedding = true, .head = true, .of_kind = {16}}});
  EXPECT_EQ(all.count, 18.0);
  EXPECT_EQ(all.parameters, 16 * (1e6 + 16) + 4e6 + 2e6);  // 16 ranks
  EXPECT_EQ(all.trained, all.parameters);
}

// ZeRO-1 gathers what its optimizer has changed, ZeRO-3 whatever it has divided.
TEST(DataParallelCollectives, FrozenWeightsAreGatheredOnlyWhereTheyAreSharded) {
  ExchangeCase c;
  c.run.strategy.adapters = Adapters{.rank = 8};
  c.rank.kinds[0].adapters = 1e4, c.rank.adapted = true;
  const auto gathered = [&c](Sharding sharding) {
    c.run.strategy.sharding = sharding;
    return c.exchange().messages({{.blocks = 16, .of_kind = {16}}}).parameters;
  };
  EXPECT_EQ(gathered(Sharding::Zero1), 16 * 1e4);
  EXPECT_EQ(gathered(Sharding::Zero3), 16 * 1e6);
}

TEST(DataParallelCollectives, BucketsRunThroughFlatUnits) {
  ExchangeCase c;
  c.run.framework.sharded.flat_units = true;
  c.run.framework.gradients.bucket = 5e6;
  const DataParallelMessages all =
      c.exchange().messages({{.blocks = 16, .embedding = true, .head = true, .of_kind = {16}}});
  EXPECT_EQ(all.count, 5.0);  // four full ones and 2 of 22 million
  EXPECT_EQ(all.trained, 22e6);
}

TEST(DataParallelCollectives, TheNormOfShardedGradientsIsSummed) {
  ExchangeCase c;
  c.run.framework.update.sums_norm = true;
  EXPECT_EQ(c.exchange().norm_message(), Bytes(0.0));  // every rank has all gradients
  c.run.strategy.sharding = Sharding::Zero1;
  EXPECT_EQ(c.exchange().norm_message(), Bytes(4.0));
  c.run.optimizer_step = false;
  EXPECT_EQ(c.exchange().norm_message(), Bytes(0.0));
}

TEST(DataParallelCollectives, UnitsInsideACheckpointAreGatheredThreeTimes) {
  ExchangeCase c;
  c.run.strategy.sharding = Sharding::Zero3;
  const auto gathers = [&c](const Recompute& recompute) {
    c.run.strategy.recompute = recompute;
    return c.exchange().backward_gathers({.blocks = 16, .of_kind = {16}});
  };
  EXPECT_EQ(gathers({.kind = RecomputeKind::Full}), 1.0);  // around it
  c.run.framework.sharded.regathers_recomputed = true;
  EXPECT_EQ(gathers({}), 1.0);
  EXPECT_EQ(gathers({.kind = RecomputeKind::Op}), 1.0);  // of no whole block
  EXPECT_EQ(gathers({.kind = RecomputeKind::Full}), 2.0);
  EXPECT_EQ(gathers({.kind = RecomputeKind::EveryN, .every_n = 2}), 1.5);
  c.run.framework.sharded.regathers_in_backward = false;
  EXPECT_EQ(gathers({.kind = RecomputeKind::Full}), 0.0);
}

TEST(DataParallelCollectives, WeightsThatAreSoonUsedAgainStay) {
  // Of 22 million parameters the last 5.5 are used again within 11.  Blocks of a million are all
  // used again within 2; within a million those with less than half of them behind: of
  // qkv, projection, up and down, 3 + 1 + 4 + 4 twelfths, the last two.
  ExchangeCase c;
  c.run.strategy.sharding = Sharding::Zero3;
  c.run.strategy.recompute = {.kind = RecomputeKind::Full};
  c.run.framework.sharded.regathers_recomputed = true;
  const auto gathers = [&c](double limit) {
    c.run.framework.sharded.live_parameters = limit;
    return c.exchange().backward_gathers(
        {.blocks = 16, .embedding = true, .head = true, .of_kind = {16}});
  };
  EXPECT_DOUBLE_EQ(gathers(11e6), 0.75);
  EXPECT_NEAR(gathers(1e6), 1.0 - 0.5 / 22.0 + 4.0 / 12.0, 1e-3);
  EXPECT_EQ(gathers(44e6), 0.0);
  EXPECT_EQ(gathers(0.0), 2.0);
  // A stage of the head alone has no blocks.
  EXPECT_EQ(c.exchange().backward_gathers({.head = true}), 0.0);
}

// Two nodes of one device behind a slow network, which nothing hides: the third gather adds half of
// two, in the step and in the table.
TEST(DataParallelCollectives, TheThirdGatherIsInTheStepAndInItsTable) {
  TrainingRun run = small_run(2);
  run.cluster.devices_per_node = run.cluster.fabric.devices = 1;
  run.cluster.network.node_bandwidth = 0.001 * GBps;
  run.strategy.sharding = Sharding::Zero3;
  run.strategy.recompute = {.kind = RecomputeKind::Full};
  run.strategy.gather_overlap = false;
  run.framework.sharded.root_stays_gathered = false;
  const auto gathered = [&run] {
    const Prediction prediction = predict(run);
    for (const CommunicationTerm& term : prediction.communication)
      if (std::string_view(term.collective) == "all_gather") return std::pair(term, prediction);
    return std::pair(CommunicationTerm{}, prediction);
  };
  const auto [two, before] = gathered();
  run.framework.sharded.regathers_recomputed = true;
  const auto [three, after] = gathered();
  EXPECT_EQ(three.count - two.count, 8.0 * 8.0);  // 8 blocks, 8 micro-batches
  EXPECT_GT(three.size, two.size);
  EXPECT_NEAR((after.step_time - before.step_time) / (three.time - two.time), 1.0, 1e-3);
}

// A pipeline of eight micro-batches: eight gathers forward and eight backward, and eight
// reductions; or one and one.
TEST(DataParallelCollectives, APipelineCanKeepItsUnitsWholeThroughTheStep) {
  ExchangeCase c;
  c.run.strategy.sharding = Sharding::Zero3;
  c.run.strategy.pp = 2, c.run.strategy.dp = 8;
  c.run.strategy.global_batch = 8 * 8 * c.run.strategy.micro_batch;
  const ModelChunk part{.blocks = 8, .of_kind = {8}};
  EXPECT_EQ(c.exchange().forward_gathers_per_step(), 8.0);
  EXPECT_EQ(c.exchange().backward_gathers(part), 1.0);
  EXPECT_EQ(c.exchange().reductions_per_step(), 8.0);
  c.run.framework.sharded.whole_in_pipelines = true;
  EXPECT_EQ(c.exchange().forward_gathers_per_step(), 1.0);
  EXPECT_EQ(c.exchange().backward_gathers(part), 0.0);
  EXPECT_EQ(c.exchange().reductions_per_step(), 1.0);
  // Without a pipeline nothing changes.
  c.run.strategy.pp = 1, c.run.strategy.dp = 16;
  EXPECT_EQ(c.exchange().backward_gathers(part), 1.0);
}

TEST(DataParallelCollectives, UnitsTogetherCarryTheSameBytes) {
  // No latency to speak of: 16 messages of 1/16 take as long as one, 15/16 of 32 MB at 80 GB/s; 128
  // pay 128 latencies.
  ExchangeCase c;
  c.run.strategy.sharding = Sharding::Zero3;
  c.run.framework.storage.weight_bytes = 2.0;
  const double wire = 15.0 / 16.0 * 32e6 / 80e9;
  EXPECT_NEAR(16.0 * c.exchange().unit_times({.blocks = 16, .of_kind = {16}}).gather.value(), wire,
              16 * 20e-6);
  c.run.framework.sharded.unit_blocks = 0.0;
  EXPECT_NEAR(c.exchange().unit_times({.blocks = 16, .of_kind = {16}}).gather.value(), wire, 20e-6);
  c.run.framework.sharded.unit_blocks = 0.125;
  EXPECT_GT(128.0 * c.exchange().unit_times({.blocks = 16, .of_kind = {16}}).gather.value(),
            wire + 128 * 5e-6);
}

TEST(DataParallelCollectives, ReductionsAreAsWideAsTheFrameworkSays) {
  // Autocast over fp32 weights under FSDP: bf16 on the wire unless reduce_dtype is fp32; an fp32
  // run has nothing narrower.
  ExchangeCase c;
  c.run.framework.storage.weight_bytes = c.run.framework.storage.gradient_bytes = 4.0;
  EXPECT_EQ(c.exchange().gradient_wire_bytes(), 2.0);
  c.run.framework.gradients.reduced_in_fp32 = true;
  EXPECT_EQ(c.exchange().gradient_wire_bytes(), 4.0);
  c.run.framework.gradients.reduced_in_fp32 = false;
  c.run.strategy.precision = Precision::Fp32;
  EXPECT_EQ(c.exchange().gradient_wire_bytes(), 4.0);
}

TEST(DataParallelCollectives, GradientsThatAreReducedWholeCostAnAllReduceAndTheGather) {
  ExchangeCase c;
  c.run.strategy.sharding = Sharding::None;
  const Seconds whole = c.exchange().times(1e9, 1e9).scatter;
  c.run.strategy.sharding = Sharding::Zero1;
  const DataParallelTimes scattered = c.exchange().times(1e9, 1e9);
  c.run.framework.gradients.reduced_whole = true;
  const DataParallelTimes times = c.exchange().times(1e9, 1e9);
  EXPECT_EQ(times.scatter, whole);
  EXPECT_EQ(times.gather, scattered.gather);
  EXPECT_GT(times.scatter, 1.5 * scattered.scatter);
  c.run.strategy.sharding = Sharding::Zero3;  // nothing of it holds where weights are sharded
  EXPECT_EQ(c.exchange().times(1e9, 1e9).scatter, scattered.scatter);
}

TEST(DataParallelCollectives, QuantisedGathersSendOneByte) {
  ExchangeCase c;
  c.run.strategy.precision = Precision::Fp8;
  EXPECT_EQ(c.exchange().weight_wire_bytes(), 2.0);
  c.run.framework.low_precision.gathers = true;
  EXPECT_EQ(c.exchange().weight_wire_bytes(), 1.0);
  c.run.strategy.precision = Precision::Bf16;
  EXPECT_EQ(c.exchange().weight_wire_bytes(), 2.0);
}

// Step time with one unit for the whole model over that with one per block, on nodes of one device
// behind a slow network.
double one_unit_ratio(int devices, Seconds latency) {
  TrainingRun run = small_run(devices);
  run.cluster.devices_per_node = run.cluster.fabric.devices = 1;
  run.cluster.network.latency = latency;
  run.strategy.sharding = Sharding::Zero3;
  run.strategy.global_batch = devices;
  run.optimizer_step = false;
  const auto total = [&] { return step_time(run, layer_prices(run)); };
  const Seconds blocks = total();
  run.framework.sharded.unit_blocks = 0.0;
  return total() / blocks;
}

TEST(DataParallelCollectives, OneUnitForTheWholeModelWinsOnlyWhereLatencyRules) {
  // OLMo (pull request 270): one unit was faster than one per block beyond 32 nodes.  Blocks hide
  // gathers behind compute, but pay a ring's n - 1 hops each time.
  EXPECT_GT(one_unit_ratio(8, Seconds(1e-6)), 1.0);
  EXPECT_LT(one_unit_ratio(1024, Seconds(50e-6)), 1.0);
}

double bytes_of(double (*copies)(const Run&, const DataParallelCollectives&),
                const TrainingRun& run) {
  const RankParameters rank = rank_parameters(run.model, run.strategy);
  return copies(run, DataParallelCollectives(run, rank));
}

TEST(ParameterCopies, EveryMicrobatchButTheFirstAddsToTheSum) {
  // Eight micro-batches, 2-byte gradients: seven of eight read two values and write one.
  TrainingRun run = small_run();
  EXPECT_DOUBLE_EQ(bytes_of(accumulation_bytes, run), 7.0 / 8.0 * 3.0 * 2.0);
  run.strategy.global_batch = 1;
  EXPECT_DOUBLE_EQ(bytes_of(accumulation_bytes, run), 0.0);
  run.optimizer_step = false;
  EXPECT_DOUBLE_EQ(bytes_of(accumulation_bytes, run), 3.0 * 2.0);
}

TEST(ParameterCopies, GemmsThatAccumulateLeaveNothingToAdd) {
  TrainingRun run = small_run();
  run.framework.gradients.accumulated_by_gemm = true;
  EXPECT_DOUBLE_EQ(bytes_of(accumulation_bytes, run), 0.0);
}

TEST(ParameterCopies, ShardedGradientsAreAddedOnTheShard) {
  TrainingRun run = small_run(8);
  run.strategy.sharding = Sharding::Zero3;
  EXPECT_DOUBLE_EQ(bytes_of(accumulation_bytes, run), 7.0 / 8.0 * 3.0 * 2.0 / 8.0);
}

TEST(ParameterCopies, BucketsCostAReadAndAWriteEachWay) {
  // fp32 gradients into a bucket and out of it: 2 x (4 + 4) bytes; nothing to copy on one device.
  TrainingRun run = small_run(8);
  run.framework.gradients.copies = 2.0;
  run.framework.gradients.reduced_in_fp32 = true;
  EXPECT_DOUBLE_EQ(bytes_of(reduction_copy_bytes, run), 16.0);
  TrainingRun single = small_run(1);
  single.framework = run.framework;
  EXPECT_DOUBLE_EQ(bytes_of(reduction_copy_bytes, single), 0.0);
}

TEST(ParameterCopies, AStepShowsThem) {
  // One device of 1 TB/s, eight micro-batches: 7 x 6 bytes of every weight and gradient pass
  // through memory.
  const TrainingRun run = small_run();
  double copies = 0.0;
  for (const TimeTerm& t : predict(run).breakdown)
    copies += std::string(t.name) == "gradient_copies" ? t.time.value() : 0.0;
  const double expected = 7.0 * 6.0 * static_cast<double>(parameters(run.model).total()) / 1e12;
  EXPECT_NEAR(copies, expected, 1e-3 * expected);
}

}  // namespace
}  // namespace llmsim::sim
