#include "cli/plan_questions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/plan_goals.h"
#include "cli/predict_command.h"
#include "cli/run_request.h"
#include "hwdb/models/catalogue.h"
#include "sim/model/parameters.h"
#include "sim/predict.h"
#include "tests/cli/program.h"
#include "tests/error_of.h"

namespace llmsim::cli {
namespace {

RunOptions asked(const std::string& gpus) {
  RunOptions options;
  options.model = "gpt2";
  options.gpus = gpus;
  return options;
}

TEST(PlanQuestions, AreTheProductOfTheListsWithDevicesFastest) {
  RunOptions options = asked("16,8");
  options.hardware = "h100,mi300x";
  const PlanQuestions questions = questions_of(options);
  EXPECT_EQ(questions.keys, (std::vector<std::string>{"hardware", "gpus"}));
  std::vector<std::string> texts;
  for (const PlanQuestion& one : questions.list) {
    EXPECT_EQ(one.values, (std::vector<std::string>{*one.run.hardware, *one.run.gpus}));
    texts.push_back(*one.run.hardware + " " + *one.run.gpus);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"h100 8", "h100 16", "mi300x 8", "mi300x 16"}));
}

TEST(PlanQuestions, OfOneValueIsOne) {
  const PlanQuestions questions = questions_of(asked("8"));
  EXPECT_EQ(questions.list.size(), 1u);
  EXPECT_EQ(questions.keys, std::vector<std::string>{"gpus"});
}

TEST(PlanQuestions, TakeRangesOfNumbersAndListsOfFields) {
  RunOptions options = asked("1-8*2");
  options.strategy["precision"] = "bf16,fp8";
  EXPECT_EQ(questions_of(options).list.size(), 8u);
  EXPECT_EQ(questions_of(options).list.back().run.strategy.at("precision"), "fp8");
}

TEST(PlanQuestions, AreAskedWithAndWithoutWhatIsAllowed) {
  RunOptions options = asked("8");
  options.allowed = "fp8,optimizer,zb-h1";
  const PlanQuestions questions = questions_of(options);
  EXPECT_EQ(questions.keys, (std::vector<std::string>{"precision", "offload", "gpus"}));
  ASSERT_EQ(questions.list.size(), 4u);
  EXPECT_FALSE(questions.list.front().run.strategy.contains("precision"));
  EXPECT_FALSE(questions.list.front().run.offload);
  EXPECT_EQ(questions.list.back().run.strategy.at("precision"), "fp8");
  EXPECT_EQ(questions.list.back().run.offload, "optimizer");
  for (const PlanQuestion& one : questions.list)
    EXPECT_EQ(one.run.strategy.at("pipeline_schedule"), "1f1b,interleaved,zb-h1");
  options.allowed = "nothing";
  EXPECT_NE(error_of([&] { questions_of(options); }).find("--allow = nothing"), std::string::npos);
}

TEST(PlanQuestions, WhatIsAllowedStandsBesideWhatIsAsked) {
  RunOptions options = asked("8");
  options.strategy["precision"] = "bf16,fp8";
  options.strategy["pipeline_schedule"] = "gpipe";
  options.offload = "activations";
  options.allowed = "zb-h1";
  EXPECT_EQ(questions_of(options).keys, (std::vector<std::string>{"precision", "gpus"}));
  options.allowed = "zb-h1,fp8,optimizer";
  std::vector<std::string> texts;
  for (const PlanQuestion& one : questions_of(options).list) {
    EXPECT_EQ(one.run.strategy.at("pipeline_schedule"), "gpipe,zb-h1");
    EXPECT_EQ(one.values,
              (std::vector<std::string>{one.run.strategy.at("precision"), *one.run.offload, "8"}));
    texts.push_back(one.run.strategy.at("precision") + " " + *one.run.offload);
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"bf16 activations", "bf16 activations,optimizer",
                                             "fp8 activations", "fp8 activations,optimizer"}));
}

