#include "calibrate/plan_backtest.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "hwdb/store/database.h"
#include "sim/predict.h"
#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

using hwdb::RunRecord;
using Outside = std::vector<std::string>;

const hwdb::Database& shipped() {
  static const hwdb::Database database(":memory:");
  return database;
}

sim::Seconds predicted(const RunRecord& record) {
  return sim::predict(hwdb::RunResolver(shipped()).resolve(record)).step_time;
}

PlanBacktest planned(const std::vector<RunRecord>& records, unsigned threads = 1) {
  hwdb::RunFile file{
      .file = "s.json", .group = "s", .description = {}, .runs = records, .rejected = {}};
  for (RunRecord& record : file.runs) record.group = file.group;
  hwdb::RunResolver resolver(shipped());
  return plan_backtest(std::vector{file}, Scope::All, resolver, threads);
}

RunRecord recomputing(RunRecord record, const std::string& kind) {
  record.id += "-" + kind;
  record.training.strategy["recompute.kind"] = kind;
  return record;
}

// Four layouts of one problem: micro-batches of 1 and 2 sequences, with and without recomputation.
std::vector<RunRecord> four_layouts() {
  std::vector<RunRecord> records;
  for (const int micro : {1, 2}) {
    for (const char* kind : {"none", "full"}) {
      RunRecord record = sample_record("mb" + std::to_string(micro), "h100_sxm", "fsdp2");
      record.training.strategy["micro_batch"] = micro;
      records.push_back(recomputing(record, kind));
    }
  }
  return records;
}

// Sixteen layers over two stages.
RunRecord two_stages(std::vector<int> stage_layers) {
  RunRecord record = sample_record("stages", "h100_sxm", "megatron-lm");
  record.model.fields["num_layers"] = 16;
  record.training.strategy["pp"] = 2;
  record.training.strategy["sharding"] = std::string("zero1");
  record.training.strategy["stage_layers"] = std::move(stage_layers);
  return record;
}

