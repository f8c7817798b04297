// The command that a plan prints gives the plan's own figures, whatever was asked.
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/sim/random_run.h"

namespace llmsim::cli {
namespace {

using sim::RandomChoice;

// One in `of` has the option.
void maybe(std::string& question, RandomChoice& choose, int of, const std::string& option) {
  if (choose.below(of) == 0) question += " " + option;
}

std::string random_question(RandomChoice& choose, int devices) {
  using Names = std::initializer_list<const char*>;
  std::string text = std::string("--model ") +
                     choose.of(Names{"gpt2", "gpt2-xl", "llama3.2-1b", "llama3-8b", "qwen2.5-7b",
                                     "gemma-2-9b", "falcon-7b", "mixtral-8x7b", "qwen3-30b-a3b"}) +
                     " --gpus " + std::to_string(devices) + " --hardware " +
                     choose.of(Names{"h100", "a100", "mi300x", "mi250x", "b200", "h200", "gb200",
                                     "v100", "l40s", "tpu-v5p", "gaudi2", "mi355x"});
  maybe(text, choose, 2,
        std::string("--framework ") +
            choose.of(Names{"megatron-lm", "torchtitan", "fsdp2", "deepspeed", "hf-trainer",
                            "maxtext", "hf-trainer-deepspeed", "nemo"}));
  maybe(text, choose, 3,
        std::string("--seq-len ") + choose.of(Names{"1024", "2048", "8192", "32768"}));
  if (choose.below(3) == 0) {
    text += std::string(" --global-batch ") + choose.of(Names{"32", "60", "96", "100", "1024"});
  } else {
    maybe(text, choose, 5, "--global-batch-tokens 1M");
  }
  maybe(text, choose, 6, std::string("--precision ") + choose.of(Names{"fp8", "fp16", "mxfp8"}));
  maybe(text, choose, 6, "--lora 16");
  maybe(text, choose, 6, "--tp 1,2");
  maybe(text, choose, 8, "--recompute none,full");
  maybe(text, choose, 8,
        std::string("--optimizer ") + choose.of(Names{"adafactor", "muon", "sgd", "adam8bit"}));
  maybe(text, choose, 10, "--date 2024-06-01");
  maybe(text, choose, 10, "--moe-imbalance 1.2");
  maybe(text, choose, 10, "--compile");
  return text;
}

// The line of the first such key of a JSON document, from `begin` on.
std::string line_of(const std::string& json, const std::string& key, std::size_t begin = 0) {
  const std::size_t at = json.find('"' + key + "\": ", begin);
  EXPECT_NE(at, std::string::npos) << key;
  return at == std::string::npos ? "" : json.substr(at, json.find('\n', at) - at);
}

class RandomPlans : public Program, public testing::WithParamInterface<int> {
 protected:
  // Whether there was a plan.
  bool expect_its_own_figures(const std::string& question) const {
    const Outcome planned = run("plan " + question + " --top 1 --format json");
    if (planned.status != 0) {
      EXPECT_TRUE(planned.status == 1 || planned.status == 3) << question << planned.messages;
      return false;
    }
    const std::string line = line_of(planned.out, "command"), program = "llmsim ";
    const std::size_t begin = line.find(program) + program.size();
    const std::string command = line.substr(begin, line.rfind('"') - begin);
    const Outcome predicted = run(command + " --format json");
    EXPECT_EQ(predicted.status, 0) << command << "\n" << predicted.messages;
    for (const char* figure : {"step_time_s", "peak", "mfu", "tokens_per_s_per_device"})
      EXPECT_EQ(line_of(planned.out, figure, planned.out.find("\"plans\": [")),
                line_of(predicted.out, figure))
          << command;
    return true;
  }
};

TEST_P(RandomPlans, HaveCommandsThatGiveTheirFigures) {
  RandomChoice choose(static_cast<unsigned>(GetParam()));
  int plans = 0;
  for (int asked = 0; asked < 30 && plans < 3; ++asked)
    plans += expect_its_own_figures(random_question(choose, GetParam()));
  EXPECT_EQ(plans, 3);
}

INSTANTIATE_TEST_SUITE_P(OfDevices, RandomPlans, testing::Range(1, 101));

}  // namespace
}  // namespace llmsim::cli
