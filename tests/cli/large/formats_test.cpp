// What people and machines get of one question: the same rows in CSV, JSON and on the screen.
#include <algorithm>
#include <string>

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