TEST(PlanQuestions, NameTheOptionOfABadList) {
  EXPECT_NE(error_of([] { questions_of(asked("8,x")); }).find("--gpus"), std::string::npos);
  RunOptions options = asked("8");
  options.hardware = "h100,,mi300x";
  EXPECT_NE(error_of([&] { questions_of(options); }).find("--hardware = h100,,mi300x"),
            std::string::npos);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class ManyPlans : public Program {};

// The same door: each row is what its question alone gives.
TEST_F(ManyPlans, AreThoseOfTheQuestionsAlone) {
  const std::string model = "plan --format csv --model gpt2 ";
  const std::vector<std::string> all = lines_of(run(model + "--gpus 4,8 --hardware h100,a100").out);
  ASSERT_EQ(all.size(), 5u);
  std::size_t row = 1;
  for (const char* hardware : {"h100", "a100"}) {
    for (const char* gpus : {"4", "8"}) {
      const std::string question = std::string("--gpus ") + gpus + " --hardware " + hardware;
      EXPECT_EQ(all[row++], lines_of(run(model + question + " --top 1").out).at(1)) << question;
    }
  }
}

// An upgrade: the best layout of the first hardware as `predict` has it on the others, where it is
// no faster than the best of theirs.
TEST(ManyPlansOfOneRun, KeepTheFirstLayoutOnOtherHardware) {
  const hwdb::Database database(":memory:");
  PlanOptions options;
  options.run = asked("8");
  options.run.hardware = "v100_sxm_16,h100_sxm";
  const auto answers = several_answers(options, database);
  ASSERT_TRUE(answers && answers->plans.size() == 2);
  const sim::Prediction& first = answers->plans[0].answer.plan.plans.front();
  EXPECT_EQ(answers->plans[0].same_layout->step_time, first.step_time);
  const sim::Prediction& kept = *answers->plans[1].same_layout;
  EXPECT_EQ(kept.run.cluster.device.id, "h100_sxm");
  RunOptions by_hand = predict_options(asked("8"), first.run.strategy);
  by_hand.hardware = "h100_sxm";
  EXPECT_EQ(kept.step_time, sim::predict(run_of(by_hand, database)).step_time);
  sim::Seconds best = kept.step_time;
  for (const sim::Prediction& plan : answers->plans[1].answer.plan.plans)
    best = std::min(best, plan.step_time);
  EXPECT_LE(best, kept.step_time);
  const std::string screen = reports::render(*answers, reports::Format::Table);
  EXPECT_NE(screen.find("same layout: the best layout of v100_sxm_16 8, unchanged"),
            std::string::npos)
      << screen;
}

// Other questions differ in more than hardware.
TEST(ManyPlansOfOneRun, KeepNoLayoutOfAnotherModel) {
  PlanOptions options;
  options.run = asked("8");
  options.run.model = "gpt2,gpt2-medium";
  const auto answers = several_answers(options, hwdb::Database(":memory:"));
  ASSERT_TRUE(answers && answers->plans.size() == 2);
  EXPECT_FALSE(answers->plans[1].same_layout.has_value());
}

// 8.03e9 parameters with 18 bytes each of weights, gradients and states are 134.6 GiB: more than one
// device of 79 GiB has, and 67.3 GiB on each of two stages.
TEST_F(ManyPlans, FindTheSmallestThatFits) {
  const Outcome found = run("plan --model llama3-8b --fit --recompute full");
  EXPECT_EQ(found.status, 0) << found.messages;
  EXPECT_NE(found.out.find("the smallest that fits: 2\n"), std::string::npos) << found.out;
  EXPECT_EQ(run("plan --model llama3-8b --gpus 1 --recompute full").status, 3);
  EXPECT_EQ(run("plan --model llama3-8b --gpus 2 --recompute full").status, 0);
}

TEST_F(ManyPlans, MeetDeadlines) {
  const std::string question = "plan --model gpt2 --gpus 8,16,32 --tokens 300B --fit --deadline ";
  EXPECT_EQ(run(question + "0.001").status, 3);
  const Outcome late = run(question + "1000");
  EXPECT_NE(late.out.find("the smallest that fits in time: 8\n"), std::string::npos) << late.out;
  EXPECT_EQ(run("plan --model gpt2 --gpus 8 --deadline 3").status, 1);
}

// Whole fp32 gradients of 70.6e9 parameters are 263 GiB; 16 bytes a parameter over 64 devices 16 GiB.
// The printed command is that run.
TEST_F(ManyPlans, ReduceEachMicroBatchWhereWholeGradientsDoNotFit) {
  const std::string question = "plan --model llama-3-70b --gpus 64 --framework hf-trainer-fsdp ";
  const Outcome found = run(question + "--format csv --top 1");
  ASSERT_EQ(found.status, 0) << found.messages;
  const std::string screen = run(question).out;
  EXPECT_NE(screen.find("--grad-sync-every-microbatch\n"), std::string::npos) << screen;
  EXPECT_NE(screen.find("grad_sync_every_microbatch = true\n"), std::string::npos) << screen;
  EXPECT_EQ(run(question + "--tp 1 --no-grad-sync-every-microbatch").status, 3);
  ASSERT_EQ(run(question + "--export files").status, 0);
  EXPECT_NE(shell("cat files/node.sh").out.find("\"sync_each_batch\": true"), std::string::npos);
  const std::string small = run("plan --model gpt2 --gpus 8 --framework hf-trainer-fsdp").out;
  EXPECT_EQ(small.find("grad-sync-every-microbatch"), std::string::npos) << small;
}

// What is named as the largest fits, and what is next to it in the table does not.
TEST_F(ManyPlans, FindTheLargestThatFits) {
  const Outcome found = run("plan --model gpt2 --gpus 1 --largest micro-batch");
  const std::string says = "the largest that fits: ";
  const std::size_t at = found.out.find(says);
  ASSERT_NE(at, std::string::npos) << found.out << found.messages;
  const int largest = std::stoi(found.out.substr(at + says.size()));
  const std::string question = "plan --model gpt2 --gpus 1 --micro-batch ";
  EXPECT_EQ(run(question + std::to_string(largest)).status, 0);
  EXPECT_EQ(run(question + std::to_string(2 * largest)).status, 3);
  EXPECT_EQ(run("plan --model gpt2 --gpus 1 --largest nothing").status, 1);
  const Outcome model = run("plan --gpus 1 --largest model --hardware v100_sxm_16");
  EXPECT_NE(model.out.find(says), std::string::npos) << model.messages;
}

// 70.6e9 parameters are 141 GB in 16 bits, and 40 GB in packed ones.
TEST_F(ManyPlans, TheLargestModelOfFourBitsIsLarger) {
  const std::string one = "plan --gpus 1 --lora 16 --precision nf4 ", says = "that fits: ";
  ASSERT_EQ(run(one + "--model llama-70b").status, 0);
  const std::string found = run(one + "--largest model").out;
  ASSERT_NE(found.find(says), std::string::npos) << found;
  const std::string name = found.substr(found.find(says) + says.size());
  EXPECT_GE(sim::parameters(hwdb::find_model(name.substr(0, name.find('\n')))->model).total(),
            sim::parameters(hwdb::find_model("llama-70b")->model).total())
      << found;
}

TEST_F(ManyPlans, TheLargestIsOfOneQuestion) {
  const std::string largest = "plan --model gpt2 --gpus 1 --largest micro-batch ";
  EXPECT_EQ(run(largest + "--hardware v100,h100").status, 1);
  EXPECT_NE(run(largest + "--hardware v100,h100").messages.find("one question"), std::string::npos);
  EXPECT_EQ(run(largest + "--allow banana").status, 1);
}

// timeout ends with 124, and with 137 where it had to kill what goes on all the same.
TEST_F(ManyPlans, CtrlCEndsAllSearchesForTheLargest) {
  EXPECT_EQ(shell("timeout -s INT -k 60 1 '" LLMSIM_PROGRAM
                  "' plan --gpus 8 --largest model --offload parameters,optimizer")
                .status,
            124);
}

// A file of options is the command line that it stands for.
TEST_F(ManyPlans, AreAskedInFiles) {
  write("question.toml", "[plan]\nmodel = \"gpt2\"\ngpus = 8\ntp = \"1,2\"\nformat = \"csv\"\n");
  EXPECT_EQ(run("--question question.toml plan").out,
            run("plan --model gpt2 --gpus 8 --tp 1,2 --format csv").out);
  write("wrong.toml", "[plan]\nmodel = \"gpt2\"\ngpus = 8\nmodell = 3\n");
  const Outcome wrong = run("--question wrong.toml plan");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_NE(wrong.messages.find("modell"), std::string::npos) << wrong.messages;
  EXPECT_EQ(run("--question nowhere.toml plan --model gpt2 --gpus 8").status, 2);
}

// The same plans in another order: by the most that they may lose.
TEST_F(ManyPlans, CanBeOrderedByRisk) {
  const std::string question = "plan --model gpt2 --gpus 8 --top 16 --format ";
  std::vector<std::string> usual = lines_of(run(question + "csv").out),
                           by_risk = lines_of(run(question + "csv --risk").out);
  ASSERT_GT(usual.size(), 3u);
  std::sort(usual.begin(), usual.end());
  std::sort(by_risk.begin(), by_risk.end());
  EXPECT_EQ(usual, by_risk);
  const std::string json = run(question + "json --risk").out, key = "\"regrets\": [";
  const std::size_t at = json.find(key);
  ASSERT_NE(at, std::string::npos);
  std::istringstream list(json.substr(at + key.size()));
  double last = 1.0;
  for (double regret = 0.0; list >> regret; list.ignore()) {
    EXPECT_GE(regret, last);
    last = regret;
  }
  EXPECT_GT(last, 1.0);
}

// The cheapest by a price is the one with most tokens a device, and costs price / rate.
TEST_F(ManyPlans, TellWhatTokensCost) {
  const Outcome one = run("plan --model gpt2 --gpus 8 --price 3.6 --objective cost");
  const Outcome csv = run("plan --model gpt2 --gpus 8 --top 1 --format csv");
  const std::vector<std::string> lines = lines_of(csv.out);
  std::vector<std::string> names, values;
  std::istringstream header(lines.at(0)), row(lines.at(1));
  for (std::string name; std::getline(header, name, ',');) names.push_back(name);
  for (std::string value; std::getline(row, value, ',');) values.push_back(value);
  double rate = 0.0;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == "tokens_per_s_per_device") rate = std::stod(values.at(i));
  ASSERT_GT(rate, 0.0);
  char text[32];
  std::snprintf(text, sizeof text, "$%#.3g for 10^9 tokens", 3.6 / 3600.0 / rate * 1e9);
  EXPECT_NE(one.out.find(text), std::string::npos) << text << "\n" << one.out;
}

