#include "reports/plan_backtest.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace llmsim::reports {
namespace {

using calibrate::PlanBacktest;
using sim::Seconds;

sim::Strategy mesh(int tp, int dp) {
  sim::Strategy strategy;
  strategy.tp = tp, strategy.dp = dp;
  return strategy;
}

calibrate::PlannedRun run_of_a_second(const std::string& id, const sim::Strategy& layout) {
  calibrate::PlannedRun run;
  run.id = id;
  run.layout = layout;
  run.measured_time = run.predicted_time = Seconds(1.0);
  run.fits = true;
  return run;
}

// A study of two layouts on eight devices: one in the space and one outside that beats the plan.
PlanBacktest one_study() {
  PlanBacktest backtest;
  backtest.runs = {run_of_a_second("a", mesh(1, 8)), run_of_a_second("b", mesh(2, 4))};
  backtest.runs[1].outside = {"recompute"};
  backtest.runs[1].beats_plan = true;
  backtest.runs[1].regret = 0.25;
  backtest.problems = {{.group = "study",
                        .runs = {0, 1},
                        .layout = mesh(1, 8),
                        .time = Seconds(1.25),
                        .layouts = 2,
                        .speedup = 0.8,
                        .alike = true}};
  backtest.studies = {{.group = "study",
                       .runs = 2,
                       .problems = 1,
                       .outside = 1,
                       .beats_plan = 1,
                       .compared = 1,
                       .alike = 1,
                       .speedup = 0.8}};
  backtest.overall = backtest.studies[0];
  backtest.overall.group = "all, each study once";
  backtest.outside = {
      {.field = "recompute", .runs = 1, .beats_plan = 1, .regret = 0.25, .run = "b"}};
  backtest.skipped = {{"c", "no devices"}};
  return backtest;
}

TEST(PlanBacktestTable, HasARowPerStudyAndOneForAll) {
  const Table table = plan_backtest_table(one_study());
  ASSERT_EQ(table.rows().size(), 2u);
  EXPECT_EQ(std::get<std::string>(table.rows()[0][0]), "study");
  EXPECT_EQ(std::get<std::int64_t>(table.rows()[0][3]), 0);
  EXPECT_EQ(std::get<std::string>(table.rows()[1].back()), "1/1");
}

// With the widest study, and numbers of four digits.
TEST(PlanBacktestTable, FitsIntoAHundredColumns) {
  PlanBacktest backtest = one_study();
  calibrate::PlannedStudy& study = backtest.studies[0];
  study.group = "jean-zay-gpt2-deepspeed3d";
  study.runs = study.problems = study.outside = study.beats_plan = study.ranked = 1440;
  study.compared = study.alike = 870;
  study.rank_correlation = -0.12345;
  study.loss = 0.12345;
  std::istringstream text(render(plan_backtest_table(backtest), Format::Table));
  for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(OutsideTable, HasARowPerField) {
  const Table table = outside_table(one_study());
  ASSERT_EQ(table.rows().size(), 1u);
  EXPECT_EQ(std::get<std::string>(table.rows()[0][0]), "recompute");
  EXPECT_EQ(std::get<double>(table.rows()[0][3]), 0.25);
}

TEST(MissedTable, SetsALayoutInTheSpaceBesideThePlan) {
  PlanBacktest backtest = one_study();
  EXPECT_TRUE(missed_table(backtest).rows().empty());
  backtest.runs[1].outside.clear();
  const Table table = missed_table(backtest);
  ASSERT_EQ(table.rows().size(), 2u);
  EXPECT_EQ(std::get<std::string>(table.rows()[0][0]), "b");
  EXPECT_TRUE(std::get<std::string>(table.rows()[0][1]).starts_with("tp 2, dp 4"));
  EXPECT_TRUE(std::get<std::string>(table.rows()[1][1]).starts_with("dp 8"));
}

TEST(PlanBacktestJson, HasBaseUnitsAndNullWhereThereIsNothing) {
  const nlohmann::json answer = nlohmann::json::parse(plan_backtest_json(one_study()));
  EXPECT_EQ(answer["studies"].size(), 1u);
  EXPECT_EQ(answer["overall"]["outside_faster"], 1);
  EXPECT_TRUE(answer["overall"]["rank_correlation"].is_null());
  EXPECT_EQ(answer["problems"][0]["runs"], (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(answer["problems"][0]["plan_s"], 1.25);
  EXPECT_EQ(answer["runs"][1]["outside"], std::vector<std::string>{"recompute"});
  EXPECT_EQ(answer["runs"][1]["regret"], 0.25);
  EXPECT_TRUE(answer["runs"][0]["regret"].is_null());
  EXPECT_EQ(answer["outside"][0]["run"], "b");
  EXPECT_EQ(answer["skipped"][0]["reason"], "no devices");
}

}  // namespace
}  // namespace llmsim::reports
