#include "sim/schedule/waits.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "sim/predict.h"
#include "tests/sim/random_run.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

std::vector<OverlapUnit> blocks(int count, double gather, double compute, double reduce) {
  return std::vector<OverlapUnit>(
      static_cast<std::size_t>(count),
      {.gather = Seconds(gather), .compute = Seconds(compute), .reduce = Seconds(reduce)});
}

constexpr OverlapBehaviour kApart{.gathers_overlap = false, .reductions_overlap = false};

TEST(Overlap, FastGathersHideBehindAllButTheFirstBlock) {
  // gather 1, compute 3: only the first gather is seen.
  EXPECT_DOUBLE_EQ(overlap_times(blocks(10, 1.0, 3.0, 0.0), {}).end.value(), 1.0 + 10 * 3.0);
}

TEST(Overlap, SlowGathersSetThePace) {
  // gather 3, compute 1: the stream never rests, the last block computes after its gather.
  EXPECT_DOUBLE_EQ(overlap_times(blocks(10, 3.0, 1.0, 0.0), {}).end.value(), 10 * 3.0 + 1.0);
}

TEST(Overlap, OnlyTheLastReductionIsSeen) {
  EXPECT_DOUBLE_EQ(overlap_times(blocks(10, 0.0, 3.0, 1.0), {}).end.value(), 10 * 3.0 + 1.0);
}

TEST(Overlap, WithoutPrefetchOrOverlapEverythingAddsUp) {
  EXPECT_DOUBLE_EQ(overlap_times(blocks(10, 1.0, 3.0, 0.0), {.prefetch = 0}).end.value(), 40.0);
  EXPECT_DOUBLE_EQ(overlap_times(blocks(10, 1.0, 3.0, 1.0), kApart).end.value(), 50.0);
}

// Equal units as one, most of which are left out, and one by one.
TEST(Overlap, EqualUnitsTakeAsLongAsOneByOne) {
  constexpr OverlapLoss kLoss{.channel = 0.3, .replicas = 0.2};
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    RandomChoice choose(seed);
    std::vector<OverlapUnit> equal, single;
    for (int group = choose.of({1, 2, 3}); group > 0; --group) {
      const OverlapUnit unit{.gather = Seconds(choose.of({0.0, 0.0, 0.4, 1.0, 2.7})),
                             .compute = Seconds(choose.of({0.0, 0.5, 1.0, 1.3})),
                             .reduce = Seconds(choose.of({0.0, 0.3, 1.0, 1.1, 2.0, 5.0})),
                             .replicate = Seconds(choose.of({0.0, 0.0, 0.0, 0.7})),
                             .count = choose.of({1, 2, 5, 40, 80})};
      equal.push_back(unit);
      for (int i = 0; i < unit.count; ++i) single.push_back(unit), single.back().count = 1;
    }
    const OverlapBehaviour habits{.prefetch = choose.of({0, 1, 2, 4}),
                                  .gathers_overlap = choose.yes(),
                                  .reductions_overlap = choose.below(4) > 0,
                                  .scatters_alone = choose.below(4) == 0};
    const OverlapTimes one = overlap_times(equal, habits, kLoss),
                       other = overlap_times(single, habits, kLoss);
    EXPECT_NEAR(one.end.value(), other.end.value(), 1e-11 * other.end.value());
    EXPECT_NEAR(one.slowdown.value(), other.slowdown.value(), 1e-11 * other.end.value());
  }
}

TEST(Overlap, NothingEndsBeforeItsTrafficOrItsCompute) {
  for (const double gather : {0.0, 0.5, 2.0}) {
    for (const double reduce : {0.0, 0.5, 2.0}) {
      const double end = overlap_times(blocks(7, gather, 1.0, reduce), {}).end.value();
      EXPECT_GE(end, 7.0);
      EXPECT_GE(end, 7 * (gather + reduce));
      EXPECT_LE(end, 7 * (gather + 1.0 + reduce) + 1e-12);
    }
  }
}

TEST(Overlap, OneCommunicatorCarriesOneCollectiveAtATime) {
  // Backward of sharded weights, gather 2, compute 3, reduce 2: from the second unit on the channel
  // needs 4 for every 3 of compute.
  //   g0 0-2, g1 2-4, c0 2-5, r0 5-7, c1 5-8, g2 7-9 (issued at 5, behind r0), r1 9-11, c2 9-12, r2
  //     12-14
  EXPECT_DOUBLE_EQ(overlap_times(blocks(3, 2.0, 3.0, 2.0), {}).end.value(), 14.0);
}

