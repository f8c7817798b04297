// llmsim calibrate site and show, and what predict, plan and trace make of a site.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "tests/cli/program.h"
#include "tests/cli/site_run.h"

namespace llmsim::cli {
namespace {

constexpr const char* kSiteRun =
    "--model llama-3-8b --seq-len 4096 --gpus 16 --hardware h100_sxm --framework fsdp2 "
    "--global-batch 64";
constexpr const char* kLayout = " --tp 1 --pp 1 --cp 1 --micro-batch 1 --sharding zero3";

// The first number under a key, after the key `from` where that is given.
double number(const std::string& json, const std::string& key, const std::string& from = "") {
  const std::size_t begin = from.empty() ? 0 : json.find(from);
  const std::string mark = "\"" + key + "\":";
  const std::size_t at = begin == std::string::npos ? begin : json.find(mark, begin);
  if (at == std::string::npos) {
    ADD_FAILURE() << key << " is missing in " << json;
    return 0.0;
  }
  return std::strtod(json.c_str() + at + mark.size(), nullptr);
}

// ln(highest / lowest) of a prediction.
double width(const std::string& json) {
  const std::size_t list = json.find('[', json.find("\"step_time_interval_s\""));
  char* end = nullptr;
  const double lowest = std::strtod(json.c_str() + list + 1, &end);
  return std::log(std::strtod(end + 1, nullptr) / lowest);
}

class CalibrateSite : public Program {
 protected:
  std::string answer(const std::string& arguments) const {
    const Outcome outcome = run(arguments + " --format json");
    EXPECT_EQ(outcome.status, 0) << arguments << "\n" << outcome.messages;
    return outcome.out;
  }

  double predicted(const std::string& site) const {
    return number(answer(std::string("predict ") + kSiteRun + kLayout + site), "step_time_s");
  }

  // A run that takes a fifth longer than predicted.
  void store() const {
    write("slow.json", run_text("slow", 1.2 * predicted("")));
    const Outcome outcome = run("calibrate site ours slow.json");
    EXPECT_EQ(outcome.status, 0) << outcome.messages;
    EXPECT_EQ(outcome.messages, "");
  }
};

TEST_F(CalibrateSite, PredictMovesTowardsTheMeasurement) {
  const double before = predicted("");
  store();
  const double after = predicted(" --site ours");
  EXPECT_GT(after, 1.1 * before);
  EXPECT_LT(after, 1.2 * before);
  EXPECT_EQ(predicted(""), before);
  const std::string with = answer("predict slow.json --site ours"),
                    without = answer("predict slow.json");
  EXPECT_NEAR(number(with, "step_time_s"), after, 1e-9);
  EXPECT_LT(width(with), 0.85 * width(without));
  EXPECT_NE(with.find("site fit (calibrate/site_fit.h) to 1 run"), std::string::npos);
  EXPECT_NE(run("predict slow.json --site ours --verbose").out.find("site.ours.memory_rate"),
            std::string::npos);
  EXPECT_EQ(run("trace slow.json --site ours -o trace.json").status, 0);
}

// One run does not tell how noisy the site is, three do.
TEST_F(CalibrateSite, IntervalsNarrowWithRuns) {
  store();
  for (const char* id : {"again", "once_more"})
    write(std::string(id) + ".json", run_text(id, 1.2 * predicted("")));
  EXPECT_EQ(run("calibrate site three slow.json again.json once_more.json").status, 0);
  EXPECT_LT(width(answer("predict slow.json --site three")),
            0.8 * width(answer("predict slow.json --site ours")));
}

TEST_F(CalibrateSite, PlanAndPredictAgree) {
  store();
  const std::string plan =
      answer(std::string("plan ") + kSiteRun + kLayout + " --recompute none --top 1 --site ours");
  EXPECT_NEAR(number(plan, "step_time_s", "\"plans\""), predicted(" --site ours"), 1e-9);
}

// Of layouts that the site has not measured, too.
TEST_F(CalibrateSite, PlanAndPredictAgreeOnOtherLayouts) {
  store();
  const std::string run = std::string(kSiteRun) + " --tp 2 --micro-batch 2 --sharding zero1";
  const std::string plan = answer("plan " + run + " --pp 1 --cp 1 --recompute none --site ours");
  const std::string predict =
      answer("predict " + run + " --pp 1 --cp 1 --recompute none --sequence-parallel --site ours");
  EXPECT_NEAR(number(plan, "step_time_s", "\"plans\""), number(predict, "step_time_s"), 1e-9);
  // What is known of a layout is less the further it is from those of the site's runs.
  EXPECT_GT(width(predict),
            width(answer(std::string("predict ") + kSiteRun + kLayout + " --site ours")));
}

TEST_F(CalibrateSite, SuggestsWhatToMeasureNext) {
  store();
  write("large.json", run_text("large", 0.0, 256));
  const Outcome outcome =
      run("calibrate site ours slow.json --replace --suggest large.json --format csv");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  const std::size_t now = outcome.out.find("\nnothing more,16,"),
                    next = outcome.out.find("\nthis,");
  ASSERT_NE(now, std::string::npos) << outcome.out;
  ASSERT_NE(next, std::string::npos) << outcome.out;
  const auto ratio = [&](std::size_t row) {
    const std::size_t end = outcome.out.find('\n', row + 1);
    return std::strtod(outcome.out.c_str() + outcome.out.rfind(',', end) + 1, nullptr);
  };
  EXPECT_LT(ratio(next), ratio(now));
  EXPECT_GT(ratio(next), 1.0);
}

TEST_F(CalibrateSite, ShowListsAndDescribes) {
  EXPECT_NE(run("calibrate show").out.find("none in"), std::string::npos);
  store();
  const std::string list = answer("calibrate show");
  EXPECT_GT(number(list, "step"), 0.05);
  for (const char* text : {"\"site\": \"ours\"", "\"fitted_from\": \"1 run: slow\""})
    EXPECT_NE(list.find(text), std::string::npos) << text << list;
  const Outcome one = run("calibrate show ours --format csv");
  for (const char* text : {"\ncell/h100_sxm/fsdp2/bf16/dense,0.0", "\nstep,", "\nmemory_rate,",
                           "\nnetwork_rate,", "\nhost_time,", "\nerrors.site,"})
    EXPECT_NE(one.out.find(text), std::string::npos) << text << one.out;
}

TEST_F(CalibrateSite, ABrokenRunIsNamed) {
  std::string runs;
  for (int i = 1; i <= 6; ++i)
    runs += (i > 1 ? ", " : "") + run_text("run" + std::to_string(i), i == 4 ? 90.0 : 3.0);
  write("six.json", R"({"schema": 2, "group": "ours", "runs": [)" + runs + "]}");
  const Outcome outcome = run("calibrate site ours six.json");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.messages.find("hardly count: run4; check"), std::string::npos)
      << outcome.messages;
}

TEST_F(CalibrateSite, MistakesAreOneLine) {
  const auto expect_error = [&](const std::string& arguments, const std::string& text) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_EQ(outcome.out, "");
    EXPECT_NE(outcome.messages.find(text), std::string::npos) << outcome.messages;
    EXPECT_EQ(std::ranges::count(outcome.messages, '\n'), 1) << outcome.messages;
  };
  store();
  write("untimed.json", run_text("untimed", 0.0));
  expect_error("calibrate site other untimed.json",
               "untimed.json: no measured step time and no peak");
  expect_error("calibrate site ours slow.json", "NAME = ours: is taken by a stored site");
  expect_error("calibrate site slow.json slow.json", "NAME = slow.json: is a file");
  expect_error("calibrate site other no-such.json", "no-such.json: no such file");
  expect_error("predict slow.json --site our", "unknown site 'our'; did you mean ours?");
  expect_error("calibrate show our", "did you mean ours?");
  EXPECT_EQ(run("calibrate site ours slow.json --replace").status, 0);
}

