// `llmsim report`: what it writes and when it refuses.
#include <filesystem>
#include <string>

#include "reports/page/page.h"
#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

const std::string kQuick = " --recompute none --micro-batch 1 --no-scaling";

class Report : public Program {
 protected:
  void SetUp() override {
    if (const auto missing = reports::missing_pages()) GTEST_SKIP() << *missing;
  }
};

// What is in a page can be had without one.
TEST_F(Program, ReportSaysHowToHavePagesWhereThereAreNone) {
  const Outcome page = run("report --model gpt2 --gpus 8" + kQuick);
  const auto missing = reports::missing_pages();
  EXPECT_EQ(page.status, missing ? 2 : 0);
  if (missing) {
    EXPECT_EQ(page.messages, "llmsim: " + *missing + "\n");
  }
  EXPECT_EQ(run("report --model gpt2 --gpus 8 --format json" + kQuick).status, 0);
}

TEST_F(Report, WritesOnePageForAQuestion) {
  const Outcome outcome = run("report --model gpt2 --gpus 8 -o page.html" + kQuick);
  ASSERT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_EQ(outcome.out, "");
  const std::string page = text_of("page.html");
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  EXPECT_TRUE(page.ends_with("</html>\n"));
  EXPECT_NE(page.find("\"step_time_s\":"), std::string::npos);
}

TEST_F(Report, PrintsWhatIsInThePage) {
  const Outcome json = run("report --model gpt2 --gpus 8 --format json" + kQuick);
  ASSERT_EQ(json.status, 0) << json.messages;
  for (const char* key : {"\"plans\":", "\"others\":", "\"pareto\":", "\"step\":", "\"timeline\":",
                          "\"roofline\":", "\"facts\":", "\"scaling\": []"})
    EXPECT_NE(json.out.find(key), std::string::npos) << key;
}

TEST_F(Report, PlansFewerAndMoreDevicesWithTheSameBatch) {
  const Outcome json =
      run("report --model gpt2 --gpus 2 --global-batch 64 --format json --recompute none "
          "--micro-batch 1");
  ASSERT_EQ(json.status, 0) << json.messages;
  std::size_t plans = 0;  // on 1, 2, 4 and 8 devices
  for (std::size_t at = json.out.find("\"plan\": {"); at != std::string::npos;
       at = json.out.find("\"plan\": {", at + 1))
    ++plans;
  EXPECT_EQ(plans, 4u);
}

TEST_F(Report, OfARunRecordSearchesNothing) {
  const Outcome predicted = run("predict --model gpt2 --gpus 8 --format json");
  ASSERT_EQ(predicted.status, 0);
  // The record is the object "run" of a prediction: its first, up to the line that closes it.
  const std::size_t begin = predicted.out.find("{", 1);
  const std::size_t end = predicted.out.find("\n  },", begin) + 4;
  write("run.json", predicted.out.substr(begin, end - begin));
  const Outcome page = run("report --run run.json");
  ASSERT_EQ(page.status, 0) << page.messages;
  EXPECT_EQ(page.out.find("\"evaluated\":"), std::string::npos);
  EXPECT_NE(page.out.find("\"timeline\":"), std::string::npos);
  for (const char* other : {"--hardware mi300x", "--seq-len 512", "--tp 2", "--top 3", "--fit"})
    EXPECT_EQ(run(std::string("report --run run.json ") + other).status, 2) << other;
  EXPECT_EQ(run("report --run run.json --tokens 1T").status, 0);
  EXPECT_EQ(run("report --validation --hardware mi300x").status, 2);
}

// A page goes to others: where the database, the model's file, a run's file and a description of
// hardware lie on this machine is in none.
TEST_F(Report, HasNoPathsOfTheMachineThatMadeIt) {
  std::filesystem::create_directories(path("some/unusual/place"));
  write("some/unusual/place/config.json",
        R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 512,
            "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
            "vocab_size": 1000, "max_position_embeddings": 1024})");
  write("some/unusual/place/hardware.json",
        R"({"accelerators": [{"id": "mine", "name": "Mine", "like": "h100_sxm",
            "source": "own", "hbm_bytes": 6e10, "hbm_bytes_per_s": 3e12, "peak_bf16_flops": 9e14}]})");
  const std::string in = "'" + path("some/unusual/place/"), db = " --db " + in + "x.db'";
  ASSERT_EQ(run("hardware add " + in + "hardware.json'" + db).status, 0) << text_of("messages");
  const Outcome predicted = run("predict --model gpt2 --gpus 8 --format json" + db);
  const std::size_t begin = predicted.out.find("{", 1);
  write("some/unusual/place/run.json",
        predicted.out.substr(begin, predicted.out.find("\n  },", begin) + 4 - begin));
  const std::string question = "--model " + in + "config.json' --hardware mine --gpus ";
  const std::string with_job = " --tokens 1T --sensitivity";
  for (const std::string& asked : {question + "8" + kQuick + with_job, question + "4,8" + kQuick,
                                   "--run " + in + "run.json'" + with_job.substr(0, 12)}) {
    for (const char* format : {"html", "json"}) {
      const Outcome page = run("report " + asked + " --format " + format + db);
      ASSERT_EQ(page.status, 0) << asked << page.messages;
      EXPECT_EQ(page.out.find("unusual"), std::string::npos)
          << asked << ": " << page.out.substr(page.out.find("unusual") - 60, 120);
      EXPECT_NE(page.out.find("x.db, facts of "), std::string::npos);
    }
  }
}

TEST_F(Report, SaysNoOnThePageAndInItsStatus) {
  const Outcome outcome = run("report --model llama-70b --gpus 1" + kQuick);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.messages.find("nothing fits"), std::string::npos);
  EXPECT_NE(outcome.out.find("\"rejected\":"), std::string::npos);
}

TEST_F(Report, AnswersSeveralQuestionsAndDrawsTheStepOfTheBest) {
  const Outcome outcome = run("report --model gpt2 --gpus 4,8 --format json" + kQuick);
  ASSERT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_NE(outcome.out.find("\"best\": 1"), std::string::npos);
  const std::size_t step = outcome.out.find("\"timeline\": {");
  EXPECT_NE(step, std::string::npos);
  EXPECT_EQ(outcome.out.find("\"timeline\": {", step + 1), std::string::npos);
}

TEST_F(Report, SaysNoWhereNoQuestionHasAnAnswer) {
  EXPECT_EQ(run("report --model gpt2 --gpus 1,2 --tokens 1T --deadline 0.001" + kQuick).status, 3);
}

TEST_F(Report, NeedsAQuestionOrARun) {
  EXPECT_EQ(run("report").status, 2);
  EXPECT_EQ(run("report --model gpt2").status, 2);
  EXPECT_EQ(run("report --model gpt2 --gpus 8 --format pdf").status, 1);
}

}  // namespace
}  // namespace llmsim::cli
