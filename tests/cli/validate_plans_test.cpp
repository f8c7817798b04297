// `llmsim validate --plans`: the planner held against measured layouts.
#include "tests/cli/program.h"

#include <filesystem>

namespace llmsim::cli {
namespace {

// A run of GPT-2 on eight devices, without a comma after it.
std::string gpt2_run(const std::string& id, const std::string& layout, const std::string& time) {
  return R"({"id": ")" + id +
         R"(", "model": {"name": "gpt2"}, "hardware": {"accelerator": "h100_sxm", "num_devices": 8},
         "training": {"framework": "torchtitan", "precision": "bf16", "global_batch": 64, )" +
         layout + R"(}, "measured": {"step_time_s": )" + time +
         R"(}, "scored": {"step_time": true, "memory": false, "outcome": false}})";
}

class ValidatePlans : public Program {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(path("runs"));
    write("runs/study.json",
          R"({"schema": 2, "group": "study", "runs": [)" +
              gpt2_run("a", R"("micro_batch": 1, "sharding": "zero3")", "0.2") + "," +
              gpt2_run("b", R"("micro_batch": 2, "sharding": "zero3")", "0.1") + "," +
              gpt2_run("c", R"("micro_batch": 4, "sharding": "zero3")", "0.15") + "]}");
  }
};

TEST_F(ValidatePlans, HasALineForEachStudyAndOneForAll) {
  const Outcome outcome = run("validate --plans runs");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_EQ(outcome.messages, "");
  EXPECT_NE(outcome.out.find("\nstudy  "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("\nall, each study once  "), std::string::npos) << outcome.out;
}

TEST_F(ValidatePlans, OrdersTheLayoutsOfOneProblemInEveryFormat) {
  const Outcome csv = run("validate --plans runs --format csv");
  EXPECT_TRUE(csv.out.starts_with("group,n,problems,missed,")) << csv.out;
  EXPECT_NE(csv.out.find("\nstudy,3,1,0,"), std::string::npos) << csv.out;
  const Outcome json = run("validate --plans runs --format json");
  EXPECT_NE(json.out.find("\"layouts\": 3"), std::string::npos) << json.out;
  EXPECT_EQ(run("validate --plans runs --format markdown").status, 0);
}

TEST_F(ValidatePlans, IsAnAnswerOfItsOwn) {
  EXPECT_EQ(run("validate --plans --ablations runs").status, 2);
  EXPECT_EQ(run("validate --plans --tables . runs").status, 2);
  EXPECT_EQ(run("validate --plans --skipped runs").status, 2);
  const Outcome none = run("validate --plans --scope moe runs");
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.messages.find("--scope = moe"), std::string::npos) << none.messages;
}

}  // namespace
}  // namespace llmsim::cli
