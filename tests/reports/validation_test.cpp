#include "reports/validation.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace llmsim::reports {
namespace {

using nlohmann::json;

calibrate::Backtest one_of_each() {
  calibrate::BacktestRow predicted;
  predicted.id = "a";
  predicted.group = "g";
  predicted.scored.step_time = true;
  predicted.measured_time = sim::Seconds(2.0);
  predicted.predicted_time = sim::Seconds(1.5);
  predicted.interval = {sim::Seconds(1.0), sim::Seconds(3.0)};
  predicted.predicted_outcome = "ok";
  calibrate::BacktestRow skipped;
  skipped.id = "b";
  skipped.skipped = "no such device";
  calibrate::GroupErrors group;
  group.group = "g";
  group.scored = 3;
  group.median_abs_error = 0.125;
  calibrate::Backtest backtest;
  backtest.rows = {predicted, skipped};
  backtest.groups = {group};
  backtest.overall.groups = 1;
  backtest.overall.macro_median_abs_error = 0.125;
  return backtest;
}

TEST(ValidationJson, HoldsEveryRunWithItsFiguresInBaseUnits) {
  const json document = json::parse(validation_json(one_of_each()));
  const json& row = document.at("runs").at(0);
  EXPECT_EQ(row.at("measured_s"), 2.0);
  EXPECT_EQ(row.at("predicted_s"), 1.5);
  EXPECT_EQ(row.at("interval_s"), json({1.0, 3.0}));
  EXPECT_TRUE(row.at("measured_peak_bytes").is_null());
  EXPECT_EQ(row.at("predicted_outcome"), "ok");
  EXPECT_TRUE(row.at("skipped").is_null());
  EXPECT_EQ(document.at("runs").at(1).at("skipped"), "no such device");
  EXPECT_TRUE(document.at("runs").at(1).at("interval_s").is_null());
}

TEST(ValidationJson, HoldsTheErrorsByGroupAndOverall) {
  const json document = json::parse(validation_json(one_of_each()));
  EXPECT_EQ(document.at("groups").at(0).at("group"), "g");
  EXPECT_EQ(document.at("groups").at(0).at("n"), 3);
  EXPECT_EQ(document.at("groups").at(0).at("median_abs_error"), 0.125);
  EXPECT_TRUE(document.at("groups").at(0).at("bias").is_null());
  EXPECT_EQ(document.at("overall").at("macro_median_abs_error"), 0.125);
  EXPECT_TRUE(document.at("overall").at("outcome_accuracy").is_null());
}

// Said to fit with 80 %, and it did: 0.2^2.
TEST(ValidationJson, HoldsTheReliabilityOfVerdicts) {
  calibrate::Backtest backtest = one_of_each();
  calibrate::BacktestRow& row = backtest.rows[0];
  row.scored.outcome = true, row.measured_outcome = "ok", row.fit_probability = 0.8;
  const json reliability = json::parse(validation_json(backtest)).at("reliability");
  EXPECT_NEAR(reliability.at("brier_score").get<double>(), 0.04, 1e-12);
  EXPECT_TRUE(reliability.at("brier_score_both_outcomes").is_null());
  const json& all = reliability.at("bins").back();
  EXPECT_EQ(all.at("from"), 0.0);
  EXPECT_EQ(all.at("all").at("runs"), 1);
  EXPECT_EQ(all.at("all").at("said"), 0.8);
  EXPECT_EQ(all.at("all").at("share"), 1.0);
  EXPECT_EQ(all.at("both_outcomes").at("runs"), 0);
}

TEST(ReliabilityTable, HasARowForEachBinAndOneForAll) {
  const calibrate::Reliability of =
      calibrate::reliability({{.group = "g", .said = 0.8, .ran = true}});
  const Table table = reliability_table(of);
  ASSERT_EQ(table.rows().size(), of.bins.size());
  EXPECT_EQ(std::get<std::int64_t>(table.rows().back()[2]), 1);
  EXPECT_EQ(std::get<double>(table.rows().back()[4]), 1.0);
}

TEST(ValidationTable, HasOneRowPerGroupAndOneForAll) {
  const Table table = validation_table(one_of_each());
  ASSERT_EQ(table.rows().size(), 2u);
  EXPECT_EQ(std::get<std::string>(table.rows()[0][0]), "g");
  EXPECT_EQ(std::get<double>(table.rows()[1][3]), 0.125);
}

TEST(SkippedTable, ListsTheRunsWithoutPredictionAndWhetherTheyAreScored) {
  const Table table = skipped_table(one_of_each());
  ASSERT_EQ(table.rows().size(), 1u);
  EXPECT_EQ(std::get<std::string>(table.rows()[0][0]), "b");
  EXPECT_EQ(std::get<std::string>(table.rows()[0][1]), "no");
}

}  // namespace
}  // namespace llmsim::reports
