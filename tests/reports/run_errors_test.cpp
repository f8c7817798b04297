#include "reports/run_errors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace llmsim::reports {
namespace {

calibrate::BacktestRow timed(const std::string& id, double measured, double predicted) {
  calibrate::BacktestRow row;
  row.id = id;
  row.group = "g";
  row.scored.step_time = true;
  row.measured_time = sim::Seconds(measured);
  row.predicted_time = sim::Seconds(predicted);
  row.interval = {sim::Seconds(0.8 * predicted), sim::Seconds(1.25 * predicted)};
  return row;
}

std::string text_in(const Table& table, std::size_t row, std::size_t column) {
  return std::get<std::string>(table.rows()[row][column]);
}

// Errors of ln 1.1, ln 2 and ln 1.5 beside a wrong verdict, which counts as 1: more than ln 2.
TEST(RunErrors, TheWorstRunIsTheFirst) {
  calibrate::BacktestRow verdict;
  verdict.id = "verdict";
  verdict.scored.outcome = true;
  verdict.measured_outcome = "ok";
  verdict.predicted_outcome = "oom";
  calibrate::Backtest backtest;
  backtest.rows = {timed("good", 1.0, 1.1), timed("bad", 2.0, 1.0), verdict,
                   timed("middling", 1.0, 1.5)};
  const Table table = run_errors_table(backtest);
  ASSERT_EQ(table.rows().size(), 4u);
  EXPECT_EQ(text_in(table, 0, 0), "verdict");
  EXPECT_EQ(text_in(table, 1, 0), "bad");
  EXPECT_EQ(text_in(table, 2, 0), "middling");
  EXPECT_EQ(text_in(table, 3, 0), "good");
  EXPECT_DOUBLE_EQ(std::get<double>(table.rows()[1][4]), std::log(0.5));
  EXPECT_EQ(text_in(table, 1, 5), "no");   // 2 is outside of 0.8 to 1.25
  EXPECT_EQ(text_in(table, 3, 5), "yes");  // 1 is inside of 0.88 to 1.375
}

TEST(RunErrors, WhatIsNotScoredIsLeftOut) {
  calibrate::BacktestRow unscored = timed("unscored", 1.0, 2.0);
  unscored.scored.step_time = false;
  calibrate::BacktestRow peak = timed("peak", 1.0, 9.0);
  peak.scored = {.step_time = false, .memory = true, .outcome = false};
  peak.measured_peak = 2 * sim::GiB;
  calibrate::Backtest backtest;
  backtest.rows = {unscored, timed("timed", 1.0, 2.0), peak};
  const Table table = run_errors_table(backtest);
  ASSERT_EQ(table.rows().size(), 2u);
  EXPECT_EQ(text_in(table, 0, 0), "peak");  // a scored peak without a prediction
  EXPECT_EQ(table.rows()[0][2], Cell());
  EXPECT_EQ(table.rows()[0][6], Cell(2 * sim::GiB));
}

}  // namespace
}  // namespace llmsim::reports
