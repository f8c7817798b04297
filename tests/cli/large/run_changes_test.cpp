#include "cli/run_changes.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/run_request.h"
#include "reports/prediction.h"
#include "sim/hardware/cluster.h"
#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

const hwdb::Database& facts() {
  static const hwdb::Database shipped(":memory:");
  return shipped;
}

RunOptions options_of(const std::string& arguments) {
  CLI::App app;
  RunOptions options;
  add_run_options(app, options);
  app.parse(arguments, /*program_name_included=*/false);
  return options;
}

// What is said of a change is what `predict` says with its options after those of the run.
TEST(RunChanges, ArePredictionsWithTheirOptions) {
  const std::string run = "--model llama3-8b --gpus 16 --tp 2 --micro-batch 2 --sharding zero1 ";
  const RunOptions asked = options_of(run);
  const sim::Prediction before = sim::predict(run_of(asked, facts()));
  int switches = 0, meshes = 0;
  for (const reports::RunChange& change : strategy_changes(asked, before, facts())) {
    if (change.change.starts_with("--offload")) continue;
    RunOptions after = asked;
    const RunOptions changed = options_of(change.change);
    for (const auto& [key, value] : changed.strategy) after.strategy[key] = value;
    if (changed.recompute) after.recompute = changed.recompute;
    const sim::Prediction predicted = sim::predict(run_of(after, facts()));
    EXPECT_EQ(predicted.step_time, change.step_time) << change.change;
    EXPECT_EQ(predicted.feasible(), change.fits) << change.change;
    switches += change.change.starts_with("--no-") ? 1 : 0;
    meshes += change.change.starts_with("--tp") ? 1 : 0;
  }
  EXPECT_GT(switches, 0);
  EXPECT_GT(meshes, 0);
}

// Nothing gets slower where hardware gets better.
TEST(HardwareChanges, NeverCostTime) {
  for (const char* run : {"--model gpt2 --gpus 8", "--model llama-70b --gpus 64 --tp 8 --pp 4",
                          "--model mixtral-8x7b --gpus 32 --ep 8 --hardware mi300x"}) {
    const sim::Prediction before = sim::predict(run_of(options_of(run), facts()));
    bool some = false;
    for (const reports::RunChange& change : hardware_changes(before)) {
      EXPECT_LE(change.relative_time, 1.0 + 1e-9) << run << ": " << change.change;
      some = some || change.relative_time < 0.999;
    }
    EXPECT_TRUE(some) << run;
  }
}

// Twice the memory holds twice as much, and nothing else changes.
TEST(HardwareChanges, OfMemoryLeaveTheStepAsItIs) {
  sim::Run run = run_of(options_of("--model gpt2 --gpus 8"), facts());
  const sim::Prediction before = sim::predict(run);
  for (const sim::HardwareChange& change : sim::hardware_changes()) {
    if (std::string(change.name) == "memory") change.improve(run.cluster, 2.0);
  }
  const sim::Prediction after = sim::predict(run);
  EXPECT_EQ(after.memory.capacity, 2.0 * before.memory.capacity);
  EXPECT_EQ(after.step_time, before.step_time);
}

class NearestFit : public Program {};

// The line on standard error names options with which the run fits.
TEST_F(NearestFit, IsNamedWhereMemoryIsNotEnough) {
  const std::string question = "predict --model llama3-8b --gpus 8 --micro-batch 8 ";
  const Outcome full = run(question);
  ASSERT_EQ(full.status, 3);
  const std::size_t begin = full.messages.find("; --"),
                    end = full.messages.find(" fits, with a step of ");
  ASSERT_NE(end, std::string::npos) << full.messages;
  const std::string change = full.messages.substr(begin + 2, end - begin - 2);
  EXPECT_EQ(run(question + change).status, 0) << change;
}

TEST_F(NearestFit, IsNamedForARunFileToo) {
  const RunOptions asked = options_of("--model llama3-8b --gpus 8 --micro-batch 8");
  write("run.json", reports::run_text(sim::predict(run_of(asked, facts()))));
  const Outcome full = run("predict run.json");
  EXPECT_EQ(full.status, 3);
  EXPECT_NE(full.messages.find(" fits, with a step of "), std::string::npos) << full.messages;
}

TEST_F(NearestFit, IsNotAskedForWhereARuleIsBroken) {
  const Outcome broken = run("predict --model gpt2 --gpus 8 --tp 5");
  EXPECT_EQ(broken.status, 3);
  EXPECT_EQ(broken.messages.find(" fits"), std::string::npos) << broken.messages;
}

class Sensitivity : public Program {};

TEST_F(Sensitivity, IsPartOfThePlanWhereItIsAskedFor) {
  const std::string question = "plan --model gpt2 --gpus 8 ";
  EXPECT_EQ(run(question).out.find("Sensitivity: one thing"), std::string::npos);
  const Outcome asked = run(question + "--sensitivity");
  EXPECT_NE(asked.out.find("Sensitivity: one thing"), std::string::npos) << asked.messages;
  EXPECT_NE(asked.out.find("matrix units x 1.25"), std::string::npos) << asked.out;
  EXPECT_NE(run(question + "--sensitivity --format json").out.find("\"planned_time\": 0."),
            std::string::npos);
}

}  // namespace
}  // namespace llmsim::cli
