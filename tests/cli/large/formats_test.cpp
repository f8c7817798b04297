// What people and machines get of one question: the same rows in CSV, JSON and on the screen.
#include <algorithm>
#include <string>
#include <vector>

#include "reports/data_rows.h"
#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

class Formats : public Program {
 protected:
  reports::DataRows rows(const std::string& question) const {
    const Outcome outcome = run(question);
    EXPECT_EQ(outcome.status, 0) << outcome.messages;
    return reports::data_rows(outcome.out);
  }

  void expect_same_rows(const std::string& question) const {
    SCOPED_TRACE(question);
    const reports::DataRows csv = rows(question + " --format csv"),
                            json = rows(question + " --format json");
    ASSERT_FALSE(csv.rows.empty());
    EXPECT_EQ(csv.keys, json.keys);
    ASSERT_EQ(csv.rows.size(), json.rows.size());
    for (std::size_t row = 0; row < csv.rows.size(); ++row) {
      for (const std::string& key : csv.keys) {
        if (csv.number(row, key))
          EXPECT_EQ(csv.number(row, key), json.number(row, key)) << row << " " << key;
        else
          EXPECT_EQ(csv.text(row, key), json.text(row, key)) << row << " " << key;
      }
    }
  }
};

TEST_F(Formats, HaveTheSameRows) {
  for (const char* question :
       {"models list --family gpt", "hardware list", "hardware show jean_zay_v100"})
    expect_same_rows(question);
}

// Characters of the longest line.
std::size_t width_of(const std::string& text) {
  std::size_t widest = 0, width = 0;
  for (const char c : text) {
    width = c == '\n' ? 0 : width + ((c & 0xC0) != 0x80);
    widest = std::max(widest, width);
  }
  return widest;
}

// On a terminal of 80 columns, and of 100 where nobody says how many there are; machines get whole
// values.
TEST_F(Formats, NoLineOfATableIsWiderThanATerminal) {
  const std::string gpt2 = "--model gpt2 --gpus 8 ",
                    big = "--model deepseek-v3 --gpus 512 --pp 16 ";
  const std::string own = "validate '" LLMSIM_SOURCE_DIR "/tests/validation/runs/fused-ce.json'";
  const std::vector<std::string> commands{"hardware list",
                                          "hardware show h100",
                                          "hardware show dgx_h100",
                                          "hardware check",
                                          "models list",
                                          "models show gpt2",
                                          "models show deepseek-v3",
                                          "calibrate show",
                                          "predict " + gpt2,
                                          "predict " + gpt2 + "--verbose",
                                          "predict " + gpt2 + "--sensitivity",
                                          "predict " + gpt2 + "--tokens 1T",
                                          "predict " + gpt2 + "--memory-timeline",
                                          "predict " + big + "--ep 32 --verbose",
                                          "predict " + gpt2 + "--explain gemm",
                                          "predict " + gpt2 + "--explain attention",
                                          "predict " + big + "--explain collective",
                                          "predict " + gpt2 + "--explain memory",
                                          "predict --model llama-70b --gpus 8 --tp 8",
                                          "plan " + gpt2,
                                          "plan " + gpt2 + "--verbose",
                                          "plan --model gpt2,bert-large --gpus 8,16",
                                          "plan " + gpt2 + "--sensitivity --pareto",
                                          "plan --model llama-70b --gpus 1",
                                          "compare --model gpt2,llama-8b --gpus 8",
                                          "compare --model gpt2 --gpus 8,16 --tp 1,2",
                                          "sweep --model gpt2 --gpus 8,16 --tp 1,3 --format table",
                                          own,
                                          own + " --runs",
                                          own + " --residuals"};
  for (const std::string& command : commands) {
    const Outcome usual = run(command), narrow = run(command, "COLUMNS=80");
    EXPECT_NE(usual.out, "") << command << usual.messages;
    EXPECT_LE(width_of(usual.out), 100u) << command;
    EXPECT_LE(width_of(narrow.out), 80u) << command;
  }
  EXPECT_GT(width_of(run("hardware show h100 --format csv").out), 300u);
  EXPECT_GT(width_of(run("hardware show h100 --format markdown").out), 300u);
}

