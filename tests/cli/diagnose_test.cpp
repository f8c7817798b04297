// llmsim diagnose: from profiles or logs of a run to what its step time is made of.
#include <cmath>
#include <map>
#include <sstream>
#include <string>

#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

constexpr const char* kRun = R"({
 "id": "our-8b", "date": "2025-03-01",
 "model": {"name": "llama-3-8b", "seq_len": 4096},
 "hardware": {"accelerator": "h100_sxm", "num_devices": 8, "devices_per_node": 8},
 "training": {"framework": "torchtitan", "precision": "bf16", "optimizer": "adamw", "micro_batch": 1,
  "global_batch": 16, "dp": 8, "sharding": "zero3"}
})";

class Diagnose : public Program {
 protected:
  Diagnose() {
    write("run.json", kRun);
    EXPECT_EQ(run("trace run.json --no-operators -o step.json").status, 0);
  }

  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
  static void expect_screen(const std::string& out) {
    for (std::size_t begin = 0; begin < out.size();) {
      const std::size_t end = out.find('\n', begin);
      EXPECT_LE(end - begin, 100U) << out.substr(begin, end - begin);
      begin = end + 1;
    }
  }
};

// Differences by part, of what is printed as CSV.
std::map<std::string, double> differences(const std::string& csv) {
  std::map<std::string, double> values;
  std::istringstream lines(csv);
  std::string line, part, measured, predicted, difference;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    for (std::string* cell : {&part, &measured, &predicted, &difference})
      std::getline(cells, *cell, ',');
    values[part] = std::stod(difference);
  }
  return values;
}

// What trace draws is what is predicted.
TEST_F(Diagnose, FindsNoDifferenceInThePredictionItself) {
  const Outcome outcome = run("diagnose run.json --profile step.json --format csv");
  ASSERT_EQ(outcome.status, 0) << outcome.messages;
  std::map<std::string, double> found = differences(outcome.out);
  EXPECT_NEAR(found.at("step"), 0.0, 1e-6);
  double lines = -found.at("step");
  for (const auto& [part, difference] : found) lines += part == "step" ? 0.0 : difference;
  EXPECT_NEAR(lines, 0.0, 1e-9);
  EXPECT_GT(found.size(), 5U);
  for (const auto& [part, difference] : found) EXPECT_NEAR(difference, 0.0, 1e-6) << part;
}

TEST_F(Diagnose, FitsAScreenOfAHundredColumns) {
  const Outcome outcome = run("diagnose run.json --profile step.json");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_TRUE(has(outcome.out, "Where the difference is")) << outcome.out;
  expect_screen(outcome.out);
}

TEST_F(Diagnose, TellsWhichPartALogCouldBeExplainedBy) {
  write("train.log", [] {
    std::string text;
    for (int step = 1; step <= 40; ++step)
      text += "[titan] 2025-01-10 10:00:10,001 - root - INFO - step: " + std::to_string(step) +
              "  loss: 12.2721  memory: 47.65GiB(60.2%)  tps: 5,000  tflops: 379.00  mfu: 38.32%\n";
    return text;
  }());
  const Outcome outcome = run("diagnose run.json --log train.log");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_TRUE(has(outcome.out, "What would explain it")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "nccl-tests")) << outcome.out;
  expect_screen(outcome.out);
}

// What a profile says of its cluster is kept, and predicts the next run.
TEST_F(Diagnose, KeepsWhatItLearntAsASite) {
  const Outcome kept = run("diagnose run.json --profile step.json --store-site ours");
  EXPECT_EQ(kept.status, 0) << kept.messages;
  EXPECT_TRUE(has(kept.messages, "site ours: step ")) << kept.messages;
  const auto step_of = [&](const std::string& options) {
    const std::string json = run("predict run.json --format json" + options).out;
    return std::stod(json.substr(json.find("\"step_time_s\": ") + 15));
  };
  EXPECT_NEAR(step_of(" --site ours") / step_of(""), 1.0, 0.005);
  const Outcome again = run("diagnose run.json --profile step.json --store-site ours");
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(has(again.messages, "ours: is taken")) << again.messages;
  // A device trains 8,192 tokens a step, in 1.2 times the predicted time.
  const double tokens_per_second = 8192.0 / (1.2 * step_of(""));
  std::ostringstream log;
  for (int step = 1; step <= 40; ++step)
    log << "[titan] 2025-01-10 10:00:10,001 - root - INFO - step: " << step
        << "  loss: 12.2721  memory: 47.65GiB(60.2%)  tps: " << std::llround(tokens_per_second)
        << "  tflops: 379.00  mfu: 38.32%\n";
  write("train.log", log.str());
  const Outcome logged = run("diagnose run.json --log train.log --store-site ours --replace");
  EXPECT_EQ(logged.status, 0) << logged.messages;
  EXPECT_GT(step_of(" --site ours") / step_of(""), 1.05);
  EXPECT_LT(step_of(" --site ours") / step_of(""), 1.2);
}

TEST_F(Diagnose, WritesCsvAndMarkdown) {
  EXPECT_TRUE(run("diagnose run.json --profile step.json --format csv")
                  .out.starts_with("part,measured_s,predicted_s,difference_s,worth,kernels,"));
  EXPECT_EQ(run("diagnose run.json --profile step.json --format markdown -o a.md").status, 0);
  EXPECT_TRUE(has(content_of(path("a.md")), "| part"));
}

TEST_F(Diagnose, RefusesWhatIsNoProfileInOneLine) {
  write("bad.json", "{\"traceEvents\":[{");
  const Outcome outcome = run("diagnose run.json --profile bad.json");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome.messages, "bad.json: no JSON from byte")) << outcome.messages;
  EXPECT_EQ(run("diagnose run.json").status, 2);
  EXPECT_EQ(run("diagnose --profile step.json").status, 2);
  EXPECT_EQ(run("diagnose run.json --profile none.json").status, 1);
  EXPECT_EQ(run("diagnose run.json --profile step.json --format pdf").status, 1);
}

}  // namespace
}  // namespace llmsim::cli