TEST_F(ManyPlans, FitOneScreen) {
  const Outcome all =
      run("plan --model llama3-8b --gpus 8,16 --hardware h100_sxm,mi300x --tokens 1T --precision "
          "bf16,fp8");
  for (const std::string& line : lines_of(all.out)) EXPECT_LE(line.size(), 100u) << line;
}

// --- fields that are pinned or banned ---

TEST_F(ManyPlans, ObeyFixAndExclude) {
  const std::string question = "plan --model gpt2 --gpus 8 --format json --top 1 ";
  const Outcome fixed = run(question + "--fix tp=2 --fix sequence_parallel=false");
  EXPECT_NE(fixed.out.find("\"tp\": 2"), std::string::npos) << fixed.messages;
  EXPECT_EQ(fixed.out.find("\"sequence_parallel\": true"), std::string::npos);
  EXPECT_EQ(run(question + "--fix tp=2").out.find("\"tp\": 1,"), std::string::npos);
  const Outcome banned =
      run("plan --model gpt2 --gpus 8 --format csv --exclude tp=1 --exclude sharding=zero1");
  for (const std::string& line : lines_of(banned.out))
    EXPECT_EQ(line.find("zero1"), std::string::npos) << line;
  EXPECT_EQ(run("plan --model gpt2 --gpus 8 --fix nothing=1").status, 1);
  EXPECT_EQ(run("plan --model gpt2 --gpus 8 --exclude precision=bf16").status, 1);
}

}  // namespace
}  // namespace llmsim::cli
