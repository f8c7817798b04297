#include "cli/predict_command.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

// The lines of the command that a plan prints.
std::string command_in(const std::string& screen) {
  const std::size_t begin = screen.find("llmsim predict ");
  std::string command = begin == std::string::npos ? "" : screen.substr(begin);
  for (std::size_t at = command.find('\n'); at != std::string::npos; at = command.find('\n', at)) {
    if (at == 0 || command[at - 1] != '\\') return command.substr(0, at);
    command.replace(at - 1, 2, "");
  }
  return command;
}

class PredictCommand : public Program {
 protected:
  // The winner's command, run, gives the winner's figures: the columns of both are the same.
  void expect_same(const std::string& question) const {
    const std::string command = command_in(run("plan " + question).out), program = "llmsim ";
    ASSERT_TRUE(command.starts_with(program + "predict ")) << command;
    EXPECT_EQ(command.find(" --db ") != std::string::npos,
              question.find(" --db ") != std::string::npos)
        << command;
    const Outcome predicted = run(command.substr(program.size()) + " --format csv");
    ASSERT_EQ(predicted.status, 0) << command << "\n" << predicted.messages;
    EXPECT_EQ(predicted.out, run("plan " + question + " --top 1 --format csv").out) << command;
  }
};

TEST_F(PredictCommand, GivesTheFiguresOfTheWinner) {
  expect_same("--model gpt2 --gpus 8");
  expect_same("--model llama-8b --gpus 16 --hardware a100 --framework fsdp2 --seq-len 4096");
}

TEST_F(PredictCommand, RepeatsWhatWasAskedFor) {
  expect_same(
      "--model mixtral-8x7b --gpus 16 --tp 1,2 --moe-imbalance 1.2 --no-fused-cross-entropy "
      "--recompute none,full --precision fp8 --optimizer adam");
  expect_same(
      "--model llama-8b --gpus 8 --pp 2,4 --schedule zb-h1 --cp-unbalanced --cp 1,2 "
      "--no-gradient-overlap --global-batch 64 --framework megatron-lm --date 2024-06-01");
  expect_same("--model llama-8b --gpus 8 --lora 16 --lora-targets q,v,down --precision nf4");
  expect_same("--model llama-8b --gpus 8 --cp 1,2 --seq-len 8192 --document-len 900");
}

// They are frozen.
TEST_F(PredictCommand, WeightsOfFourBitsNeedAdapters) {
  for (const std::string command : {"predict", "plan"}) {
    const Outcome outcome = run(command + " --model gpt2 --gpus 1 --precision nf4");
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_NE(outcome.messages.find("training.precision = nf4: weights of 4 bits are frozen, and "
                                    "without adapters nothing is trained; --lora"),
              std::string::npos)
        << command << ": " << outcome.messages;
  }
}

// The default batch of a search is divided by the devices, that of one run by its replicas.
TEST_F(PredictCommand, NamesTheBatchWhateverTheNumberOfDevices) {
  expect_same("--model llama-70b --gpus 96");
  expect_same("--model llama-8b --gpus 24");
  expect_same("--model llama-8b --gpus 40 --hardware mi300x --seq-len 4096");
  expect_same("--model gpt2 --gpus 7");
  expect_same("--model llama-8b --gpus 12 --global-batch-tokens 1000000");
}

// Hardware of one's own is in one's own database.
TEST_F(PredictCommand, NamesTheDatabase) { expect_same("--model gpt2 --gpus 8 --db 'my own.db'"); }

TEST(PredictCommandText, IsQuotedForAShell) {
  const std::string command = predict_command({.model = "my model's.json"}, {});
  EXPECT_NE(command.find("--model 'my model'\\''s.json'"), std::string::npos) << command;
}

}  // namespace
}  // namespace llmsim::cli
