#include "calibrate/reliability.h"

#include <gtest/gtest.h>

namespace llmsim::calibrate {
namespace {

// "a" reports both outcomes, "b" what ran alone.
Reliability sample_reliability() {
  return reliability({{.group = "a", .said = 0.8, .ran = true},
                      {.group = "a", .said = 0.85, .ran = false},
                      {.group = "a", .said = 0.05, .ran = false},
                      {.group = "b", .said = 0.75, .ran = true},
                      {.group = "b", .said = 1.0, .ran = true}});
}

const ReliabilityBin& bin_from(const Reliability& of, double from) {
  for (const ReliabilityBin& bin : of.bins)
    if (bin.from == from) return bin;
  return of.bins.back();
}

TEST(Reliability, BinsHoldWhatWasSaidAgainstWhatRan) {
  const Reliability all = sample_reliability();
  const ReliabilityBin& likely = bin_from(all, 0.7);
  EXPECT_EQ(likely.to, 0.9);
  EXPECT_EQ(likely.all.runs, 3);
  EXPECT_EQ(likely.all.ran, 2);
  EXPECT_NEAR(*likely.all.said, 0.8, 1e-12);
  EXPECT_NEAR(*likely.all.share, 2.0 / 3.0, 1e-12);
  EXPECT_EQ(likely.both.runs, 2);
  EXPECT_NEAR(*likely.both.said, 0.825, 1e-12);
  EXPECT_NEAR(*likely.both.share, 0.5, 1e-12);
  EXPECT_EQ(bin_from(all, 0.97).all.runs, 1);  // 1 belongs to the last
  EXPECT_FALSE(bin_from(all, 0.3).all.said);
}

TEST(Reliability, TheLastBinIsOfAll) {
  const ReliabilityBin all = sample_reliability().bins.back();
  EXPECT_EQ(std::pair(all.from, all.to), std::pair(0.0, 1.0));
  EXPECT_EQ(all.all.runs, 5);
  EXPECT_EQ(all.both.runs, 3);
  EXPECT_NEAR(*all.all.said, (0.8 + 0.85 + 0.05 + 0.75 + 1.0) / 5.0, 1e-12);
}

// 0.2^2 + 0.85^2 + 0.05^2 of "a", 0.25^2 and 0 of "b".
TEST(Reliability, HasBrierScores) {
  const Reliability all = sample_reliability();
  EXPECT_NEAR(*all.brier_both, (0.04 + 0.7225 + 0.0025) / 3.0, 1e-12);
  EXPECT_NEAR(*all.brier, (0.04 + 0.7225 + 0.0025 + 0.0625) / 5.0, 1e-12);
  EXPECT_FALSE(reliability({}).brier);
}

TEST(Reliability, VerdictsAreScoredOutcomesWithAProbability) {
  Backtest backtest;
  const auto add = [&](const char* outcome, std::optional<double> said, bool scored) {
    BacktestRow row;
    row.group = "g", row.measured_outcome = outcome, row.fit_probability = said;
    row.scored.outcome = scored;
    backtest.rows.push_back(row);
  };
  add("ok", 0.9, true), add("oom", 0.2, true);
  add("ok", 0.9, false), add("crash", 0.9, true), add("ok", std::nullopt, true);
  const std::vector<Verdict> all = verdicts(backtest);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all[0].ran);
  EXPECT_EQ(all[1].said, 0.2);
}

}  // namespace
}  // namespace llmsim::calibrate
