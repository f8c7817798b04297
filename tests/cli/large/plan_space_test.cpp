#include <algorithm>
#include <set>
#include <string>

#include "cli/run_request.h"
#include "reports/data_rows.h"
#include "sim/predict.h"
#include "tests/cli/answer.h"
#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

using PlanSpace = Program;

constexpr const char* kQuestion = "plan --model gpt2-xl --gpus 8 --global-batch 64 ";
constexpr double kSumRounding = 1e-12;

// The run that a row says, of the options that are typed for its fields.
sim::Run run_of_row(const reports::DataRows& rows, std::size_t row) {
  RunOptions options;
  options.model = "gpt2-xl", options.gpus = "8", options.global_batch = "64";
  const std::set<std::string> others{"recompute", "feasible", "step_time_s", "peak_bytes",
                                     "needed_bytes"};
  for (const std::string& key : rows.keys) {
    const std::string& value = rows.text(row, key);
    if (!others.contains(key) && !value.empty()) options.strategy[key] = value;
  }
  options.recompute = rows.text(row, "recompute");
  return run_of(options, database());
}

TEST_F(PlanSpace, EachRowIsWhatPredictSaysOfIt) {
  const Outcome outcome = run(std::string(kQuestion) + "--space space.csv");
  ASSERT_EQ(outcome.status, 0) << outcome.messages;
  const reports::DataRows rows = reports::data_rows(text_of("space.csv"));
  ASSERT_GT(rows.rows.size(), 10'000u);
  std::size_t fitting = 0;
  double best = 1e300;
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    const bool fits = rows.text(row, "feasible") == "yes";
    fitting += fits;
    EXPECT_EQ(rows.number(row, "step_time_s").has_value(), fits);
    if (fits) best = std::min(best, *rows.number(row, "step_time_s"));
    if (row % 997 != 0) continue;
    SCOPED_TRACE(row);
    const sim::Prediction predicted = sim::predict(run_of_row(rows, row));
    EXPECT_EQ(predicted.feasible(), fits);
    EXPECT_NEAR(*rows.number(row, "peak_bytes"), predicted.memory.peak.value(), 1.0);
    EXPECT_NEAR(*rows.number(row, "needed_bytes"), predicted.memory.needed().value(), 1.0);
    if (fits) {
      EXPECT_NEAR(*rows.number(row, "step_time_s") / predicted.step_time.value(), 1.0,
                  kSumRounding);
    }
  }
  EXPECT_NE(outcome.messages.find("space.csv: " + std::to_string(rows.rows.size()) +
                                  " strategies, of which " + std::to_string(fitting) + " fit"),
            std::string::npos)
      << outcome.messages;
  // The first plan may leave memory free that the fastest does not.
  const Outcome tight =
      run(std::string(kQuestion) + "--headroom 0 --prefer fast --top 1 --format csv");
  const reports::DataRows plan = reports::data_rows(tight.out);
  EXPECT_LE(best, (1.0 + kSumRounding) * *plan.number(0, "step_time_s"));
  EXPECT_GT(1.02 * best, *plan.number(0, "step_time_s"));
}

TEST_F(PlanSpace, WhatCannotBeWrittenIsOneLine) {
  const Outcome nowhere = run(std::string(kQuestion) + "--space nowhere/space.csv");
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_EQ(nowhere.messages.find("llmsim: nowhere/space.csv: cannot be written"), 0u)
      << nowhere.messages;
  const Outcome several = run("plan --model gpt2 --gpus 1,2 --space space.csv");
  EXPECT_EQ(several.status, 1);
  EXPECT_NE(several.messages.find("--space: one question"), std::string::npos) << several.messages;
}

}  // namespace
}  // namespace llmsim::cli
