// Every example that a help text prints can be typed as it stands.
#include <string>
#include <utility>
#include <vector>

#include "reports/page/page.h"
#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

using Texts = std::vector<std::string>;

// What stands after `mark` in each line that has it.
Texts after(const std::string& mark, const std::string& text) {
  Texts found;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    const std::size_t begin = at + mark.size();
    found.push_back(text.substr(begin, text.find('\n', begin) - begin));
  }
  return found;
}

bool has(const std::string& text, const std::string& word) {
  return (" " + text + " ").find(" " + word + " ") != std::string::npos;
}

constexpr const char* kMeasuredRun =
    R"({"id": "monday", "model": {"name": "gpt2"}, "hardware": {"accelerator": "h100_sxm",
  "num_devices": 8}, "training": {"framework": "ddp", "global_batch": 64, "micro_batch": 8},
 "measured": {"step_time_s": 0.1}})";

constexpr const char* kLaunchFile =
    "torchrun pretrain_gpt.py --num-layers 12 --hidden-size 768 --num-attention-heads 12 "
    "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --bf16 --swiglu\n";

// Of a search that is asked for nothing else a part is enough.
std::string narrow_search(const std::string& example) {
  std::string narrow;
  for (const auto& [option, value] :
       {std::pair("--top", "1"), std::pair("--recompute", "none"), std::pair("--sharding", "zero1"),
        std::pair("--virtual-stages", "1"), std::pair("--micro-batch", "1")})
    if (!has(example, option)) narrow += std::string(" ") + option + " " + value;
  return narrow;
}

// An option's example with what else its command must be told.
std::string completed(const std::string& command, const std::string& example) {
  if (command == "plot") return "plot grid.csv " + example;
  if (!command.starts_with("predict") && !command.starts_with("plan") &&
      !command.starts_with("trace") && command != "report")
    return command + " " + example;
  std::string line = command + " " + example;
  if (has(example, "--run") || has(example, "--validation")) return line;
  if (!has(example, "--model"))
    line += has(example, "--ep") || example.starts_with("--moe") ? " --model mixtral-8x7b"
                                                                 : " --model gpt2";
  if (!has(example, "--gpus")) line += " --gpus 8";
  if (command == "plan" && has(example, "--to")) line += " --export launch";
  if (command == "plan" || command == "report") line += narrow_search(example);
  return line;
}

// The file of a model that hears, small.
constexpr const char* kAudioModel = R"({"model_type": "qwen2_audio",
  "text_config": {"model_type": "qwen2", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 32000},
  "audio_config": {"model_type": "qwen2_audio_encoder", "d_model": 128, "encoder_layers": 2,
    "encoder_attention_heads": 4, "encoder_ffn_dim": 256, "num_mel_bins": 128,
    "max_source_positions": 1500}})";

// With the site and the run that examples name.
class HelpExamples : public Program {
 protected:
  HelpExamples() {
    write("monday.json", kMeasuredRun);
    write("run.json", kMeasuredRun);
    write("train.sh", kLaunchFile);
    write("qwen2-audio.json", kAudioModel);
    expect_answer("calibrate site our-cluster monday.json");
  }

  // A program without pages prints what would be in them.
  void expect_answer(const std::string& arguments) const {
    const bool paged = arguments.starts_with("report") && !has(arguments, "--format");
    const Outcome outcome =
        run(arguments + (paged && reports::missing_pages() ? " --format json" : ""));
    EXPECT_TRUE(outcome.status == 0 || outcome.status == 3) << arguments << "\n"
                                                            << outcome.messages;
  }
};

class OptionsOf : public HelpExamples, public testing::WithParamInterface<std::string> {};

TEST_P(OptionsOf, HaveExamplesThatRun) {
  const std::string& command = GetParam();
  if (command == "plot")
    expect_answer(
        "sweep --model gpt2 --gpus 16 --tp 1,2 --pp 1,2 --micro-batch 1,2 --recompute none -o "
        "grid.csv");
  const Outcome help = run(command + " --help-all", "COLUMNS=10000");
  ASSERT_EQ(help.status, 0) << command;
  const Texts examples = after("example: ", help.out);
  EXPECT_TRUE(command == "validate" || !examples.empty()) << command;
  for (const std::string& example : examples) {
    if (example.starts_with("-")) expect_answer(completed(command, example));
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptionsOf,
                         testing::Values("predict", "plan", "plot", "trace", "report", "validate",
                                         "models list", "models show gpt2", "hardware list"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, ' ');
                           return name;
                         });

TEST_F(HelpExamples, OfCommandsRun) {
  int count = 0;
  for (const std::string command :
       {"", "predict", "plan", "compare", "plot", "trace", "report", "export", "validate", "models",
        "models show", "hardware", "hardware show"}) {
    const Outcome help = run(command + " --help");
    for (const char* mark : {"Example: llmsim ", "\n  llmsim "}) {
      for (const std::string& example : after(mark, help.out)) {
        expect_answer(example);
        ++count;
      }
    }
  }
  EXPECT_GE(count, 6);
}

}  // namespace
}  // namespace llmsim::cli