TEST(PlanBacktest, PlansTheProblemOfAllLayoutsOnce) {
  const PlanBacktest result = planned(four_layouts());
  ASSERT_EQ(result.problems.size(), 1u);
  EXPECT_EQ(result.problems[0].runs, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_EQ(result.problems[0].layouts, 4u);
  EXPECT_EQ(result.overall.runs, 4);
}

// Two stages of a model that fits on each device are no plan; data ranks alone are.
TEST(PlanBacktest, TellsWhetherThePlanHasTheRanksOfTheFastestLayout) {
  const auto alike = [](const RunRecord& record) {
    const PlannedProblem problem = planned({record}).problems[0];
    EXPECT_EQ(problem.alike, problem.layout->pp == 2 && problem.layout->tp == 1);
    return problem.alike;
  };
  EXPECT_EQ(alike(two_stages({8, 8})), false);
  std::vector<RunRecord> records = four_layouts();
  for (RunRecord& record : records) record.measured->step_time = predicted(record);
  EXPECT_EQ(planned(records).problems[0].alike, true);
}

TEST(PlanBacktest, OtherSwitchesAreAnotherProblem) {
  std::vector<RunRecord> records = four_layouts();
  records[1].training.strategy["compile"] = true;
  records[2].hardware.accelerator = "a100_sxm_80";
  EXPECT_EQ(planned(records).problems.size(), 3u);
}

TEST(PlanBacktest, ARightOrderLosesNothing) {
  std::vector<RunRecord> records = four_layouts();
  for (RunRecord& record : records) record.measured->step_time = 3.0 * predicted(record);
  const PlanBacktest result = planned(records);
  EXPECT_NEAR(*result.problems[0].rank_correlation, 1.0, 1e-12);
  EXPECT_EQ(*result.problems[0].loss, 0.0);
}

// Measured 1 / p: what is predicted to be the fastest is the slowest, 1 / min p against 1 / max p.
TEST(PlanBacktest, TheOppositeOrderLosesTheWholeSpread) {
  std::vector<RunRecord> records = four_layouts();
  double least = 1e9, most = 0.0;
  for (RunRecord& record : records) {
    const double time = predicted(record).value();
    least = std::min(least, time), most = std::max(most, time);
    record.measured->step_time = sim::Seconds(1.0 / time);
  }
  const PlannedProblem problem = planned(records).problems[0];
  EXPECT_NEAR(*problem.rank_correlation, -1.0, 1e-12);
  EXPECT_NEAR(*problem.loss, most / least - 1.0, 1e-12);
  EXPECT_NEAR(*problem.speedup, most / problem.time->value(), 1e-12);
}

// The second run of a layout is slow: the first one counts.
TEST(PlanBacktest, OfRepeatedRunsTheFastestCounts) {
  std::vector<RunRecord> records = four_layouts();
  for (RunRecord& record : records) record.measured->step_time = predicted(record);
  records.push_back(records.front());
  records.back().id = "again";
  records.back().measured->step_time = sim::Seconds(100.0);
  const PlannedProblem problem = planned(records).problems[0];
  EXPECT_EQ(problem.layouts, 4u);
  EXPECT_NEAR(*problem.rank_correlation, 1.0, 1e-12);
}

TEST(PlanBacktest, OfTwoLayoutsThereIsNoOrderButAChoice) {
  std::vector<RunRecord> records = four_layouts();
  records.resize(2);
  const PlanBacktest result = planned(records);
  EXPECT_FALSE(result.problems[0].loss);
  EXPECT_GE(*result.problems[0].speedup, 1.0);
  EXPECT_EQ(result.overall.ranked, 0);
  EXPECT_EQ(result.overall.compared, 1);
}

// Two replicas or more of the model: of one there is nothing to shard.
TEST(PlanBacktest, NoLayoutInTheSpaceIsFasterThanThePlan) {
  std::vector<RunRecord> records = four_layouts();
  for (const int tp : {2, 4, 8}) {
    RunRecord record = sample_record("tp" + std::to_string(tp), "a100_sxm_80", "megatron-lm");
    record.hardware.num_devices = 16;
    record.training.strategy["tp"] = tp;
    record.training.strategy["sharding"] = std::string("zero1");
    records.push_back(record);
    record.id += "-pp";
    record.training.strategy["pp"] = 8 / tp;
    records.push_back(record);
  }
  for (const PlannedRun& run : planned(records).runs) {
    EXPECT_EQ(run.outside, Outside{}) << run.id;
    EXPECT_FALSE(run.beats_plan) << run.id;
  }
}

TEST(PlanBacktest, NamesWhatNoPlanHas) {
  RunRecord gpipe = two_stages({});
  gpipe.training.strategy.erase("stage_layers");
  gpipe.training.strategy["pipeline_schedule"] = std::string("gpipe");
  RunRecord by_operator = recomputing(sample_record("op", "h100_sxm", "fsdp2"), "op");
  const PlanBacktest result = planned({gpipe, by_operator});
  EXPECT_EQ(result.runs[0].outside, Outside{"pipeline_schedule"});
  EXPECT_EQ(result.runs[1].outside, Outside{"recompute"});
  ASSERT_EQ(result.outside.size(), 2u);
  EXPECT_EQ(result.outside[0].field, "pipeline_schedule");
  EXPECT_EQ(result.outside[0].runs, 1);
  EXPECT_EQ(result.overall.outside, 2);
  EXPECT_EQ(result.overall.missed, 0);
}

// Numbers of two stages, of any chunks; and of four chunks, of two stages or four.
TEST(PlanBacktest, LayersDealtByHandStayAsTheyAre) {
  RunRecord chunks = two_stages({5, 3, 5, 3});
  chunks.id = "chunks";
  chunks.training.strategy["virtual_stages"] = 2;
  const PlanBacktest result = planned({two_stages({9, 7}), chunks});
  ASSERT_EQ(result.problems.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(result.problems[i].layout) << i;
    EXPECT_EQ(result.runs[i].outside, Outside{}) << i;
    EXPECT_FALSE(result.runs[i].beats_plan) << i;
  }
  const sim::Strategy &stages = *result.problems[0].layout, &of_chunks = *result.problems[1].layout;
  EXPECT_EQ(stages.pp, 2);
  EXPECT_EQ(of_chunks.pp * of_chunks.virtual_stages, 4);
}

TEST(PlanBacktest, AnyNumberOfThreadsGivesTheSame) {
  std::vector<RunRecord> records = four_layouts();
  for (std::size_t i = 0; i < records.size(); ++i)
    records[i].training.strategy["global_batch"] = 16 * static_cast<int>(i + 1);
  const PlanBacktest one = planned(records, 1), three = planned(records, 3);
  ASSERT_EQ(one.problems.size(), 4u);
  for (std::size_t i = 0; i < one.problems.size(); ++i) {
    EXPECT_EQ(one.problems[i].layout, three.problems[i].layout);
    EXPECT_EQ(one.problems[i].time, three.problems[i].time);
  }
  EXPECT_EQ(one.overall.speedup, three.overall.speedup);
}

// Two studies of four layouts: one measured in the order that is predicted, the other in the opposite
// one.  Each is the half of all.
TEST(PlanBacktest, EachStudyCountsOnce) {
  std::vector<hwdb::RunFile> files;
  for (const char* group : {"right", "wrong"}) {
    files.push_back(
        {.file = "", .group = group, .description = {}, .runs = four_layouts(), .rejected = {}});
    for (RunRecord& record : files.back().runs) {
      const sim::Seconds time = predicted(record);
      record.group = group, record.id += group;
      record.measured->step_time = group[0] == 'r' ? time : sim::Seconds(1.0 / time.value());
    }
  }
  files[1].runs.push_back(files[0].runs[0]);  // an id that appears twice counts once
  files[1].runs.back().group = "wrong";
  files[1].runs[3].scored.step_time = false;
  files[1].rejected.push_back({"bad", "unknown key"});
  hwdb::RunResolver resolver(shipped());
  const PlanBacktest result = plan_backtest(files, Scope::All, resolver, 1);
  ASSERT_EQ(result.studies.size(), 2u);
  const PlannedStudy &right = result.studies[0], &wrong = result.studies[1], &all = result.overall;
  EXPECT_EQ(right.group, "right");
  EXPECT_EQ(right.runs + wrong.runs, all.runs);
  EXPECT_EQ(all.runs, 8);
  EXPECT_EQ(all.problems, 2);
  EXPECT_EQ(all.ranked, 2);
  EXPECT_EQ(all.compared, 2);
  EXPECT_EQ(*right.loss, 0.0);
  EXPECT_GT(*wrong.loss, 0.0);
  EXPECT_NEAR(*all.loss, (*right.loss + *wrong.loss) / 2.0, 1e-12);
  EXPECT_NEAR(*all.rank_correlation, (*right.rank_correlation + *wrong.rank_correlation) / 2.0,
              1e-12);
  EXPECT_NEAR(*all.speedup, (*right.speedup + *wrong.speedup) / 2.0, 1e-12);
  EXPECT_EQ(all.alike, right.alike + wrong.alike);
  EXPECT_EQ(right.alike, 1);
  // Of the other study three are measured.
  EXPECT_FALSE(result.runs[8 - 1].measured_time);
  EXPECT_EQ(result.skipped.size(), 1u);
  EXPECT_EQ(result.skipped[0].second, "unknown key");
}

// A run that is too large for its devices has a time and does not fit.
TEST(PlanBacktest, WhatDoesNotFitHasATimeAllTheSame) {
  RunRecord record = sample_record("large", "h100_sxm", "fsdp2");
  record.training.strategy["micro_batch"] = 64;
  record.training.strategy["global_batch"] = 512;
  RunRecord broken = sample_record("broken", "h100_sxm", "fsdp2");
  broken.training.strategy["tp"] = 3;
  const PlanBacktest result = planned({record, sample_record("fits", "h100_sxm", "fsdp2")});
  EXPECT_FALSE(result.runs[0].fits);
  EXPECT_TRUE(result.runs[0].predicted_time);
  EXPECT_FALSE(result.runs[0].beats_plan);
  EXPECT_TRUE(result.runs[1].fits);
  EXPECT_EQ(result.problems.size(), 2u);
}

TEST(PlanBacktest, PlansWhatWasMeasuredInItsScope) {
  RunRecord unmeasured = four_layouts()[0], ranks = four_layouts()[1];
  unmeasured.measured.reset();
  ranks.training.strategy["cp"] = 2;
  EXPECT_TRUE(planned({unmeasured}).runs.empty());
  hwdb::RunFile file{
      .file = "s.json", .group = "s", .description = {}, .runs = {ranks}, .rejected = {}};
  hwdb::RunResolver resolver(shipped());
  EXPECT_TRUE(plan_backtest(std::vector{file}, Scope::Dense, resolver, 1).runs.empty());
  EXPECT_EQ(plan_backtest(std::vector{file}, Scope::Moe, resolver, 1).runs.size(), 1u);
}

TEST(PlanBacktest, SaysWhyARunHasNoPlan) {
  RunRecord broken = four_layouts().front();
  broken.hardware.num_devices.reset();
  const PlanBacktest result = planned({broken});
  EXPECT_TRUE(result.runs.empty());
  ASSERT_EQ(result.skipped.size(), 1u);
  EXPECT_NE(result.skipped[0].second.find("num_devices"), std::string::npos);
}

TEST(PlanBacktest, TellsHowManyProblemsAreDone) {
  std::vector<RunRecord> records = four_layouts();
  records[1].training.strategy["global_batch"] = 32;
  hwdb::RunFile file{
      .file = "s.json", .group = "s", .description = {}, .runs = records, .rejected = {}};
  hwdb::RunResolver resolver(shipped());
  std::vector<std::size_t> told;
  plan_backtest(std::vector{file}, Scope::All, resolver, 1,
                [&](std::size_t done, std::size_t all) { told.push_back(10 * all + done); });
  EXPECT_EQ(told, (std::vector<std::size_t>{21, 22}));
}

}  // namespace
}  // namespace llmsim::calibrate