TEST_F(Formats, EveryValueOfAMachineHasItsSource) {
  const reports::DataRows shown = rows("hardware show jean_zay_v100 --format csv");
  ASSERT_GT(shown.rows.size(), 40u);
  for (std::size_t row = 0; row < shown.rows.size(); ++row) {
    for (const char* key : {"value", "evidence", "source"})
      EXPECT_NE(shown.text(row, key), "") << shown.text(row, "key") << " " << key;
  }
}

// GPT-2 XL in four stages: warm-up of the first stage holds its four micro-batches.
TEST_F(Formats, TheHighestPointOfMemoryIsThePeakOfThePrediction) {
  const std::string question =
      "predict --model gpt2-xl --gpus 4 --hardware h100 --pp 4 --global-batch 8 --micro-batch 2 ";
  const reports::DataRows points = rows(question + "--memory-timeline --format csv");
  double highest = 0;
  std::string where;
  for (std::size_t row = 0; row < points.rows.size(); ++row) {
    const double bytes = *points.number(row, "allocated_bytes");
    EXPECT_GE(*points.number(row, "reserved_bytes"), bytes);
    if (bytes <= highest) continue;
    highest = bytes;
    where = points.text(row, "phase") + " " + points.text(row, "micro_batch");
  }
  EXPECT_EQ(where, "backward 0");
  EXPECT_EQ(points.text(0, "phase"), "idle");
  EXPECT_EQ(points.text(0, "allocated_bytes"),
            points.text(points.rows.size() - 1, "allocated_bytes"));
  const reports::DataRows tensors = rows(question + "--explain memory --format csv");
  const std::size_t last = tensors.rows.size() - 1;  // the sum of the others
  double sum = 0;
  for (std::size_t row = 0; row < last; ++row) sum += *tensors.number(row, "size_bytes");
  EXPECT_NEAR(sum / highest, 1.0, 1e-9);
  EXPECT_NEAR(*tensors.number(last, "size_bytes") / highest, 1.0, 1e-9);
}

TEST_F(Formats, WhatIsMisspeltIsOneLineWithTheNearest) {
  const auto expect = [&](const char* arguments, int status, const char* message) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, status) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_EQ(outcome.messages, std::string("llmsim: ") + message + "\n");
  };
  expect("plan --model lama-70b --gpus 256", 1,
         "--model = lama-70b: neither a known model nor a config.json; did you mean llama-70b, "
         "llama-7b, llama-30b?");
  expect("plan --model llama-70b --gpu 256", 2, "unknown option --gpu; did you mean --gpus?");
  expect("predict --model gpt2-xl --gpus 4 --pp 4 --memory-timeline --memory-stage 4", 1,
         "--memory-stage = 4: the run has stages 0 to 3");
}

// The rule of a mesh names its numbers and the nearest that obey it, in the answer and as a message.
TEST_F(Formats, ABrokenRuleIsTheAnswerAndTheMessage) {
  const Outcome outcome = run("predict --model llama-3-70b --gpus 8 --tp 3");
  const std::string reason =
      "dp * tp * pp * cp = 2 * 3 * 1 * 1 = 6, but there are 8 devices; tp * pp * cp = 3 must "
      "divide it (nearest: 2 or 4)";
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.messages, "llmsim: " + reason + "\n");
  std::string screen = outcome.out;
  screen.erase(std::unique(screen.begin(), screen.end(),
                           [](char a, char b) { return isspace(a) && isspace(b); }),
               screen.end());
  std::replace(screen.begin(), screen.end(), '\n', ' ');
  EXPECT_NE(screen.find(reason), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace llmsim::cli