TEST(Overlap, AnUnlimitedPrefetchKeepsTheChannelBusy) {
  // Units that compute 4, 0 and 4 with gathers of 2.  One ahead, g2 is issued when c1 starts, at 6,
  // and c2 runs 8-12; without a limit all gathers are through at 6 and c2 runs 6-10.
  std::vector<OverlapUnit> units = blocks(3, 2.0, 4.0, 0.0);
  units[1].compute = Seconds(0.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {}).end.value(), 12.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {.prefetch = kMostPrefetch}).end.value(), 10.0);
}

TEST(Overlap, SumsOverReplicasRunBesideTheNextReduction) {
  // compute 1, scatter 2, replicate 2: scatters end at 3, 5, 7; each sum starts there and ends 2
  // later.
  std::vector<OverlapUnit> units = blocks(3, 0.0, 1.0, 2.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(2.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {}).end.value(), 9.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, kApart).end.value(), 15.0);
}

TEST(Overlap, ComputeIsSlowedDownOnlyWhileTheChannelIsBusy) {
  // gather 1, compute 3, loss 0.25.  c0 1-: g1 is under way until 2, by when 0.75 of the 3 is done:
  // 1 + 1 + 2.25 = 4.25.  Each of the first nine units takes 0.25 longer, the last has nothing
  // beside it.
  const OverlapTimes times = overlap_times(blocks(10, 1.0, 3.0, 0.0), {}, {.channel = 0.25});
  EXPECT_DOUBLE_EQ(times.slowdown.value(), 9 * 0.25);
  EXPECT_DOUBLE_EQ(times.end.value(), 1.0 + 10 * 3.0 + 9 * 0.25);
}

TEST(Overlap, SlowComputeUnderALongerCollectiveCostsNoTime) {
  // gather 3, compute 1: a loss of a half makes 2 of each 1 but the last, and the channel still
  // sets the pace.
  const OverlapTimes times = overlap_times(blocks(10, 3.0, 1.0, 0.0), {}, {.channel = 0.5});
  EXPECT_DOUBLE_EQ(times.slowdown.value(), 9 * 1.0);
  EXPECT_DOUBLE_EQ(times.end.value(), 10 * 3.0 + 1.0);
}

TEST(Overlap, BothCommunicatorsTakeTheirShare) {
  // compute 4, scatter 1, replicate 1 after it, losses 0.5 and 0.25: c1 from 4 does 0.5 by 5, 0.75
  // by 6 and the other 2.75 by 8.75.
  std::vector<OverlapUnit> units = blocks(2, 0.0, 4.0, 1.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(1.0);
  const OverlapTimes times = overlap_times(units, {}, {.channel = 0.5, .replicas = 0.25});
  EXPECT_DOUBLE_EQ(times.slowdown.value(), 0.75);
  EXPECT_DOUBLE_EQ(times.end.value(), 8.75 + 2.0);
}

TEST(Overlap, ComputeWaitsForReductionsThatRunAlone) {
  // gather 1, compute 3, reduce 2: 1 + 3 * (3 + 2); gathers stay hidden, and only they slow compute
  // down.
  const std::vector<OverlapUnit> units = blocks(3, 1.0, 3.0, 2.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {.scatters_alone = true}).end.value(), 1.0 + 3 * 5.0);
  EXPECT_DOUBLE_EQ(
      overlap_times(units, {.scatters_alone = true}, {.channel = 0.25}).slowdown.value(), 2 * 0.25);
}

TEST(Overlap, EachKindIsKeptApartByItself) {
  // gather 1, compute 3, reduce 2.  Gathers apart: g0 0-1, c0 1-4, g1 4-5 before r0 5-7, c1 5-8, g2
  // 8-9, r1 9-11, c2 9-12, r2 12-14.
  const std::vector<OverlapUnit> units = blocks(3, 1.0, 3.0, 2.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {.gathers_overlap = false}).end.value(), 14.0);
  // Reductions apart: g1 and g2 are beside c0 and c1.
  EXPECT_DOUBLE_EQ(overlap_times(units, {.reductions_overlap = false}).end.value(),
                   1.0 + 3 * (3.0 + 2.0));
  EXPECT_DOUBLE_EQ(overlap_times(units, kApart).end.value(), 3 * (1.0 + 3.0 + 2.0));
}

