#include "cli/requirements.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/cli/program.h"
#include "tests/sim/sample_run.h"

namespace llmsim::cli {
namespace {

std::string refusal(const std::string& text) {
  try {
    requirements_in(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// 60 GiB of 80 are needed, a step takes 2 s at 40 % MFU.
sim::Prediction prediction() {
  sim::Prediction prediction{.run = sim::small_run()};
  prediction.run.cluster.device.memory = 80.0 * sim::GiB;
  prediction.memory.peak = 60.0 * sim::GiB;
  prediction.step_time = sim::Seconds(2.0);
  prediction.mfu = 0.4, prediction.hfu = 0.5;
  prediction.tokens_per_second_per_device = 1234.5;
  return prediction;
}

std::string unmet(const std::string& text) {
  return cli::unmet(requirements_in(text), prediction(), std::nullopt);
}

TEST(Requirements, AreReadInTheirUnits) {
  const std::vector<Requirement> all =
      requirements_in("memory<75GiB,memory<=90%,step<500ms,mfu>40%,hfu>=0.5");
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[0].limit, (75.0 * sim::GiB).value());
  EXPECT_FALSE(all[0].of_device);
  EXPECT_EQ(all[1].comparison, "<=");
  EXPECT_TRUE(all[1].of_device);
  EXPECT_DOUBLE_EQ(all[2].limit, 0.5);
  EXPECT_DOUBLE_EQ(all[3].limit, 0.4);
  EXPECT_EQ(all[4].limit, 0.5);
  EXPECT_TRUE(requirements_in("").empty());
}

TEST(Requirements, SayWhatIsRight) {
  EXPECT_EQ(refusal("speed>3"),
            "--require = speed>3: memory, step, tokens, mfu, hfu, fits, days or cost is expected");
  EXPECT_EQ(refusal("memory<75"),
            "--require = memory<75: a limit of 0 or more in GiB, MiB, TiB, GB, MB, TB, B, % is "
            "expected");
  EXPECT_EQ(refusal("tokens>many"), "--require = tokens>many: a limit of 0 or more is expected");
  for (const char* wrong : {"memory", "<3", "mfu=40%", "mfu>", "mfu>40%%", "mfu>-1%", "step<nan s",
                            "step<1e999s", "mfu>40%,,hfu>1", ","})
    EXPECT_NE(refusal(wrong), "") << wrong;
}

TEST(Requirements, TheFirstThatIsNotMetIsNamed) {
  EXPECT_EQ(unmet("memory<75GiB,memory<=75%,step<=2s,mfu>=40%,hfu>49%,tokens>1000"), "");
  EXPECT_EQ(unmet("mfu>39%,mfu>40%,step<1s"), "--require mfu>40%: it is 40.00 %");
  EXPECT_EQ(unmet("memory<60GiB"), "--require memory<60GiB: it is 60.00 GiB");
  EXPECT_EQ(unmet("memory<70%"), "--require memory<70%: it is 75.00 %");
  EXPECT_EQ(unmet("tokens>=2000"), "--require tokens>=2000: it is 1234");
  EXPECT_THROW(unmet("days<3"), Error);
}

class RequiredAnswer : public Program {};

TEST_F(RequiredAnswer, IsTheExitStatus) {
  for (const char* question : {"plan --model gpt2 --gpus 1", "predict --model gpt2 --gpus 1"}) {
    const std::string asked = question;
    EXPECT_EQ(run(asked + " --require 'mfu>1%,memory<100%'").status, 0) << asked;
    const Outcome outcome = run(asked + " --require 'memory<100%,mfu>99%'");
    EXPECT_EQ(outcome.status, 3) << asked;
    EXPECT_NE(outcome.messages.find("--require mfu>99%: it is "), std::string::npos)
        << outcome.messages;
    EXPECT_EQ(run(asked + " --require 'mfu'").status, 1) << asked;
  }
}

}  // namespace
}  // namespace llmsim::cli
