#include "reports/page/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "reports/page/page_files.h"
#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::reports {
namespace {

using nlohmann::ordered_json;

// Where the libraries of pages could not be had there are none to test.
class Page : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto missing = missing_pages()) GTEST_SKIP() << *missing;
  }
};

const std::string kDataBegin = "<script id=\"data\" type=\"application/json\">";

// Two tensor ranks, four stages, two data ranks; the same with half the micro-batch second.
PlanAnswer answer() {
  sim::Run run = sim::small_run(16);
  run.strategy.tp = 2, run.strategy.pp = 4, run.strategy.dp = 2, run.strategy.global_batch = 8;
  PlanAnswer answer;
  answer.query.base = run;
  answer.plan.plans = {sim::predict(run)};
  run.strategy.micro_batch = 2;
  answer.plan.others = {sim::predict(run)};
  answer.plan.pareto = answer.plan.plans;
  answer.plan.evaluated = 2, answer.plan.feasible = 2, answer.plan.priced = 2;
  answer.step = step_detail(answer.plan.plans.front());
  answer.scaling = {{8, std::nullopt}, {16, answer.plan.plans.front()}};
  answer.command = "llmsim predict --model small";
  return answer;
}

std::size_t data_begin(const std::string& page) {
  return page.find(kDataBegin) + kDataBegin.size();
}

std::string data_of(const std::string& page) {
  const std::size_t begin = data_begin(page);
  return page.substr(begin, page.find("</script>", begin) - begin);
}

// The page without its data: frame, style and script.
std::string dress_of(const std::string& page) {
  std::string dress = page;
  return dress.erase(data_begin(page), data_of(page).size());
}

TEST_F(Page, HoldsTheJsonOfThePlan) {
  const PlanAnswer plan = answer();
  EXPECT_EQ(ordered_json::parse(data_of(page(plan))),
            ordered_json::parse(render(plan, Format::Json)));
}

TEST_F(Page, HoldsTheJsonOfAPrediction) {
  const sim::Prediction prediction = answer().plan.plans.front();
  const PredictionExtras extras{.step = step_detail(prediction)};
  const Provenance provenance{.database = "facts of today"};
  EXPECT_EQ(ordered_json::parse(data_of(page(prediction, provenance, extras))),
            ordered_json::parse(render(prediction, provenance, Format::Json, {}, extras)));
}

TEST_F(Page, HoldsTheJsonOfSeveralQuestions) {
  PlanComparison comparison{.keys = {"gpus"}, .plans = {{{"16"}, answer()}, {{"32"}, answer()}}};
  comparison.plans[1].answer.plan.plans.clear();
  comparison.plans[1].answer.step.reset();
  const std::string text = page(comparison);
  const ordered_json data = ordered_json::parse(data_of(text));
  EXPECT_EQ(data, ordered_json::parse(render(comparison, Format::Json)));
  EXPECT_EQ(data["best"], 0);
  EXPECT_EQ(data["plans"][0]["answers"], true);
  EXPECT_EQ(data["plans"][1]["answers"], false);
}

TEST_F(Page, HoldsAnAnswerWithoutAPlanToo) {
  PlanAnswer nothing;
  nothing.query.base = answer().query.base;
  nothing.plan.rejected = {{"out of memory", 7}};
  EXPECT_EQ(ordered_json::parse(data_of(page(nothing)))["rejected"]["out of memory"], 7);
}

// The policy keeps the browser from asking, whatever the libraries would; the page's own parts do
// not even try.  Links lead to its own sections.
TEST_F(Page, AsksTheNetworkForNothing) {
  EXPECT_NE(page(answer()).find("content=\"default-src 'none';"), std::string::npos);
  const std::string own =
      std::string(page_frame()) + std::string(page_style()) + std::string(page_script());
  for (const char* word : {"http:", "https:", "src=", "url(", "@import", "import ", "import(",
                           "fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon"})
    EXPECT_EQ(own.find(word), std::string::npos) << word;
  for (std::size_t at = own.find("href="); at != std::string::npos; at = own.find("href=", at + 1))
    EXPECT_EQ(own.substr(at, 7), "href=\"#");
}

