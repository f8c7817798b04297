#include "reports/prediction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "reports/json.h"
#include "reports/result_text.h"
#include "sim/base/error.h"
#include "tests/reports/sample_prediction.h"
#include "tests/sim/sample_run.h"

namespace llmsim::reports {
namespace {

using nlohmann::json;

const Provenance kProvenance{.database = "facts of today"};

json parsed(const sim::Prediction& prediction) {
  return json::parse(render(prediction, kProvenance, Format::Json));
}

// No format may print what is no number.
const std::regex kNoNumber("\\b(nan|inf|infinity)\\b", std::regex::icase);

void expect_no_nan(const sim::Prediction& prediction) {
  for (const Format format :
       {Format::Table, Format::Markdown, Format::Csv, Format::Json, Format::Latex}) {
    const std::string text = render(prediction, kProvenance, format);
    EXPECT_FALSE(std::regex_search(text, kNoNumber)) << sim::name_of(format) << "\n" << text;
  }
}

TEST(PredictionJson, NamesTheRecipeAndWhatIsOffloaded) {
  sim::Prediction prediction = sample_prediction();
  sim::Strategy& strategy = prediction.run.strategy;
  strategy.precision = sim::Precision::Fp8;
  prediction.run.settings["fp8_recipe"] = std::string("blockwise");
  strategy.offload.activations = strategy.offload.modules.qkv =
      strategy.offload.modules.activation = true;
  strategy.offload.blocks = 4;
  const json training = parsed(prediction)["run"]["training"];
  EXPECT_EQ(training["fp8_recipe"], "blockwise");
  EXPECT_EQ(training["offload"]["modules"], json({"qkv_linear", "moe_act"}));
  EXPECT_EQ(training["offload"]["blocks"], 4);
}

TEST(PredictionJson, HasTheDocumentedKeys) {
  const json document = parsed(sample_prediction());
  for (const char* key :
       {"run", "feasible", "step_time_s", "step_time_interval_s", "interval_level",
        "tokens_per_s_per_device", "tflops_per_device", "mfu", "hfu", "conventions", "breakdown_s",
        "memory", "communication", "flops", "parameters", "provenance"}) {
    EXPECT_TRUE(document.contains(key)) << key;
  }
  EXPECT_EQ(document["feasible"], true);
  EXPECT_EQ(document["step_time_s"], 4.0);
  EXPECT_EQ(document["step_time_interval_s"], json({3.0, 5.0}));
  EXPECT_EQ(document["tflops_per_device"], 400.0);
  EXPECT_EQ(document["conventions"]["6N"], json({{"tflops_per_device", 380.0}, {"mfu", 0.38}}));
  EXPECT_EQ(document["communication"][0], json({{"collective", "all_reduce"},
                                                {"group", "dp"},
                                                {"ranks", 4},
                                                {"bytes", 1 << 30},
                                                {"count", 2},
                                                {"time_s", 1.0},
                                                {"exposed_s", 0.5}}));
  EXPECT_EQ(document["flops"], json({{"model", 6400}, {"hardware", 8000}}));
  EXPECT_FALSE(document.contains("infeasible"));
}

sim::Prediction counted_prediction() {
  sim::Prediction p = sample_prediction();
  p.peak = 1000.0 * sim::TFLOPS;
  const double devices = p.run.cluster.num_devices;
  const auto counted = [&](const char* name, double flops) {
    const sim::FlopsPerSecond rate = sim::Flops(flops) / p.step_time / devices;
    return sim::Convention{.name = name,
                           .flops_per_step = sim::Flops(flops),
                           .flops_per_device = rate,
                           .mfu = rate / p.peak};
  };
  p.model_flops = sim::Flops(1e15);
  p.conventions = {counted("palm", 2e15), counted("gemm_causal", 1e15)};
  return p;
}

TEST(ReportedFigure, IsReadByItsConvention) {
  // palm counts twice the work: half of the rate is real.
  const sim::Prediction p = counted_prediction();
  const Reported reported{.rate = 600.0 * sim::TFLOPS, .convention = "palm"};
  ASSERT_EQ(readings(p, reported).size(), 1u);
  EXPECT_DOUBLE_EQ(readings(p, reported)[0].exact / sim::TFLOPS, 300.0);
  EXPECT_DOUBLE_EQ(readings(p, reported)[0].exact_mfu, 0.3);
  const json document =
      json::parse(render(p, kProvenance, Format::Json, {}, {.reported = reported}));
  EXPECT_EQ(document["reported"]["convention"], "palm");
  EXPECT_DOUBLE_EQ(document["reported"]["exact"]["palm"]["tflops_per_device"].get<double>(), 300.0);
  EXPECT_NE(render(p, kProvenance, Format::Table, {}, {.reported = reported})
                .find("600.0 TFLOP/s are 300.0 TFLOP/s of GEMMs"),
            std::string::npos);
}

TEST(ReportedFigure, WithoutConventionShowsAllUnlessTheMeasuredStepGivesItAway) {
  const sim::Prediction p = counted_prediction();
  Reported reported{.mfu = 0.6};
  EXPECT_EQ(readings(p, reported).size(), 2u);
  reported.step_time = sim::Flops(2e15) / (600.0 * sim::TFLOPS) / p.run.cluster.num_devices;
  ASSERT_EQ(readings(p, reported).size(), 1u);
  EXPECT_EQ(readings(p, reported)[0].convention, "palm");
}

TEST(ReportedFigure, OfAnUnknownConventionNamesTheKnownOnes) {
  try {
    readings(counted_prediction(), {.mfu = 0.5, .convention = "kaplan"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "convention = kaplan: one of palm, gemm_causal is expected");
  }
}

TEST(ReportedFigure, APredictionSaysWhatOtherCountsWouldPrint) {
  sim::Prediction p = counted_prediction();
  EXPECT_NE(counting_note(p).find("here; exact work is"), std::string::npos);
  p.conventions[0] = p.conventions[1];
  p.conventions[0].name = "palm";
  EXPECT_EQ(counting_note(p), "");
}

TEST(PredictionTable, ShowsWarningsAndThePaddingOfTheVocabulary) {
  sim::Prediction p = sample_prediction();
  p.warnings = {"hfu = 120 % is more than the peak"};
  p.unpadded_vocab_size = 50257;
  p.run.model.vocab_size = 50304;
  p.run.framework.vocab_multiple = 64;
  const std::string text = render(p, kProvenance, Format::Table);
  EXPECT_NE(text.find("hfu = 120 % is more than the peak"), std::string::npos);
  EXPECT_NE(text.find("vocabulary 50257 padded to 50304 (a multiple of 64 * tp)"),
            std::string::npos);
  EXPECT_EQ(parsed(p)["warnings"], json({"hfu = 120 % is more than the peak"}));
}

// The terms of the prediction, by their names.
TEST(PredictionJson, BreakdownIsThatOfThePredictionTermByTerm) {
  const sim::Prediction p = sample_prediction();
  const json document = parsed(p);
  ASSERT_EQ(document["breakdown_s"].size(), p.breakdown.size());
  for (const sim::TimeTerm& term : p.breakdown)
    EXPECT_EQ(document["breakdown_s"][term.name].get<double>(), term.time.value()) << term.name;
  EXPECT_EQ(document["step_time_s"], 4.0);
  EXPECT_EQ(document["breakdown_s"]["compute"], 2.5);
  EXPECT_EQ(document["breakdown_s"]["bubble"], 1.0);
  EXPECT_EQ(document["breakdown_s"]["dp_exposed"], 0.5);
}

// The remainder of no predicted run hides a wrong component: what stands in the JSON adds up.
TEST(PredictionJson, BreakdownOfASimulatedRunAddsUpWithoutARemainder) {
  for (const auto sharding : {sim::Sharding::None, sim::Sharding::Zero1, sim::Sharding::Zero3}) {
    sim::Run run = sim::small_run(4);
    run.strategy.pp = sharding == sim::Sharding::Zero3 ? 1 : 2;
    run.strategy.dp = 4 / run.strategy.pp;
    run.strategy.sharding = sharding;
    const json document = parsed(sim::predict(run));
    double sum = 0.0;
    for (const auto& [name, time] : document["breakdown_s"].items()) {
      EXPECT_NE(name, "remainder");
      EXPECT_GT(time.get<double>(), 0.0) << name;
      sum += time.get<double>();
    }
    const double step = document["step_time_s"];
    EXPECT_NEAR(sum, step, 1e-9 * step);
    EXPECT_EQ(document["breakdown_s"].contains("pipeline_bubble"), run.strategy.pp > 1);
  }
}

TEST(PredictionJson, MemoryTermsAddUpToEachStagesPeak) {
  const json document = parsed(sample_prediction());
  ASSERT_EQ(document["memory"]["stages"].size(), 2u);
  for (const auto& stage : document["memory"]["stages"]) {
    double sum = 0.0;
    for (const auto& term : stage["terms"]) sum += term.get<double>();
    EXPECT_EQ(sum, stage["peak_bytes"].get<double>());
  }
}

TEST(PredictionJson, ProvenanceSeparatesAssumptionsFromSources) {
  const json provenance = parsed(sample_prediction())["provenance"];
  EXPECT_EQ(provenance["database"], "facts of today");
  EXPECT_EQ(provenance["coefficients"], "1 data_sheet, 1 measured, 1 assumed");
  EXPECT_EQ(provenance["sources"], json({"vendor data sheet", "a benchmark"}));
  EXPECT_EQ(
      provenance["assumed"],
      json::parse(R"([{"key": "model.seq_len", "value": "2048", "reason": "training length"}])"));
}

TEST(PredictionJson, InfeasibleNamesTheRuleAndHasNullsForFigures) {
  const json document = parsed(impossible_prediction());
  EXPECT_EQ(document["feasible"], false);
  EXPECT_EQ(document["infeasible"]["rule"], "tp does not divide num_heads");
  EXPECT_EQ(document["infeasible"]["message"], "tp = 3 does not divide num_heads = 8");
  EXPECT_TRUE(document["step_time_s"].is_null());
  EXPECT_TRUE(document["memory"].is_null());
  // 16 sequences in micro-batches of 3 * 1: none.
  EXPECT_EQ(document["run"]["training"]["num_microbatches"], nullptr);
}

TEST(PredictionJson, RunFollowsTheRecordSchema) {
  const json run = parsed(sample_prediction())["run"];
  EXPECT_EQ(run["model"]["norm"], "rmsnorm");
  EXPECT_EQ(run["model"]["trainable"], "all");
  EXPECT_EQ(run["hardware"]["accelerator"], "toy");
  EXPECT_EQ(run["hardware"]["system"], "toy_box");
  EXPECT_EQ(run["hardware"]["inter_node_bytes_per_s_per_device"], 50e9);  // 400 GB/s of 8 devices
  EXPECT_EQ(run["training"]["num_microbatches"], 4);  // 16 sequences / (dp 4 * micro-batch 1)
  EXPECT_EQ(run["training"]["recompute"]["kind"], "every_n");
  EXPECT_EQ(run["training"]["recompute"]["every_n"], 2);
}

TEST(PredictionJson, RunHasTheSettingsThatItStates) {
  sim::Prediction prediction = sample_prediction();
  EXPECT_FALSE(parsed(prediction)["run"]["training"].contains("dropout"));
  prediction.run.settings = {{"dropout", 0.1}, {"optimizer_step", false}};
  EXPECT_EQ(parsed(prediction)["run"]["training"]["dropout"], 0.1);
  EXPECT_EQ(parsed(prediction)["run"]["training"]["optimizer_step"], false);
}

// Figures go on in further rows: words apart by one space.
std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n';
    if (!space || (!line.empty() && line.back() != ' ')) line += space ? ' ' : c;
  }
  return line;
}

TEST(PredictionText, LeadsWithTimeIntervalAndVerdict) {
  const std::string text = in_one_line(render(sample_prediction(), kProvenance, Format::Table));
  EXPECT_NE(text.find("4.000 s (3.000 s to 5.000 s with 90 % probability)"), std::string::npos)
      << text;
  EXPECT_NE(text.find("MFU 40.0 %, HFU 50.0 %"), std::string::npos) << text;
  EXPECT_NE(
      text.find("3.000 GiB + 1.000 GiB context of 10.00 GiB usable: fits with more than 99.9 % "
                "probability, 6.000 GiB to spare"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("pp 2, dp 4"), std::string::npos) << text;
}

TEST(PredictionText, OutOfMemorySaysHowMuchIsMissing) {
  sim::Prediction prediction = sample_prediction();
  prediction.memory.capacity = 2 * sim::GiB;
  prediction.infeasible = sim::Infeasible{
      .rule = "out of memory", .message = "out of memory: needs 4.0 GiB, 2.0 GiB usable"};
  const std::string text = in_one_line(render(prediction, kProvenance, Format::Table));
  EXPECT_NE(text.find("OUT OF MEMORY, 2.000 GiB too much; fits with less than 0.1 % probability"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("out of memory: needs 4.0 GiB, 2.0 GiB usable"), std::string::npos) << text;
  EXPECT_EQ(text.find("cannot run"), std::string::npos) << text;
  EXPECT_EQ(parsed(prediction)["step_time_s"], 4.0);
}

// 4 GiB are needed where e^0.2 times as much is there: two deviations, 94.2 %.  A peak of 3 GiB is
// within e^(2.1318 * 0.05) either way with 90 %.
TEST(PredictionText, TheProbabilityToFitIsThatOfTheJson) {
  sim::Prediction prediction = sample_prediction();
  prediction.memory.capacity = std::exp(0.2) * 4.0 * sim::GiB;
  prediction.memory.needed_error = 0.1;
  prediction.memory.error = 0.05;
  const std::string text = render(prediction, kProvenance, Format::Table);
  EXPECT_NE(text.find("fits with 94.2 % probability"), std::string::npos) << text;
  EXPECT_NE(text.find("the peak is 2.697 GiB to 3.337 GiB with 90 % probability"),
            std::string::npos)
      << text;
  const json memory = parsed(prediction)["memory"];
  EXPECT_NEAR(memory["fit_probability"].get<double>(), 0.94194, 1e-5);
  EXPECT_NEAR(memory["peak_interval_bytes"][0].get<double>() / sim::GiB.value(), 2.697, 1e-3);
  EXPECT_NEAR(memory["peak_interval_bytes"][1].get<double>() / sim::GiB.value(), 3.337, 1e-3);
  const json rows = json::parse(render(summary_table("", std::vector{prediction}), Format::Json));
  EXPECT_EQ(rows[0]["fit_probability"], memory["fit_probability"]);
}

TEST(PredictionText, ImpossibleRunsPrintTheRuleAndNoFigures) {
  const std::string text = render(impossible_prediction(), kProvenance, Format::Table);
  EXPECT_NE(text.find("tp = 3 does not divide num_heads = 8"), std::string::npos) << text;
  EXPECT_EQ(text.find("step time"), std::string::npos) << text;
}

TEST(PredictionScreen, IsAHundredColumnsWideAndFortyLinesLong) {
  sim::Prediction prediction = sample_prediction();
  prediction.warnings = {std::string(70, 'a') + " " + std::string(70, 'b')};
  const std::string text =
      render(prediction, kProvenance, Format::Table, {},
             {.assumed_switches = {{"gradient_overlap", true, 1.08}}, .one_screen = true});
  std::size_t lines = 0;
  for (std::size_t from = 0; from < text.size(); ++lines) {
    const std::size_t to = text.find('\n', from);
    EXPECT_LE(to - from, 100u) << text.substr(from, to - from);
    from = to + 1;
  }
  EXPECT_LE(lines, 40u) << text;
  EXPECT_NE(text.find("gradient_overlap on (+8.0 % without)"), std::string::npos) << text;
  EXPECT_NE(text.find("the rest"), std::string::npos) << text;
}

TEST(WrappedText, PartsAtSpacesAndClosesLines) {
  EXPECT_EQ(wrapped("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("one two three", 9, " \\"), (std::vector<std::string>{"one two \\", "three"}));
  EXPECT_EQ(wrapped("unbreakable", 4), (std::vector<std::string>{"unbreakable"}));
  EXPECT_EQ(wrapped("", 4), (std::vector<std::string>{""}));
}

TEST(Prediction, NoFormatPrintsWhatIsNoNumber) {
  expect_no_nan(sample_prediction());
  expect_no_nan(impossible_prediction());
  sim::Prediction broken = sample_prediction();
  broken.mfu = std::nan("");
  broken.hfu = HUGE_VAL;
  broken.conventions[0].mfu = HUGE_VAL;
  broken.memory.reserved = sim::Bytes(HUGE_VAL);
  expect_no_nan(broken);
}

TEST(SummaryTable, HasOneRowPerPredictionAndNoneForMissingFigures) {
  const std::vector<sim::Prediction> predictions{sample_prediction(), impossible_prediction()};
  const json rows = json::parse(render(summary_table("", predictions), Format::Json));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["step_time_s"], 4.0);
  // 2.5, 1.0 and 0.5 of 4 s.
  EXPECT_EQ(rows[0]["main_terms"], "compute 63 %, bubble 25 %, dp_exposed 13 %");
  EXPECT_EQ(rows[0]["feasible"], "yes");
  EXPECT_EQ(rows[1]["feasible"], "tp does not divide num_heads");
  EXPECT_EQ(rows[1]["step_time_s"], nullptr);
}

TEST(SummaryTable, HasTheSameColumnsWhateverIsPredicted) {
  std::vector<sim::Prediction> predictions{sample_prediction()};
  const std::string plain = render(summary_table("", predictions), Format::Csv);
  predictions[0].run.model.moe = sim::Moe{.num_experts = 8, .top_k = 2};
  predictions[0].run.strategy.pipeline_schedule = sim::PipelineSchedule::ZbH1;
  const std::string moe = render(summary_table("", predictions), Format::Csv);
  EXPECT_EQ(plain.substr(0, plain.find('\n')), moe.substr(0, moe.find('\n')));
}

TEST(SummaryTable, NamesSchedulesThatVirtualStagesDoNotTell) {
  std::vector<sim::Prediction> predictions{sample_prediction(), sample_prediction()};
  predictions[1].run.strategy.pipeline_schedule = sim::PipelineSchedule::ZbH1;
  const json rows = json::parse(render(summary_table("", predictions), Format::Json));
  EXPECT_EQ(rows[0]["pipeline_schedule"], "1f1b");
  EXPECT_EQ(rows[1]["pipeline_schedule"], "zb-h1");
  EXPECT_EQ(rows[1]["virtual_stages"], rows[0]["virtual_stages"]);
  EXPECT_EQ(rows[1]["feasible"], "yes");
}

}  // namespace
}  // namespace llmsim::reports
