#include "calibrate/measured_runs.h"

#include <gtest/gtest.h>

#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

using Indices = std::vector<std::size_t>;

std::vector<RunCoefficient> three_coefficients() {
  return {{"device", "h100_sxm", "training_rate", 1.0, 0.1},
          {"framework", "pytorch", "efficiency", 0.8, 0.1},
          {"framework", "fsdp1", "efficiency", 0.9, 0.1}};
}

TEST(MeasuredRuns, ACoefficientHoldsForItsOwnAndThoseThatAreLikeIt) {
  const std::vector files{sample_group("a", "h100_sxm", "ddp", 1),
                          sample_group("b", "a100_sxm_80", "fsdp2", 1)};
  const MeasuredRuns runs = measured_runs(files, three_coefficients());
  ASSERT_EQ(runs.runs.size(), 2u);
  EXPECT_EQ(runs.runs[0].coefficients, (Indices{0, 1}));  // ddp is like pytorch
  // Fsdp2 is like fsdp1, which is nearer than pytorch.
  EXPECT_EQ(runs.runs[1].coefficients, (Indices{2}));
  EXPECT_EQ(runs.runs[0].run.framework.efficiency, 0.8);
  EXPECT_EQ(runs.runs[1].run.framework.efficiency, 0.9);
}

TEST(MeasuredRuns, OnlyScoredDenseTimesThatCanBePredictedCount) {
  hwdb::RunFile file = sample_group("a", "h100_sxm", "ddp", 5);
  file.runs[0].scored.step_time = false;
  file.runs[1].measured->step_time.reset();
  file.runs[2].training.strategy["ep"] = 2;
  file.runs[3].training.strategy["tp"] = 3;  // does not divide the heads
  const MeasuredRuns runs = measured_runs(std::vector{file}, {});
  ASSERT_EQ(runs.runs.size(), 1u);
  EXPECT_EQ(runs.runs[0].id, "a5");
}

TEST(MeasuredRuns, ALargeGroupIsFittedToEvenlySpreadRuns) {
  const MeasuredRuns runs =
      measured_runs(std::vector{sample_group("a", "h100_sxm", "ddp", 6)}, {}, 3);
  std::vector<std::string> fitted;
  for (const MeasuredRun& run : runs.runs) {
    if (run.fitted_to) fitted.push_back(run.id);
  }
  EXPECT_EQ(fitted, (std::vector<std::string>{"a1", "a3", "a5"}));
}

TEST(MeasuredRuns, AGroupWithoutUsableRunsIsNoGroup) {
  hwdb::RunFile empty = sample_group("a", "h100_sxm", "ddp", 1);
  empty.runs[0].scored.step_time = false;
  const MeasuredRuns runs =
      measured_runs(std::vector{empty, sample_group("b", "h100_sxm", "ddp", 1)}, {});
  EXPECT_EQ(runs.groups, std::vector<std::string>{"b"});
  EXPECT_EQ(runs.runs[0].group, 0u);
}

bool has(const std::vector<RunCoefficient>& all, const std::string& id, const std::string& key) {
  return std::any_of(all.begin(), all.end(),
                     [&](const RunCoefficient& c) { return c.id == id && c.key == key; });
}

TEST(RunCoefficients, NeedTwoGroupsAndElseFallToTheFrameworkThatOneIsLike) {
  const std::vector files{sample_group("a", "h100_sxm", "ddp", 1),
                          sample_group("b", "h100_sxm", "llm-foundry", 1),
                          sample_group("c", "a100_sxm_80", "fsdp1", 1)};
  const std::vector<RunCoefficient> all = run_coefficients(files);
  EXPECT_TRUE(has(all, "h100_sxm", "training_rate"));
  EXPECT_FALSE(has(all, "a100_sxm_80", "training_rate"));
  EXPECT_TRUE(has(all, "fsdp1", "efficiency"));  // of groups b and c: llm-foundry is like it
  EXPECT_FALSE(has(all, "llm-foundry", "efficiency"));
  EXPECT_FALSE(has(all, "pytorch", "efficiency"));  // only group a is left to it
}

}  // namespace
}  // namespace llmsim::calibrate
