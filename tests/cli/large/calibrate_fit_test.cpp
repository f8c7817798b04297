// llmsim calibrate fit, on a file of three small studies.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

std::string run_of(const std::string& id, const std::string& accelerator, double step_time) {
  std::ostringstream text;
  text
      << R"({"id": ")" << id << R"(", "model": {"name": "llama-3-8b", "seq_len": 2048}, )"
      << R"("hardware": {"accelerator": ")" << accelerator << R"(", "num_devices": 8}, )"
      << R"("training": {"framework": "pytorch", "precision": "bf16", "sharding": "zero3", )"
      << R"("micro_batch": 1, "global_batch": 16}, "measured": {"step_time_s": )" << step_time
      << R"(, "outcome": "ok"}, "scored": {"step_time": true, "memory": false, "outcome": false}})";
  return text.str();
}

std::string study(const std::string& group, const std::string& runs) {
  return R"({"schema": 2, "group": ")" + group + R"(", "runs": [)" + runs + "]}\n";
}

class CalibrateFit : public Program {
 protected:
  CalibrateFit() {
    write("a.json", study("a", run_of("a1", "h100_sxm", 1.1) + ", " + run_of("a2", "h100_sxm", 1)));
    write("b.json", study("b", run_of("b1", "a100_sxm_80", 2.5)));
    write("c.json", study("c", run_of("c1", "h100_sxm", 1.3)));
  }

  Outcome fit(const std::string& arguments) const { return run("calibrate fit " + arguments); }
};

constexpr const char* kStudies = "a.json b.json c.json ";

TEST_F(CalibrateFit, PrintsErrorsOfStudiesAndSpreadsOfLevels) {
  const Outcome outcome = fit(kStudies + std::string("--format csv"));
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_EQ(outcome.messages, "");
  for (const char* text :
       {"group,runs,prior_error,fitted_error,left_out_error,left_out_bias,coverage\n", "\na,2,",
        "\nb,1,", "\nc,1,", "\nmean,4,", "level,effects,spread\n", "\nall frameworks,1,0.15\n",
        "\nstudy,3,", "\nrun,,"})
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text << "\n" << outcome.out;
}

TEST_F(CalibrateFit, EffectsComeWithTheStudiesThatMoveThem) {
  const std::string arguments = kStudies + std::string("--format csv");
  EXPECT_EQ(fit(arguments).out.find("moved_by"), std::string::npos);
  const Outcome outcome = fit(arguments + " --effects");
  EXPECT_NE(outcome.out.find("level,id,mean,deviation,moved_by\n"), std::string::npos)
      << outcome.out;
  EXPECT_NE(outcome.out.find("\nframework,pytorch,"), std::string::npos) << outcome.out;
}

TEST_F(CalibrateFit, JsonHasTheRowsOfTheFit) {
  const Outcome outcome = fit(kStudies + std::string("--format json"));
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_TRUE(outcome.out.starts_with("{\n \"coefficients\": [")) << outcome.out.substr(0, 100);
  for (const char* text :
       {R"("key": "training_rate")", R"("key": "training_rate_error")", R"("key": "efficiency")",
        R"("key": "errors.site")", R"("fitted_from": "step times of 3 groups)"})
    EXPECT_NE(outcome.out.find(text), std::string::npos) << text;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST_F(CalibrateFit, RowsOfAnEarlierFitAreReplacedAndTheRestStays) {
  const std::string shipped = content_of(LLMSIM_SOURCE_DIR "/hwdb/facts/coefficients.json");
  write("coefficients.json", shipped);
  const std::string arguments = kStudies + std::string("--coefficients coefficients.json");
  ASSERT_EQ(fit(arguments).status, 0);
  const std::string once = text_of("coefficients.json");
  EXPECT_NE(once, shipped);
  for (const char* key : {R"("key": "gemm.bf16.max_efficiency")", R"("key": "sustained_clock")",
                          R"("key": "training_rate")"})
    EXPECT_EQ(count(once, key), count(shipped, key)) << key;
  EXPECT_GT(count(once, "step times of 3 groups"), 0);
  const int of_ratios = count(once, " studies with several layouts");
  EXPECT_EQ(of_ratios, count(shipped, " studies with several layouts"));
  const int of_layouts = count(once, R"("scope": "layout")");
  EXPECT_EQ(of_layouts, count(shipped, R"("scope": "layout")"));
  EXPECT_EQ(count(once, "step times of ") - count(once, "step times of all groups") - of_ratios -
                of_layouts,
            count(once, "step times of 3 groups"));
  ASSERT_EQ(fit(arguments).status, 0);
  EXPECT_EQ(text_of("coefficients.json"), once);
}

// Ends with status 1 and one line that holds `text`.
void expect_error(const Outcome& outcome, const std::string& text) {
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.messages.find(text), std::string::npos) << outcome.messages;
  EXPECT_EQ(std::ranges::count(outcome.messages, '\n'), 1) << outcome.messages;
}

TEST_F(CalibrateFit, MistakesAreOneLine) {
  expect_error(fit("no-such.json"), "no-such.json: no such file");
  write("broken.json", "{\"schema\": 2, \"group\"");
  expect_error(fit("broken.json"), "broken.json");
  expect_error(fit(kStudies + std::string("--coefficients no-such.json")),
               "no-such.json: cannot be read");
  write("list.json", "[]");
  expect_error(fit(kStudies + std::string("--coefficients list.json")),
               "list.json: an object with a list \"coefficients\" is expected");
  EXPECT_EQ(text_of("list.json"), "[]");
}

TEST_F(CalibrateFit, RunsWithoutATimeAreNoFit) {
  write("none.json", study("none", ""));
  expect_error(fit("none.json"), "no run with a scored step time that can be predicted");
}

}  // namespace
}  // namespace llmsim::cli