TEST(Overlap, ReductionsApartEndWithTheSumOverReplicas) {
  std::vector<OverlapUnit> units = blocks(2, 0.0, 3.0, 2.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(4.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {.reductions_overlap = false}).end.value(),
                   2 * (3.0 + 2.0 + 4.0));
}

TEST(Overlap, NoOverlapNoSlowdown) {
  EXPECT_EQ(overlap_times(blocks(10, 1.0, 3.0, 1.0), kApart, {.channel = 0.5}).slowdown,
            Seconds(0.0));
}

TEST(Overlap, MoreLossNeverEndsEarlier) {
  double before = 0.0;
  for (const double loss : {0.0, 0.1, 0.3, 0.6}) {
    const double end = overlap_times(blocks(7, 1.0, 1.5, 1.0), {}, {.channel = loss}).end.value();
    EXPECT_GE(end, before);
    before = end;
  }
}

TEST(Overlap, ASumOverReplicasFollowsComputeWhereNothingIsReduced) {
  // compute 3, replicate 4: sums run 3-7 and 7-11; apart, the second unit computes when the first
  // sum is through.
  std::vector<OverlapUnit> units = blocks(2, 0.0, 3.0, 0.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(4.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {}).end.value(), 11.0);
  EXPECT_DOUBLE_EQ(overlap_times(units, {.reductions_overlap = false}).end.value(), 14.0);
}