TEST_F(Page, IsSmallerThan800KilobytesWithoutItsData) {
  EXPECT_LT(dress_of(page(answer())).size(), 800'000u);
}

TEST_F(Page, FillsItsPlaceholdersOnce) {
  const std::string text = page(answer());
  for (std::string_view rest = page_frame(); rest.find("{{") != std::string_view::npos;) {
    const std::size_t begin = rest.find("{{"), end = rest.find("}}") + 2;
    EXPECT_EQ(text.find(rest.substr(begin, end - begin)), std::string::npos);
    rest.remove_prefix(end);
  }
  EXPECT_EQ(text.find(kDataBegin), text.rfind(kDataBegin));
  EXPECT_NE(text.find("color-scheme"), std::string::npos);  // of the style
  EXPECT_NE(text.find("JSON.parse"), std::string::npos);    // of the script
}

TEST_F(Page, NothingInTheDataEndsTheirElement) {
  PlanAnswer plan = answer();
  const std::string name = "</script><script>alert(1)</script> {{script}} <!-- & \xE2\x80\xA8";
  plan.plan.plans.front().run.model.name = name;
  const std::string data = data_of(page(plan));
  EXPECT_EQ(data.find('<'), std::string::npos);
  EXPECT_EQ(ordered_json::parse(data)["plans"][0]["run"]["model"]["name"], name);
}

// Each that npm fetches for them, but for those that only bundle.
TEST(PageLicences, NameEveryLibrary) {
  std::ifstream file(LLMSIM_SOURCE_DIR "/reports/page/package-lock.json");
  const ordered_json lock = ordered_json::parse(file);
  const std::string licences(page_licences());
  const std::string folder = "node_modules/";
  int libraries = 0;
  for (const auto& [path, package] : lock["packages"].items()) {
    EXPECT_FALSE(package.contains("resolved")) << path;  // an address
    if (!path.starts_with(folder) || package.contains("dev")) continue;
    ++libraries;
    EXPECT_NE(licences.find(" " + path.substr(folder.size())), std::string::npos) << path;
  }
  EXPECT_GT(libraries, 4);
}

TEST(StepJson, TimelineStartsAndEndsWithTheStep) {
  const PlanAnswer plan = answer();
  const ordered_json timeline = ordered_json::parse(render(plan, Format::Json))["step"]["timeline"];
  ASSERT_EQ(timeline["stages"].size(), 4u);
  double last = 0.0;
  for (const ordered_json& stage : timeline["stages"]) {
    EXPECT_EQ(stage["streams"][0]["stream"], "compute");
    for (const ordered_json& event : stage["streams"][0]["events"])
      last = std::max(last, event[2].get<double>() + event[3].get<double>());
  }
  EXPECT_NEAR(last, timeline["step_time_s"].get<double>(), 2e-9);  // to the nanosecond
  EXPECT_EQ(timeline["drawn_microbatches"], 4);                    // 8 sequences on 2 replicas
}

TEST(StepJson, KernelsHaveTheirPlaceOnTheRoofline) {
  const ordered_json step = ordered_json::parse(render(answer(), Format::Json))["step"];
  ASSERT_FALSE(step["gemm"].empty());
  for (const ordered_json& gemm : step["gemm"]) {
    const double flops = 2.0 * gemm["batch"].get<double>() * gemm["m"].get<double>() *
                         gemm["n"].get<double>() * gemm["k"].get<double>();
    EXPECT_EQ(gemm["flops"].get<double>(), flops);
    EXPECT_GT(gemm["moved_bytes"].get<double>(), 0.0);
  }
  EXPECT_EQ(step["roofline"]["peak_flops_per_s"], 100e12);
  EXPECT_EQ(step["roofline"]["memory_bytes_per_s"], 1e12);
}

TEST(PlanJson, ScalingHasNoPlanWhereNothingFits) {
  const ordered_json scaling = ordered_json::parse(render(answer(), Format::Json))["scaling"];
  EXPECT_EQ(scaling[0]["num_devices"], 8);
  EXPECT_TRUE(scaling[0]["plan"].is_null());
  EXPECT_EQ(scaling[1]["plan"]["run"]["hardware"]["num_devices"], 16);
}

TEST(PredictionJson, PartsAddUpToTheStepTime) {
  const ordered_json plan = ordered_json::parse(render(answer(), Format::Json))["plans"][0];
  double sum = 0.0;
  for (const auto& part : plan["parts_s"]) sum += part.get<double>();
  EXPECT_NEAR(sum, plan["step_time_s"].get<double>(), 1e-9 * sum);
}

}  // namespace
}  // namespace llmsim::reports
