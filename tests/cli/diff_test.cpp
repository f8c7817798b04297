// llmsim diff: two runs, term by term.
#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

class Diff : public Program {
 protected:
  void SetUp() override {
    const std::string question = "predict --model gpt2 --gpus 8 --global-batch 64 --format json";
    ASSERT_EQ(run(question + " -o a.json").status, 0);
    ASSERT_EQ(run(question + " --micro-batch 4 -o b.json").status, 0);
  }
};

// What predict printed is a run, as it was resolved.
TEST_F(Diff, AnAnswerIsReadAsTheRunItIsOf) {
  EXPECT_EQ(run("predict a.json --format csv").out,
            run("predict --model gpt2 --gpus 8 --global-batch 64 --format csv").out);
}

TEST_F(Diff, OfTwoRunsHasTheirSettingsTermsAndBytes) {
  const Outcome outcome = run("diff a.json b.json");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  for (const char* words : {"training.micro_batch", "forward_gemm", "activations", "needed"})
    EXPECT_NE(outcome.out.find(words), std::string::npos) << words << "\n" << outcome.out;
  const std::string csv = run("diff a.json b.json --format csv").out;
  EXPECT_TRUE(csv.starts_with("term,first_s,second_s,difference_s,of_first_step\n")) << csv;
  EXPECT_NE(run("diff a.json a.json").out.find("nothing: they are one run"), std::string::npos);
}

TEST_F(Diff, RefusesWhatItCannotCompare) {
  EXPECT_EQ(run("diff a.json").status, 2);
  EXPECT_EQ(run("diff a.json b.json a.json").status, 2);
  EXPECT_EQ(run("diff a.json none.json").status, 1);
  write("bad.json", R"({"model": {"name": "gpt2"}, "hardware": {"accelerator": "h100_sxm", )"
                    R"("num_devices": 8}, "training": {"tp": 5}})");
  const Outcome outcome = run("diff a.json bad.json");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.messages.find("bad.json: "), std::string::npos) << outcome.messages;
}

}  // namespace
}  // namespace llmsim::cli
