#include "calibrate/measured_runs.h"

#include <gtest/gtest.h>

#include "hwdb/frameworks/frameworks.h"
#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

std::vector<std::string> ids(const MeasuredRuns& runs) {
  std::vector<std::string> result;
  for (const MeasuredRun& run : runs.runs) result.push_back(run.id);
  return result;
}

TEST(MeasuredRuns, ResolveWithoutWhatAnEarlierFitFound) {
  const hwdb::Frameworks frameworks = hwdb::Frameworks::shipped();
  const MeasuredRuns runs = measured_runs(std::vector{sample_group("a", "h100_sxm", "fsdp2", 1)});
  ASSERT_EQ(runs.runs.size(), 1u);
  const sim::Run& run = runs.runs[0].run;
  EXPECT_EQ(run.cluster.device.achieved.training_rate, 1.0);
  EXPECT_EQ(run.framework.efficiency, frameworks.number("fsdp2", "efficiency").value_or(1.0));
  EXPECT_EQ(run.framework.collective_efficiency,
            frameworks.number("fsdp2", "collective_efficiency").value_or(1.0));
  EXPECT_EQ(run.framework.host.per_kernel.value(), frameworks.number("fsdp2", "host.per_kernel"));
  sim::PredictionErrors errors;  // but those of memory, which step times say nothing of
  errors.memory = run.framework.errors.memory;
  errors.needed_memory = run.framework.errors.needed_memory;
  EXPECT_EQ(run.framework.errors, errors);
}

TEST(MeasuredRuns, KeepTheirGroupAndTheirTime) {
  std::vector files{sample_group("a", "h100_sxm", "ddp", 1),
                    sample_group("b", "a100_sxm_80", "fsdp2", 1)};
  files[1].runs[0].measured->step_time = sim::Seconds(2.5);
  const MeasuredRuns runs = measured_runs(files);
  EXPECT_EQ(runs.groups, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(ids(runs), (std::vector<std::string>{"a1", "b1"}));
  EXPECT_EQ(runs.runs[1].group, 1u);
  EXPECT_EQ(runs.runs[1].measured, 2.5);
  EXPECT_EQ(runs.runs[1].run.cluster.device.id, "a100_sxm_80");
}

TEST(MeasuredRuns, OnlyScoredTimesThatCanBePredictedCount) {
  hwdb::RunFile file = sample_group("a", "h100_sxm", "ddp", 4);
  file.runs[0].scored.step_time = false;
  file.runs[1].measured->step_time.reset();
  file.runs[2].training.strategy["tp"] = 3;  // does not divide the heads
  EXPECT_EQ(ids(measured_runs(std::vector{file})), std::vector<std::string>{"a4"});
}

TEST(MeasuredRuns, ExpertsAndContextRanksAreMarked) {
  hwdb::RunFile file = sample_group("a", "h100_sxm", "fsdp2", 2);
  file.runs[1].training.strategy["cp"] = 2;
  const MeasuredRuns runs = measured_runs(std::vector{file});
  ASSERT_EQ(runs.runs.size(), 2u);
  EXPECT_FALSE(runs.runs[0].moe);
  EXPECT_TRUE(runs.runs[1].moe);
}

TEST(MeasuredRuns, OfALargeGroupEvenlySpreadRunsAreTaken) {
  const std::vector files{sample_group("a", "h100_sxm", "ddp", 6)};
  EXPECT_EQ(ids(measured_runs(files, 3)), (std::vector<std::string>{"a1", "a3", "a5"}));
}

TEST(MeasuredRuns, FilesOfOneGroupAreOneStudy) {
  hwdb::RunFile second = sample_group("a", "h100_sxm", "ddp", 2);
  for (hwdb::RunRecord& record : second.runs) record.id += "+";
  const MeasuredRuns runs = measured_runs(std::vector{
      sample_group("a", "h100_sxm", "ddp", 3), sample_group("b", "h100_sxm", "ddp", 1), second});
  EXPECT_EQ(runs.groups, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(runs.runs.size(), 6u);
  EXPECT_EQ(runs.runs[4].group, 0u);
  EXPECT_EQ(runs.runs[5].group, 1u);
}

TEST(MeasuredRuns, AGroupWithoutUsableRunsIsNoGroup) {
  hwdb::RunFile empty = sample_group("a", "h100_sxm", "ddp", 1);
  empty.runs[0].scored.step_time = false;
  const MeasuredRuns runs =
      measured_runs(std::vector{empty, sample_group("b", "h100_sxm", "ddp", 1)});
  EXPECT_EQ(runs.groups, std::vector<std::string>{"b"});
  EXPECT_EQ(runs.runs[0].group, 0u);
}

}  // namespace
}  // namespace llmsim::calibrate
