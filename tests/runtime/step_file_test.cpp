#include "runtime/measure/step_file.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/measure/step_bench.h"
#include "sim/base/error.h"
#include "tests/temporary_folder.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;

std::string refusal(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = folder / "step.json";
  std::ofstream(path) << text;
  try {
    read_step_file(path, c10::kCPU);
  } catch (const Error& error) {
    const std::string what = error.what();
    return what.substr(what.find(": ") + 2);
  }
  return "";
}

// Whatever the runtime measures by itself can be asked for in a file.
TEST(StepFile, IsReadAsItIsRecorded) {
  std::vector<StepCase> cases = step_cases(c10::kCPU, true);
  for (const StepCase& one : parallel_step_cases(4, c10::kCPU)) cases.push_back(one);
  ASSERT_GT(cases.size(), 20u);
  for (const StepCase& one : cases) {
    const StepCase read = step_of_record(run_record(one, "local_cpu"), c10::kCPU);
    EXPECT_EQ(read.key, one.key);
    EXPECT_EQ(read.setup.model, one.setup.model) << one.key;
    EXPECT_EQ(read.setup.autocast, one.setup.autocast) << one.key;
    EXPECT_EQ(run_record(read, "local_cpu"), run_record(one, "local_cpu"));
  }
}

TEST(StepFile, SaysWhatIsWrong) {
  EXPECT_EQ(refusal("[1"), "no run file; a JSON object is expected");
  EXPECT_EQ(refusal("{}"), "model: the run file of a step states it");
  EXPECT_EQ(refusal(R"({"model": {"name": 3}, "training": {}})"),
            "id, model.name and training.framework are texts");
  EXPECT_EQ(refusal(R"({"model": {}, "training": {"sharding": "zero9"}})").substr(0, 18),
            "sharding = zero9: ");
  EXPECT_THROW(read_step_file("/nowhere/step.json", c10::kCPU), Error);
}

// Settings of programs are not the runtime's, and null is nothing that is stated.
TEST(StepFile, LeavesOutWhatItHasNoFieldFor) {
  const StepCase one = step_of_record(
      {{"model", {{"num_layers", 3}}},
       {"training", {{"dp", 2}, {"cp_inner", nullptr}, {"attention_kernel", "flash-2"}}}},
      c10::kCPU);
  EXPECT_EQ(one.key, "step");
  EXPECT_EQ(one.setup.model.num_layers, 3);
  EXPECT_EQ(one.setup.strategy.dp, 2);
  EXPECT_FALSE(one.setup.strategy.cp_inner.has_value());
}

}  // namespace
}  // namespace llmsim::runtime
