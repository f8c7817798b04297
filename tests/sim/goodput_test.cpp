#include "sim/job.h"

#include <gtest/gtest.h>

#include <cmath>

namespace llmsim::sim {
namespace {

constexpr Seconds kHour{3600.0};
constexpr Seconds kDay{86400.0};

// A Hertz of so many failures in 1000 days.
Hertz per_1000_days(double failures) { return Hertz(failures / 1000.0 / kDay.value()); }

Interruptions sample_interruptions() {
  return {.rate = Hertz(1e-4),
          .restart = Seconds(500.0),
          .interval = Seconds(1000.0),
          .blocking = Seconds(50.0)};
}

TEST(FailureRates, OfDevicesAndNodesAdd) {
  const FailureRates rates{.per_device = Hertz(1e-9), .per_node = Hertz(1e-8)};
  EXPECT_DOUBLE_EQ(rates.of_job(64, 8).value(), 64e-9 + 8e-8);
}

TEST(SurvivalProbability, OfAMeanTimeIsOneOverE) {
  EXPECT_DOUBLE_EQ(survival_probability(Hertz(1e-4), Seconds(1e4)), std::exp(-1.0));
  EXPECT_EQ(survival_probability(Hertz(0.0), kDay), 1.0);
}

// Jobs of 640 nodes of Frontier start in 4 to 5 of 10 attempts: a node fails to in 1 of 802.
TEST(StartProbability, OfFrontierFollowsTheNodes) {
  const double q = node_start_failure(0.45, 640);
  EXPECT_NEAR(1.0 / q, 802.0, 1.0);
  EXPECT_NEAR(start_probability(q, 640), 0.45, 1e-12);
  EXPECT_NEAR(start_probability(q, 128), 0.852, 5e-4);  // 0.45^(1/5)
  // Published of 832 nodes: 3 to 4 of 10, later 1 to 2.
  EXPECT_NEAR(start_probability(q, 832), 0.354, 5e-4);
}

TEST(CheckpointWriteTime, IsThatOfTheSlowerLimit) {
  const CheckpointStorage storage{.aggregate = 100 * GBps, .per_node = 2 * GBps};
  EXPECT_DOUBLE_EQ(checkpoint_write_time(1 * TB, storage, 10).value(), 50.0);
  EXPECT_DOUBLE_EQ(checkpoint_write_time(1 * TB, storage, 100).value(), 10.0);
  EXPECT_DOUBLE_EQ(checkpoint_write_time(1 * TB, {.per_node = 2 * GBps}, 100).value(), 5.0);
  EXPECT_EQ(checkpoint_write_time(1 * TB, {}, 100), Seconds(0.0));
}

TEST(DalyInterval, ByHand) {
  // C = 200 s, M = 10^4 s: sqrt(2 * 200 * 10^4) = 2000; C / 2M = 0.01.
  EXPECT_DOUBLE_EQ(young_interval(Seconds(200.0), Hertz(1e-4)).value(), 2000.0);
  EXPECT_NEAR(daly_interval(Seconds(200.0), Hertz(1e-4)).value(),
              2000.0 * (1.0 + 0.1 / 3.0 + 0.01 / 9.0) - 200.0, 1e-9);
  EXPECT_DOUBLE_EQ(daly_interval(Seconds(3e4), Hertz(1e-4)).value(), 1e4);  // C >= 2 M
  EXPECT_TRUE(std::isinf(daly_interval(Seconds(200.0), Hertz(0.0)).value()));
}

TEST(DalyInterval, LosesLeastOnAGrid) {
  for (const double blocking : {5.0, 50.0, 500.0}) {
    Interruptions i = sample_interruptions();
    i.blocking = Seconds(blocking);
    i.interval = daly_interval(i.blocking, i.rate);
    const Seconds least = wall_time(kDay, i).total();
    for (double factor = 0.25; factor < 4.0; factor *= 1.05) {
      Interruptions other = i;
      other.interval = i.interval * factor;
      EXPECT_GE(wall_time(kDay, other).total() / least, 1.0 - 1e-4) << blocking << " " << factor;
    }
  }
}

TEST(WallTime, ByHand) {
  const WallTime time = wall_time(Seconds(1e6), sample_interruptions());
  // Without the first start: U e^(lambda R) (e^(lambda (tau + C)) - 1) / (lambda tau).
  const double wall = 1e6 * std::exp(0.05) * (std::exp(0.105) - 1.0) / 0.1;
  EXPECT_NEAR(time.total().value(), wall + 500.0, 1e-6 * wall);
  EXPECT_NEAR(time.interruptions, 1e-4 * wall, 1e-6);
  EXPECT_NEAR(time.checkpoints.value(), 5e4, 1e-6);
  EXPECT_NEAR(time.restarts.value(), wall * (1.0 - std::exp(-0.05)) + 500.0, 1e-3);
  EXPECT_EQ(time.start_attempts, Seconds(0.0));
  // About half an interval and half a checkpoint are lost in each interruption.
  EXPECT_NEAR(time.lost_work.value() / time.interruptions, 525.0, 60.0);
}

TEST(WallTime, IsTheTrainingWhereNothingFails) {
  Interruptions i = sample_interruptions();
  i.rate = Hertz(0.0);
  i.restart = Seconds(0.0);
  EXPECT_DOUBLE_EQ(wall_time(kDay, i).total() / kDay, 1.05);
  i.interval = daly_interval(i.blocking, i.rate);
  EXPECT_EQ(wall_time(kDay, i).total(), kDay);
}

TEST(WallTime, LossesGoToZeroWithTheRate) {
  double before = 2.0;
  for (double rate = 1e-3; rate > 1e-12; rate /= 10.0) {
    Interruptions i = sample_interruptions();
    i.rate = Hertz(rate);
    i.restart = Seconds(10.0);
    i.interval = daly_interval(i.blocking, i.rate);
    const double stretched = wall_time(Seconds(1e9), i).total().value() / 1e9;
    EXPECT_LT(stretched, before);
    before = stretched;
  }
  EXPECT_NEAR(before, 1.0, 2e-5);
}

TEST(WallTime, AttemptsToStartAreGeometric) {
  Interruptions i = sample_interruptions();
  i.rate = Hertz(0.0);
  i.start_probability = 0.25;
  const WallTime time = wall_time(kDay, i);
  EXPECT_DOUBLE_EQ(time.restarts.value(), 500.0);
  EXPECT_DOUBLE_EQ(time.start_attempts.value(), 1500.0);  // 1 / 0.25 - 1 failed ones
}

TEST(WallTime, AsynchronousCheckpointsAreReadLater) {
  Interruptions i = sample_interruptions();
  const WallTime before = wall_time(kDay, i);
  i.delay = Seconds(100.0);
  const WallTime after = wall_time(kDay, i);
  EXPECT_EQ(after.checkpoints, before.checkpoints);
  // lambda W = 0.01 of all that is no restart.
  const Seconds rest = (after.total() - i.restart) * std::exp(-0.05);
  EXPECT_NEAR((after.lost_work - before.lost_work) / rest, 1.0 - std::exp(-0.01), 1e-9);
}

TEST(WallTime, HasNoEndWhereInterruptionsOutrunRestarts) {
  Interruptions i = sample_interruptions();
  i.restart = Seconds(1e9);
  EXPECT_TRUE(std::isinf(wall_time(kDay, i).total().value()));
}

// --- published clusters ---

// Meta RSC-1: 6.5 failures per 1000 node-days; jobs of 16,384 and 131,072 devices in nodes of 8
// were projected to live 1.8 h and 0.23 h.
TEST(MeanTimeToFailure, OfLargeJobsOfRsc1IsThatOfItsNodes) {
  const FailureRates rates{.per_node = per_1000_days(6.5)};
  EXPECT_NEAR(1.0 / rates.of_job(16384, 2048).value() / 6480.0, 1.0, 0.01);
  EXPECT_NEAR(1.0 / rates.of_job(131072, 16384).value() / 828.0, 1.0, 0.03);
  // Jobs of 1,024 devices were measured at 7.9 h; most of what stopped them was no failed node.
  EXPECT_NEAR(1.0 / rates.of_job(1024, 128).value() / kHour.value(), 28.8, 0.1);
}

// Llama 3 405B, 16,384 H100 for 54 days: 419 unexpected interruptions, and more than 90 % of the
// time effective; restarts of 10 minutes and checkpoints of 5.7 TB at 2 TB/s.
TEST(WallTime, OfLlama3HasTheInterruptionsAndTheEffectiveTimeThatMetaSaw) {
  const FailureRates rates{.per_device = Hertz(1.97328e-5 / 3600.0)};
  Interruptions i{.rate = rates.of_job(16384, 2048),
                  .restart = Seconds(600.0),
                  .blocking = checkpoint_write_time(5.7 * TB, {.aggregate = 2 * TBps}, 2048)};
  i.interval = daly_interval(i.blocking, i.rate);
  EXPECT_NEAR(i.rate * (54.0 * kDay), 419.0, 0.5);
  const double goodput = kDay / wall_time(kDay, i).total();
  EXPECT_GT(goodput, 0.90);
  EXPECT_LT(goodput, 0.96);
}

// OPT-175B, 992 A100: interrupted every 7.5 h, up for 59 % of the time, restarted by hand.
TEST(WallTime, OfOptIsThatOfRestartsOfHours) {
  Interruptions i{.rate = Hertz(1.0 / 27000.0), .blocking = Seconds(60.0)};
  i.interval = daly_interval(i.blocking, i.rate);
  const auto uptime = [&](Seconds restart) {
    i.restart = restart;
    return 100.0 * kDay / wall_time(100.0 * kDay, i).total();
  };
  EXPECT_GT(uptime(600.0 * Seconds(1.0)), 0.9);
  EXPECT_GT(uptime(3.0 * kHour), 0.59);
  EXPECT_LT(uptime(4.0 * kHour), 0.59);
}

}  // namespace
}  // namespace llmsim::sim