TEST(Overlap, BothCommunicatorsTakeNoMoreThanNineTenths) {
  // compute 1, scatter 2, replicate 10, losses 0.6 and 0.5.  c0 0-1, r0 1-3, sums from 3 on.  c1
  // does 0.8 by 3 and 0.2 by 3.4; r1 3.4-5.4, beside which and the sum c2 has a tenth of its rate:
  // 0.2 by 5.4, 0.8 by 7.  r2 7-9, and the third sum ends at 33.
  std::vector<OverlapUnit> units = blocks(3, 0.0, 1.0, 2.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(10.0);
  const OverlapTimes times = overlap_times(units, {}, {.channel = 0.6, .replicas = 0.5});
  EXPECT_NEAR(times.slowdown.value(), (3.4 - 1.0 - 1.0) + (7.0 - 3.4 - 1.0), 1e-12);
  EXPECT_NEAR(times.end.value(), 33.0, 1e-12);
}

TEST(Overlap, EverySumOverReplicasSlowsComputeDown) {
  // compute 1, scatter 2, replicate 2, losses 0.6 and 0.5.  c0 0-1, r0 1-3, s0 3-5.  c1 does 0.8 by
  // 3 and 0.2 by 3.4; r1 3.4-5.4, s1 5.4-7.4.  c2 has a tenth of its rate by 5, 0.4 by 5.4 and a
  // half after that: 0.16 + 0.16, and 0.68 by 6.76.  r2 6.76-8.76.
  std::vector<OverlapUnit> units = blocks(3, 0.0, 1.0, 2.0);
  for (OverlapUnit& unit : units) unit.replicate = Seconds(2.0);
  const OverlapTimes times = overlap_times(units, {}, {.channel = 0.6, .replicas = 0.5});
  EXPECT_NEAR(times.slowdown.value(), (3.4 - 1.0 - 1.0) + (6.76 - 3.4 - 1.0), 1e-12);
  EXPECT_NEAR(times.end.value(), 10.76, 1e-12);
}

// The closed form of waits.h with c = 1.
double exposed_gather(int n, double g, double l) {
  const double beside_gather = std::min(1.0 + l * g, 1.0 / (1.0 - l));
  return g + (n - 1) * std::max(0.0, g - beside_gather);
}

// n units over grids of g and l.
TEST(ExposedGather, OfEqualUnitsHasAClosedForm) {
  for (const int n : {1, 2, 3, 10, 80}) {
    for (const double g : {0.0, 0.2, 0.99, 1.0, 1.5, 7.0}) {
      const std::vector<OverlapUnit> units = blocks(n, g, 1.0, 0.0);
      for (const double l : {0.0, 0.1, 0.3, 0.8}) {
        for (const int prefetch : {0, 1}) {
          const OverlapTimes times = overlap_times(units, {.prefetch = prefetch}, {.channel = l});
          EXPECT_NEAR((times.end - times.slowdown).value() - n,
                      prefetch > 0 ? exposed_gather(n, g, l) : n * g, 1e-12 * n)
              << n << ", " << g << ", " << l;
        }
      }
      // A deeper prefetch changes nothing where compute loses nothing.
      const double deep = overlap_times(units, {.prefetch = 4}).end.value() - n;
      EXPECT_NEAR(exposed_gather(n, g, 0.0), deep, 1e-12 * n);
    }
  }
}

constexpr Seconds kMs{1e-3};

TEST(HostQueue, AHostFarBehindItsDeviceIsWaitedForInFull) {
  // 100 ms of host against 2: (2^4 + 100^4)^(1/4) = 100.000004.
  const LaunchWaits waits = launch_waits({.device = 2 * kMs, .host = 100 * kMs},
                                         {.device = 900 * kMs, .host = 4 * kMs}, false);
  EXPECT_NEAR(waits.forward / kMs, 98.0, 1e-4);
  EXPECT_NEAR(waits.backward / kMs, 0.0, 1e-4);
}

TEST(HostQueue, AnEqualHostCostsAFifth) {
  // (5^4 + 5^4)^(1/4) = 5 * 2^(1/4) = 5.946.
  const LaunchWaits waits = launch_waits({.device = 5 * kMs, .host = 5 * kMs}, {}, false);
  EXPECT_NEAR(waits.forward / kMs, 0.946, 1e-3);
}

TEST(HostQueue, NoCallsNoWait) {
  const LaunchWaits waits = launch_waits({.device = 5 * kMs}, {.device = 7 * kMs}, true);
  EXPECT_EQ(waits.forward, Seconds(0.0));
  EXPECT_EQ(waits.backward, Seconds(0.0));
}

TEST(HostQueue, ALongBackwardPassHidesTheNextForwardLaunches) {
  // 50 + 4 ms of host under 2 + 900 ms of device: alone the forward pass would wait 48 ms.
  const PassLoad forward{.device = 2 * kMs, .host = 50 * kMs},
      backward{.device = 900 * kMs, .host = 4 * kMs};
  EXPECT_NEAR(launch_waits(forward, backward, false).forward / kMs, 48.0, 0.01);
  EXPECT_NEAR(launch_waits(forward, backward, true).forward / kMs, 0.0, 0.01);
}

TEST(HostQueue, RunningAheadLeavesTheDifferenceOfTheSums) {
  // 600 + 4 ms of host, 2 + 50 ms of device: 552 ms, all where the host is slower than the device.
  const LaunchWaits waits = launch_waits({.device = 2 * kMs, .host = 600 * kMs},
                                         {.device = 50 * kMs, .host = 4 * kMs}, true);
  EXPECT_NEAR(waits.forward / kMs, 552.0, 0.01);
  EXPECT_NEAR(waits.backward / kMs, 0.0, 0.01);
}

TEST(HostQueue, AShardedBlockIsAsManyUnitsAsAreWrappedOrOneForEachModule) {
  // Two norms and qkv, projection, up, down; a gated MLP has one GEMM more.
  Transformer model = small_model();
  Framework framework;
  EXPECT_EQ(units_per_block(model, framework), 1.0);
  framework.sharded.unit_blocks = 0.25;
  EXPECT_EQ(units_per_block(model, framework), 4.0);
  framework.sharded.unit_blocks = 0.0;  // one of eight blocks
  EXPECT_EQ(units_per_block(model, framework), 1.0 / 8.0);
  framework.sharded.modules_are_units = true;
  EXPECT_EQ(units_per_block(model, framework), 6.0);
  model.gated_mlp = true;
  EXPECT_EQ(units_per_block(model, framework), 7.0);
}

TEST(HostQueue, HooksOfSevenModulesBoundATinyStep) {
  // Eight blocks, each 6 modules x 1 ms, forward, recomputed and backward; eight micro-batches: 8 x
  // 8 x 6 x 3 ms = 1.152 s, and the device needs less.
  TrainingRun run = small_run();
  run.strategy.recompute = {RecomputeKind::Full, 1};
  const Seconds before = predict(run).step_time;
  run.framework.sharded.modules_are_units = true;
  run.framework.host.per_unit = kMs;
  const Prediction bound = predict(run);
  double optimizer = 0.0;
  for (const TimeTerm& t : bound.breakdown)
    optimizer += std::string(t.name) == "optimizer" ? t.time.value() : 0.0;
  EXPECT_LT(before, Seconds(1.152));
  EXPECT_NEAR(bound.step_time.value() - optimizer, 1.152, 0.002);
}

TEST(HostQueue, FetchesInStepAddWhatTheHostDoesAroundThem) {
  // 6 ms around units, whatever the device does.
  const PassLoad load{.device = 50 * kMs, .host = Seconds(0.0), .around = 6 * kMs};
  EXPECT_EQ(launch_waits(load, load, false).forward, 6 * kMs);
  // Eight blocks of six modules, two passes, eight micro-batches: 768 ms more, and half of them
  // once more where they are recomputed.
  TrainingRun run = small_run();
  const auto step = [&run] { return predict(run).step_time; };
  const auto added = [&] {
    run.framework.sharded.fetches_synchronise = true;
    run.framework.host.per_unit = Seconds(0.0);
    const Seconds before = step();
    run.framework.host.per_unit = kMs;
    return step() - before;
  };
  run.framework.sharded.modules_are_units = true;
  EXPECT_NEAR(added() / kMs, 768.0, 1e-6);
  run.strategy.recompute = {.kind = RecomputeKind::Full};
  EXPECT_NEAR(added() / kMs, 1152.0, 1e-6);
}

TEST(HostQueue, SlicesAreForEachRankOfAWeight) {
  // Four GEMMs in each of eight blocks, four ranks: forward once, backward for weight and gradient;
  // eight micro-batches of 0.1 ms each: 307.2 ms.
  TrainingRun run = small_run(4);
  run.strategy.sharding = Sharding::Zero3;
  run.framework.sharded.modules_are_units = run.framework.sharded.fetches_synchronise = true;
  const Seconds before = predict(run).step_time;
  run.framework.host.per_slice = 0.1 * kMs;
  EXPECT_NEAR((predict(run).step_time - before) / kMs, 307.2, 1e-6);
}

TEST(HostQueue, ASlowerHostBoundsTheStepByAsMuch) {
  TrainingRun run = small_run();
  run.framework.host.per_kernel = Seconds(0.1);
  const Seconds before = predict(run).step_time;
  run.cluster.device.achieved.host_call_factor = 2.5;
  EXPECT_NEAR(predict(run).step_time / before, 2.5, 1e-3);
}

TEST(HostQueue, HooksOfGradientsCostTheHostMore) {
  // Eight blocks of tensors, the embedding, the last norm and the head, in each of eight
  // micro-batches.
  TrainingRun run = small_run();
  run.framework.host.per_gradient = Seconds(1.0);
  const double tensors = parameter_tensors(run.model, model_parts(run.model, run.strategy).front());
  EXPECT_NEAR(predict(run).step_time.value(), run.strategy.num_microbatches() * tensors, 1.0);
  run.framework.host.factor = 0.5;
  EXPECT_NEAR(predict(run).step_time.value(), 0.5 * run.strategy.num_microbatches() * tensors, 1.0);
}

TEST(HostQueue, LowPrecisionGemmsCostTheHostMore) {
  // Four linear layers in each of eight blocks: one GEMM forward, two backward; the head stays in
  // 16 bits.
  TrainingRun run = small_run();
  run.strategy.precision = Precision::Fp8;
  run.framework.host.per_low_precision_gemm = Seconds(1.0);
  const Prediction bound = predict(run);
  EXPECT_NEAR(bound.step_time.value(), 8 * 8 * 4 * 3.0, 1.0);
}

// A graph of the whole step is one call; graphs of modules leave the experts' kernels to the host.
TEST(HostQueue, GraphsOfModulesLeaveTheExpertsToTheHost) {
  TrainingRun run = small_run();
  run.model = small_moe();
  run.framework.host.per_kernel = Seconds(1e-3);
  const auto waits = [&] {
    const Prediction prediction = predict(run);
    for (const auto& term : prediction.breakdown) {
      if (std::string_view(term.name) == "launch_wait") return term.time;
    }
    return Seconds(0.0);
  };
  const Seconds eager = waits();
  run.strategy.cuda_graph = true;
  EXPECT_EQ(waits(), Seconds(0.0));
  run.strategy.moe_captured = false;
  EXPECT_GT(waits(), Seconds(0.0));
  EXPECT_LT(waits(), eager);
}

// A host link of 25 GB/s in each direction.
constexpr double kLink = 25e9;

TEST(HostTraffic, PinnedCopiesHideUnderComputeThatIsLonger) {
  const TrainingRun run = small_run();
  HostTraffic traffic(run);
  traffic.checkpoints(Bytes(kLink), false);
  EXPECT_EQ(traffic.exposed(Seconds(1.5)), Seconds(0.0));
  EXPECT_DOUBLE_EQ(traffic.exposed(Seconds(0.25)).value(), 0.75);
}

TEST(HostTraffic, DirectionsRunBesideEachOther) {
  const TrainingRun run = small_run();
  HostTraffic traffic(run);
  traffic.weights(Bytes(2.0 * kLink));
  traffic.gradients(1.0, Bytes(3.0 * kLink), false);
  EXPECT_DOUBLE_EQ(traffic.exposed(Seconds(1.0)).value(), 2.0);
}

TEST(HostTraffic, PageableCheckpointsAreWaitedFor) {
  TrainingRun run = small_run();
  run.framework.host_copies.checkpoints_down = 2.0 * GBps;
  HostTraffic down(run), up(run);
  down.checkpoints(Bytes(8e9), false);
  up.checkpoints(Bytes(8e9), true);
  EXPECT_DOUBLE_EQ(down.exposed(Seconds(100.0)).value(), 4.0);
  EXPECT_EQ(up.exposed(Seconds(100.0)), Seconds(0.0));
}

TEST(HostTraffic, WeightsThatAreNotFetchedAheadAreWaitedFor) {
  TrainingRun run = small_run();
  run.framework.sharded.prefetch_units = 0;
  HostTraffic traffic(run);
  traffic.weights(Bytes(kLink));
  EXPECT_DOUBLE_EQ(traffic.exposed(Seconds(100.0)).value(), 1.0);
}

TEST(HostTraffic, GradientsCrossTheLinkForEveryMicroBatch) {
  TrainingRun run = small_run();
  run.framework.host_copies.gradients_return = true;
  run.framework.host_copies.last_gradient_bytes = 4.0;
  const double count = kLink / 2.0;  // 2 bytes each take a second
  HostTraffic other(run), last(run);
  other.gradients(count, Bytes(2.0 * count), false);
  last.gradients(count, Bytes(2.0 * count), true);
  EXPECT_DOUBLE_EQ(other.exposed(Seconds(0.0)).value(), 1.0);  // down and up
  EXPECT_DOUBLE_EQ(last.exposed(Seconds(0.0)).value(), 3.0);   // and 4 bytes more down
}

TEST(HostTraffic, TheHostCastsGradientsOnceAStep) {
  TrainingRun run = small_run();
  run.framework.host_copies.gradient_cast = Seconds(5e-9);
  const TrainingRun cast_by_device = run;
  run.framework.host_copies.casts_gradients = true;
  HostTraffic by_device(cast_by_device), other(run), last(run);
  by_device.gradients(1e9, Bytes(0.0), true);
  other.gradients(1e9, Bytes(0.0), false);
  last.gradients(1e9, Bytes(0.0), true);
  EXPECT_EQ(by_device.exposed(Seconds(100.0)), Seconds(0.0));
  EXPECT_EQ(other.exposed(Seconds(100.0)), Seconds(0.0));
  EXPECT_DOUBLE_EQ(last.exposed(Seconds(100.0)).value(), 5.0);
}

TEST(HostTraffic, DevicesBehindOneSwitchShareItsLink) {
  Cluster cluster = ideal_cluster(8);
  cluster.devices_per_host_link = 2;
  EXPECT_DOUBLE_EQ(cluster.host_link_share().value(), kLink / 2.0);
  cluster.num_devices = 4;  // one behind each of the four switches
  EXPECT_DOUBLE_EQ(cluster.host_link_share().value(), kLink);
}

TEST(HostTraffic, IdleDevicesLeaveTheirShareOfHostMemory) {
  Cluster cluster = ideal_cluster(2);  // of eight in the node
  cluster.device.host_memory_bandwidth = 10.0 * GBps;
  EXPECT_DOUBLE_EQ(cluster.host_memory_share().value(), 40e9);
}

}  // namespace
}  // namespace llmsim::sim