TEST_F(CalibrateSite, APeakMovesPeaksAndNoStepTime) {
  const std::string predict = std::string("predict ") + kSiteRun + kLayout,
                    before = answer(predict);
  const double peak = number(before, "peak_bytes", "\"memory\"");
  write("peak.json", peak_text("peak", 1.2 * peak, "allocated"));
  const Outcome outcome = run("calibrate site ours peak.json");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_NE(outcome.out.find("Peak memory of its runs"), std::string::npos) << outcome.out;
  const std::string after = answer(predict + " --site ours");
  EXPECT_GT(number(after, "peak_bytes", "\"memory\""), 1.1 * peak);
  EXPECT_LT(number(after, "peak_bytes", "\"memory\""), 1.2 * peak);
  EXPECT_NE(number(after, "fit_probability", "\"memory\""),
            number(before, "fit_probability", "\"memory\""));
  EXPECT_EQ(number(after, "step_time_s"), number(before, "step_time_s"));
  EXPECT_NE(run(predict + " --site ours --verbose").out.find("site.ours.memory.allocated"),
            std::string::npos);
}

TEST_F(CalibrateSite, RowsOfAPlanHaveThePeaksThatPredictSays) {
  write("peak.json", peak_text("peak", 60e9, "device"));
  ASSERT_EQ(run("calibrate site ours peak.json").status, 0);
  const std::string plan =
      answer(std::string("plan ") + kSiteRun + kLayout + " --recompute none --top 1 --site ours");
  const std::string predicted =
      answer(std::string("predict ") + kSiteRun + kLayout + " --site ours");
  for (const char* key : {"peak_bytes", "fit_probability"})
    EXPECT_NEAR(number(plan, key, "\"plans\"") / number(predicted, key, "\"memory\""), 1.0, 1e-9)
        << key;
}

TEST_F(CalibrateSite, LearningCurveIsATable) {
  std::string runs;
  for (int i = 1; i <= 6; ++i)
    runs += (i > 1 ? ", " : "") + run_text("run" + std::to_string(i), 0.9 * i, 16 * i);
  for (const char* group : {"a", "b"})
    write(group + std::string(".json"),
          R"({"schema": 2, "group": ")" + std::string(group) + R"(", "runs": [)" + runs + "]}\n");
  const std::string table = answer("calibrate fit --learning-curve a.json b.json");
  EXPECT_LT(number(table, "site_error", "\"runs\": 5"), number(table, "site_error"));
}

}  // namespace
}  // namespace llmsim::cli
