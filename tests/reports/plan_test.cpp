#include "reports/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/reports/sample_prediction.h"

namespace llmsim::reports {
namespace {

using nlohmann::json;

// The sample (pp 2, dp 4; 4 s), the same mesh with more recomputation (4.2 s), and tp 2 with zero1
// (5 s: it computes 1.5 s longer and has half a second less bubble).
PlanAnswer sample_answer() {
  PlanAnswer answer;
  answer.query.base = sample_run();
  answer.query.restriction["tp"] = {1, 2};
  sim::Prediction same_mesh = sample_prediction();
  same_mesh.run.strategy.recompute = {.kind = sim::RecomputeKind::Full};
  same_mesh.step_time = sim::Seconds(4.2);
  same_mesh.breakdown[0].time = sim::Seconds(2.7);
  sim::Prediction other = sample_prediction();
  other.run.strategy.tp = 2;
  other.run.strategy.pp = 1;
  other.run.strategy.sharding = sim::Sharding::Zero1;
  other.step_time = sim::Seconds(5.0);
  other.breakdown = {{"compute", sim::Seconds(4.0)},
                     {"bubble", sim::Seconds(0.5)},
                     {"dp_exposed", sim::Seconds(0.5)}};
  other.memory.peak = 2 * sim::GiB;
  answer.plan.plans = {sample_prediction(), same_mesh, other};
  answer.plan.pareto = {sample_prediction(), other};
  answer.plan.evaluated = 1005;
  answer.plan.feasible = 3;
  answer.plan.priced = 2;
  answer.plan.rejected = {{"out of memory", 1000}, {"tp does not divide num_heads", 2}};
  answer.plan.nearest = {{"out of memory", other.run.strategy, 12 * sim::GiB, 10 * sim::GiB}};
  answer.shown = 2;
  answer.duration = sim::Seconds(0.25);
  answer.command = "llmsim predict --model toy";
  answer.provenance.database = "facts of today";
  return answer;
}

std::string screen(PlanAnswer answer, bool verbose) {
  answer.verbose = verbose;
  return render(answer, Format::Table);
}

TEST(PlanScreen, SaysWhatOthersLoseAndGain) {
  const std::string text = screen(sample_answer(), false);
  EXPECT_NE(
      text.find("1,005 strategies in 250.0 ms: 2 simulated, 1 ruled out by bounds, 1,000 out"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("1.25x  tp 2"), std::string::npos) << text;  // 5 s / 4 s
  // 4.0 - 2.5 and 1.0 - 0.5.
  EXPECT_NE(text.find("loses: compute 1.500 s; gains: bubble 500.0 ms"), std::string::npos) << text;
}

TEST(PlanScreen, IsAHundredColumnsWideAndOneScreenLong) {
  PlanAnswer answer = sample_answer();
  answer.plan.tight = answer.plan.nearly_fits = answer.plan.plans.back();
  answer.plan.plans[0].run.strategy.recompute =
      *sim::recompute_from("selective=core_attn+mlp+moe+layernorm+activation");
  answer.command = "llmsim predict " + std::string(60, 'a') + " " + std::string(60, 'b');
  const std::string text = screen(answer, false);
  std::size_t lines = 0;
  for (std::size_t from = 0; from < text.size(); ++lines) {
    const std::size_t to = text.find('\n', from);
    EXPECT_LE(to - from, 100u) << text.substr(from, to - from);
    from = to + 1;
  }
  EXPECT_LE(lines, 60u);
}

// 11 GiB of 10.
TEST(PlanScreen, SaysWhatNearlyFitsAndWhatItMisses) {
  PlanAnswer answer = sample_answer();
  sim::Prediction nearly = answer.plan.plans.front();
  nearly.step_time = 0.9 * nearly.step_time;
  nearly.memory.peak = 11 * sim::GiB, nearly.memory.margin = nearly.memory.context = {};
  nearly.memory.capacity = 10 * sim::GiB;
  answer.plan.nearly_fits = nearly;
  const std::string text = screen(answer, false);
  EXPECT_NE(text.find("faster, but does not fit: "), std::string::npos) << text;
  EXPECT_NE(text.find("(-10 %)"), std::string::npos) << text;
  EXPECT_NE(text.find("11.00 GiB"), std::string::npos) << text;
  EXPECT_EQ(screen(sample_answer(), false).find("does not fit"), std::string::npos);
  EXPECT_EQ(json::parse(render(answer, Format::Json))["nearly_fits"]["step_time_s"], 3.6);
}

TEST(PlanScreen, MarksTies) {
  PlanAnswer answer = sample_answer();
  answer.plan.ties = 2;
  const std::string text = screen(answer, false);
  EXPECT_NE(text.find("\n1="), std::string::npos) << text;
  EXPECT_NE(text.find("which of them is the fastest is not sure"), std::string::npos) << text;
}

TEST(PlanScreen, SaysFirstThatNoPlanLeavesTheHeadroom) {
  PlanAnswer answer = sample_answer();
  answer.plan.headroom = 0.0;
  EXPECT_NE(screen(answer, false).find("verdict       no plan is safe: they fit with "),
            std::string::npos);
  answer.query.headroom = 0.0;  // as was asked
  EXPECT_EQ(screen(answer, false).find("no plan is safe"), std::string::npos);
  answer.query.headroom.reset();
  answer.plan.headroom = 0.125;
  EXPECT_EQ(screen(answer, false).find("no plan is safe"), std::string::npos);
}

// A plan that is 10 % faster and takes stages of three layers and one, as a row and where it beats
// the first.
TEST(PlanScreen, SaysWhatADearerPlanGainsAndTakes) {
  PlanAnswer answer = sample_answer();
  sim::Prediction dearer = answer.plan.plans.front();
  dearer.step_time = 0.9 * dearer.step_time;
  dearer.run.strategy.stage_layers = {3, 1};
  answer.plan.dearer = {dearer};
  std::string text = screen(answer, false);
  EXPECT_NE(text.find("smaller and 10 % faster with "), std::string::npos) << text;
  EXPECT_NE(text.find("stages with different numbers"), std::string::npos) << text;
  EXPECT_EQ(json::parse(render(answer, Format::Json))["dearer"].size(), 1U);
  answer.plan.plans.push_back(dearer);
  answer.plan.dearer.clear();
  answer.shown = answer.plan.plans.size();
  text = screen(answer, false);
  EXPECT_NE(text.find("is 10 % faster with "), std::string::npos) << text;
  EXPECT_EQ(screen(sample_answer(), false).find("% faster with"), std::string::npos);
  const json odds = json::parse(render(answer, Format::Json))["faster_than_first"];
  EXPECT_EQ(odds.front(), 0.5);
  EXPECT_GT(odds.back(), 0.5);
}

TEST(PlanScreen, SaysWhatAssumedSwitchesAreWorth) {
  PlanAnswer answer = sample_answer();
  answer.assumed_switches = {{"gradient_overlap", true, 1.08}, {"compile", false, 0.995}};
  const std::string text = screen(answer, false);
  EXPECT_NE(text.find("gradient_overlap on (+8.0 % without)"), std::string::npos) << text;
  EXPECT_EQ(text.find("compile off"), std::string::npos) << text;  // less than a per cent
}

TEST(PlanScreen, CountsFailuresWithTheNearestMissOnRequest) {
  const std::string text = screen(sample_answer(), true);
  EXPECT_NE(text.find("out of memory                   1000  tp 2, dp 4, sharding "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("12.00         10.00"), std::string::npos) << text;
  EXPECT_EQ(screen(sample_answer(), false).find("nearest miss"), std::string::npos);
}

TEST(PlanScreen, PrintsEveryAssumptionOnRequest) {
  EXPECT_NE(screen(sample_answer(), true).find("assumed: training length"), std::string::npos);
}

TEST(PlanJson, HasTheDocumentedKeys) {
  const json document = json::parse(render(sample_answer(), Format::Json));
  EXPECT_EQ(document["evaluated"], 1005);
  EXPECT_EQ(document["feasible"], 3);
  EXPECT_EQ(document["rejected"],
            json({{"out of memory", 1000}, {"tp does not divide num_heads", 2}}));
  EXPECT_EQ(document["seconds"], 0.25);
  EXPECT_EQ(document["query"]["search"]["tp"], json({1, 2}));
  EXPECT_EQ(document["query"]["search"]["pp"], "any");
  ASSERT_EQ(document["plans"].size(), 2u);  // of three, as asked
  EXPECT_EQ(document["plans"][0]["step_time_s"], 4.0);
  EXPECT_EQ(document["plans"][0]["memory"]["stages"].size(), 2u);
  EXPECT_EQ(document["pareto"][1]["step_time_s"], 5.0);
  EXPECT_EQ(document["nearest"][0]["needed_bytes"], 12.0 * (1 << 30));
}

TEST(PlanCsv, IsTheRankingAlone) {
  const std::string text = render(sample_answer(), Format::Csv);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);  // header and two plans
}

TEST(PlanScreen, NothingFitsSaysSoWithTheReasons) {
  PlanAnswer answer = sample_answer();
  answer.plan.plans.clear();
  answer.plan.pareto.clear();
  answer.plan.feasible = answer.plan.priced = 0;
  const std::string text = render(answer, Format::Table);
  EXPECT_NE(text.find("nothing fits"), std::string::npos);
  EXPECT_NE(text.find("out of memory"), std::string::npos);
  EXPECT_EQ(json::parse(render(answer, Format::Json))["plans"].size(), 0u);
}

}  // namespace
}  // namespace llmsim::reports
