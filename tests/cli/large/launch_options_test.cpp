// An option that stands with a launch file changes its own field and what must follow from it: the
// answer is that of the file in which the key says so.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_request.h"
#include "hwdb/launch/launch_file.h"
#include "sim/base/error.h"
#include "sim/predict.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace llmsim::cli {
namespace {

const hwdb::Database& shipped() {
  static const hwdb::Database database(":memory:");
  return database;
}

// A run of a target, whose files are small: Llama 3 8B on two nodes.
RunOptions options_of(const std::string& framework, std::map<std::string, std::string> strategy) {
  RunOptions options{.model = "llama-3-8b"};
  options.gpus = "16", options.global_batch = "64", options.framework = framework;
  options.strategy = std::move(strategy);
  return options;
}

class LaunchOptions : public testing::TestWithParam<const char*> {
 protected:
  // The file of a run; none where the target cannot say it.
  std::optional<std::string> file_of(const std::string& target, const RunOptions& options) {
    try {
      const sim::Run run = run_of(options, shipped());
      if (sim::predict(run).step_time <= sim::Seconds(0.0)) return std::nullopt;
      hwdb::RunResolver resolver = resolver_of("", shipped());
      const hwdb::LaunchFile file = hwdb::launch_files(run, target, resolver).back();
      const std::string path = folder_ / (std::to_string(files_++) + file.name);
      std::ofstream(path) << file.text;
      return path;
    } catch (const Error&) {
      return std::nullopt;
    }
  }

  // What the file says, on 16 devices, with the option of a field.
  sim::Run read(const std::string& path, const std::string& framework,
                const std::map<std::string, std::string>& strategy) {
    RunOptions options;
    options.launch_file = path;
    options.strategy = strategy;
    options.gpus = "16";
    if (path.ends_with(".yml")) options.global_batch = "64";  // MaxText counts accumulation alone
    if (!names_model(path)) options.model = "llama-3-8b";
    if (framework != "megatron-bridge") options.framework = framework;
    return request_of(options, shipped()).run;
  }

  static bool names_model(const std::string& path) {
    return path.ends_with(".sh") || path.ends_with(".toml") || path.ends_with(".yml");
  }

 private:
  TemporaryFolder folder_;
  int files_ = 0;
};

struct Changed {
  const char *key, *from, *to;
};

TEST_P(LaunchOptions, ChangeTheirOwnFieldAndWhatFollows) {
  const std::string target = GetParam(), framework = *hwdb::framework_of_target(target);
  const std::map<std::string, std::string> base{
      {"tp", "2"}, {"micro_batch", "1"}, {"precision", "bf16"}, {"cp", "1"}};
  int checked = 0;
  for (const Changed& change :
       {Changed{"tp", "2", "4"}, Changed{"micro_batch", "1", "2"},
        Changed{"precision", "bf16", "fp16"}, Changed{"cp", "1", "2"}, Changed{"pp", "1", "2"},
        Changed{"pp", "2", "1"}, Changed{"optimizer", "adamw", "muon"},
        Changed{"micro_batch", "2", "1"}, Changed{"tp", "4", "1"}}) {
    std::map<std::string, std::string> before = base, after = base;
    before[change.key] = change.from, after[change.key] = change.to;
    const auto file = file_of(target, options_of(framework, before));
    const auto other = file_of(target, options_of(framework, after));
    if (!file || !other) continue;
    SCOPED_TRACE(target + ": " + change.key + " " + change.from + " -> " + change.to);
    const sim::Run by_option = read(*file, framework, {{change.key, change.to}});
    const sim::Run by_file = read(*other, framework, {});
    const sim::Prediction right = sim::predict(by_file), said = sim::predict(by_option);
    EXPECT_EQ(said.step_time.value(), right.step_time.value());
    EXPECT_EQ(said.memory.peak.value(), right.memory.peak.value());
    EXPECT_EQ(by_option.strategy.global_batch, by_file.strategy.global_batch);
    ++checked;
  }
  EXPECT_GE(checked, 2);
}

INSTANTIATE_TEST_SUITE_P(All, LaunchOptions,
                         testing::Values("megatron", "torchtitan", "maxtext", "deepspeed", "nemo"),
                         [](const auto& target) { return std::string(target.param); });

}  // namespace
}  // namespace llmsim::cli
