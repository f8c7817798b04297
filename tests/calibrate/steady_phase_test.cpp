#include "calibrate/steady_phase.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace llmsim::calibrate {
namespace {

using Times = std::vector<double>;

// Standard normal deviates from a generator whose stream is the same everywhere.
class Normal {
 public:
  double operator()() {
    return std::sqrt(-2.0 * std::log(uniform())) * std::cos(2.0 * M_PI * uniform());
  }

 private:
  double uniform() { return (static_cast<double>(bits_()) + 0.5) / 4294967296.0; }

  std::mt19937 bits_{7};
};

// `count` times around `level`, with a relative spread.
Times noisy(std::size_t count, double level, double spread, Normal& normal) {
  Times times;
  for (std::size_t i = 0; i < count; ++i) times.push_back(level * (1.0 + spread * normal()));
  return times;
}

TEST(SteadyPhase, OfOneTimeIsThatTime) {
  const SteadyPhase phase = steady_phase(Times{2.5});
  EXPECT_DOUBLE_EQ(phase.median, 2.5);
  EXPECT_DOUBLE_EQ(phase.spread, 0.0);
  EXPECT_EQ(phase.warm_up, 0U);
}

// Of 9 5 | 1.00 1.02 0.98 1.04 1.00 the first two are warm-up; sorted, the rest is 0.98 1.00 1.00
// 1.02 1.04 with the quartiles 1.00 and 1.02.
TEST(SteadyPhase, SkipsTheFirstTwoOfFiveOrMore) {
  const SteadyPhase phase = steady_phase(Times{9, 5, 1.00, 1.02, 0.98, 1.04, 1.00});
  EXPECT_EQ(phase.warm_up, 2U);
  EXPECT_EQ(phase.slow, 0U);
  EXPECT_DOUBLE_EQ(phase.median, 1.00);
  EXPECT_NEAR(phase.spread, 0.02 / 1.349, 1e-12);
}

TEST(SteadyPhase, SkipsAtMostTheFirstOfFewSteps) {
  EXPECT_EQ(steady_phase(Times{3.0, 1.0, 1.01}).warm_up, 1U);
  EXPECT_EQ(steady_phase(Times{1.05, 1.0, 1.01}).warm_up, 0U);
  EXPECT_DOUBLE_EQ(steady_phase(Times{3.0, 1.0, 1.01}).median, 1.005);
}

TEST(SteadyPhase, WarmUpLastsUntilTheTimeSettles) {
  Normal normal;
  Times times{40, 30, 20, 15, 12};
  const Times rest = noisy(60, 10.0, 0.004, normal);
  times.insert(times.end(), rest.begin(), rest.end());
  const SteadyPhase phase = steady_phase(times);
  EXPECT_EQ(phase.warm_up, 5U);
  EXPECT_EQ(phase.slow, 0U);
  EXPECT_NEAR(phase.median, 10.0, 0.02);
}

TEST(SteadyPhase, WarmsUpAgainWhereTheRunIsStartedAgain) {
  const Times times{9, 4, 1, 1, 1, 1, 1, 1, 8, 3, 1, 1, 1, 1, 1, 1};
  const std::vector<std::size_t> starts{8};
  const SteadyPhase phase = steady_phase(times, starts);
  EXPECT_EQ(phase.warm_up, 4U);
  EXPECT_EQ(phase.slow, 0U);
  EXPECT_EQ(phase.steps.size(), 12U);
}

// Of 10 s in every step, 11 s are a tenth more and 11.5 s are slow.
TEST(SteadyPhase, AStepThatIsATenthLongerIsNotSlow) {
  Times times(20, 10.0);
  times[12] = 11.0;
  SteadyPhase phase = steady_phase(times);
  EXPECT_EQ(phase.slow, 0U);
  EXPECT_EQ(phase.slow_share, 0.0);
  EXPECT_EQ(phase.slowest, SteadyPhase{}.slowest);
  times[12] = 11.5;
  phase = steady_phase(times);
  EXPECT_EQ(phase.slow, 1U);
  EXPECT_DOUBLE_EQ(phase.slowest, 1.15);
  EXPECT_NEAR(phase.slow_share, 1.5 / (17 * 10.0 + 11.5), 1e-12);
}

// Sorted, 1.00 1.01 1.02 1.03 1.04 1.05: quartiles at 1.0125 and 1.0375.
TEST(SteadyPhase, QuartilesLieBetweenValues) {
  const SteadyPhase phase = steady_phase(Times{9.0, 5.0, 1.03, 1.01, 1.05, 1.00, 1.04, 1.02});
  EXPECT_DOUBLE_EQ(phase.median, 1.025);
  EXPECT_NEAR(phase.spread, 0.025 / 1.349 / 1.025, 1e-12);
}

// Levels 2 % apart are one; a fifth of the steps, and four of them, are a level.
TEST(SteadyPhase, LevelsAreThreePerCentApartAndAFifthOfTheSteps) {
  const auto levels = [](std::size_t all, std::size_t high, double ratio) {
    Times times(all + 2, 10.0);
    for (std::size_t i = 0; i < high; ++i) times[4 + i] = 10.0 * ratio;
    return steady_phase(times).levels;
  };
  EXPECT_TRUE(levels(50, 10, 1.06));
  EXPECT_FALSE(levels(50, 4, 1.06));
  EXPECT_TRUE(levels(50, 40, 1.06));
  EXPECT_FALSE(levels(50, 10, 1.02));
  EXPECT_TRUE(levels(8, 4, 1.06));
  EXPECT_FALSE(levels(8, 1, 1.06));
  EXPECT_FALSE(levels(7, 3, 1.06));
  const auto found = *levels(50, 20, 1.06);
  EXPECT_DOUBLE_EQ(found.low, 10.0);
  EXPECT_NEAR(found.high, 10.6, 1e-12);
  EXPECT_DOUBLE_EQ(found.share_high, 0.4);
  EXPECT_EQ(found.switches, 2U);
}

// Warm-up is over at a quarter of the steps, whatever they take, and none where a run has one step.
TEST(SteadyPhase, WarmUpIsAQuarterAtMost) {
  Times times(20, 10.0);
  for (std::size_t i = 0; i < 9; ++i) times[i] = 20.0;
  EXPECT_EQ(steady_phase(times).warm_up, 5U);
  // Within 2 % of the level it is over.
  Times settling(20, 10.0);
  settling[2] = 10.3, settling[3] = 10.1;
  EXPECT_EQ(steady_phase(settling).warm_up, 3U);
  EXPECT_EQ(steady_phase(Times{3.0, 1.0, 1.0, 1.0}).warm_up, 1U);
  EXPECT_EQ(steady_phase(Times{3.0, 1.0, 1.0, 1.0, 1.0}).warm_up, 2U);
  EXPECT_EQ(steady_phase(Times{1.08, 1.0, 1.0}).warm_up, 0U);
  EXPECT_EQ(steady_phase(Times{1.12, 1.0, 1.0}).warm_up, 1U);
}

// Two steps of 25 s among 48 of 10 s lost 2 * 15 s of 48 * 10 + 2 * 25 s.
TEST(SteadyPhase, SlowStepsAreCountedAndDoNotMoveTheMedian) {
  Times times(52, 10.0);
  times[20] = times[40] = 25.0;
  const SteadyPhase phase = steady_phase(times);
  EXPECT_EQ(phase.warm_up, 2U);
  EXPECT_EQ(phase.slow, 2U);
  EXPECT_DOUBLE_EQ(phase.median, 10.0);
  EXPECT_DOUBLE_EQ(phase.spread, 0.0);
  EXPECT_DOUBLE_EQ(phase.slowest, 2.5);
  EXPECT_NEAR(phase.slow_share, 30.0 / 530.0, 1e-12);
  EXPECT_FALSE(phase.levels);
}

TEST(SteadyPhase, TwoLevelsAreFound) {
  Normal normal;
  Times times = noisy(22, 10.0, 0.008, normal);
  for (int round = 0; round < 3; ++round) {
    const Times slow = noisy(10, 11.0, 0.008, normal), fast = noisy(20, 10.0, 0.008, normal);
    times.insert(times.end(), slow.begin(), slow.end());
    times.insert(times.end(), fast.begin(), fast.end());
  }
  times[50] = 40.0;
  const SteadyPhase phase = steady_phase(times);
  ASSERT_TRUE(phase.levels);
  EXPECT_NEAR(phase.levels->low, 10.0, 0.05);
  EXPECT_NEAR(phase.levels->high, 11.0, 0.05);
  EXPECT_NEAR(phase.levels->share_high, 30.0 / 110.0, 0.011);
  EXPECT_EQ(phase.levels->switches, 8U);  // six between the levels, two around the slow step
  EXPECT_EQ(phase.slow, 1U);
  // However slow a step is, it is no level and moves none.
  times[50] = 1e5;
  ASSERT_TRUE(steady_phase(times).levels);
  EXPECT_NEAR(steady_phase(times).levels->share_high, 30.0 / 110.0, 0.011);
}

// Normal, uniform and drifting times have one level, whatever their number and spread.
TEST(SteadyPhase, OneLevelIsNotTakenForTwo) {
  Normal normal;
  int found = 0;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const std::size_t count = 12 + static_cast<std::size_t>(repeat) % 90;
    const Times times = noisy(count, 1.0, 0.002 * (1 + repeat % 30), normal);
    found += steady_phase(times).levels ? 1 : 0;
  }
  EXPECT_LE(found, 10);  // of 2000
  Times drifting;
  for (int i = 0; i < 100; ++i) drifting.push_back(1.0 + 0.003 * i);
  EXPECT_FALSE(steady_phase(drifting).levels);
}

}  // namespace
}  // namespace llmsim::calibrate
