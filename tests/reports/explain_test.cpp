#include "reports/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/explain.h"
#include "tests/catalogue.h"
#include "tests/sim/sample_run.h"

namespace llmsim::reports {
namespace {

using nlohmann::json;

constexpr std::array kEverything{Explained::Gemm, Explained::Attention, Explained::Collective,
                                 Explained::Memory};

// Eight devices with coefficients as `hwdb` notes them.
sim::Run explained_run(const char* model) {
  sim::Run run;
  run.model = sim::find_model(model)->model;
  run.cluster = sim::ideal_cluster(8);
  run.cluster.device.achieved = sim::Achieved{};
  run.cluster.device.achieved.sustained_clock = 0.9;
  run.cluster.device.matrix_peak.fill(989.4 * sim::TFLOPS);
  run.cluster.device.compute_units = 132;
  run.strategy.dp = 8;
  run.strategy.sharding = sim::Sharding::Zero3;
  run.strategy.global_batch = 64;
  run.framework.id = "toy";
  run.framework.attention_kernel = sim::AttentionKernel::Flash3;
  run.facts = {
      {"device.ideal.peak.bf16", "989.4 TFLOP/s", sim::Evidence::DataSheet, "vendor"},
      {"device.ideal.peak.fp8", "1979 TFLOP/s", sim::Evidence::DataSheet, "vendor"},
      {"device.ideal.gemm.bf16.k_half", "256 +- 20", sim::Evidence::Fitted, "a grid"},
      {"device.ideal.gemm.fp8.k_half", "300", sim::Evidence::Fitted, "a grid"},
      {"device.ideal.attention.flash-3.forward", "0.7 +- 0.1", sim::Evidence::Fitted, "a table"},
      {"device.ideal.attention.forward", "0.5", sim::Evidence::Fitted, "another table"},
      {"device.ideal.sustained_clock", "0.9", sim::Evidence::Measured, "a log"},
      {"device.ideal.collective_fraction", "0.8", sim::Evidence::Measured, "nccl-tests"},
      {"cluster.ideal.fabric.latency_s", "3.4 us", sim::Evidence::Fitted, "nccl-tests"},
      {"framework.toy.efficiency", "0.95", sim::Evidence::Fitted, "runs"},
      {"assumed.model.seq_len", "8192", sim::Evidence::Assumed, "training length"}};
  return run;
}

json document(Explained what, const sim::Run& run) {
  return json::parse(render(what, run, {.database = "facts"}, Format::Json));
}

std::vector<std::string> keys_behind(Explained what, const sim::Run& run) {
  std::vector<std::string> keys;
  for (const sim::Fact& fact : facts_behind(what, run)) keys.push_back(fact.key);
  return keys;
}

// What a program reads multiplies up too.
template <typename Kernel>
void expect_product(const json& rows) {
  EXPECT_FALSE(rows.empty());
  for (const json& row : rows) {
    double rate = row["peak_flops_per_s"].get<double>();
    for (const sim::RateFactor& factor : rate_factors(Kernel{}))
      rate *= row[factor.key].get<double>();
    EXPECT_NEAR(rate / row["flops_per_s"].get<double>(), 1.0, 1e-9) << row;
  }
}

TEST(ExplainedTable, FactorsOfEveryRowMultiplyUpToItsRate) {
  for (const char* model : {"gpt2", "llama-3-8b", "deepseek-v3"}) {
    const sim::Run run = explained_run(model);
    expect_product<sim::ExplainedGemm>(document(Explained::Gemm, run)["gemm"]);
    expect_product<sim::ExplainedAttention>(document(Explained::Attention, run)["attention"]);
  }
}

TEST(ExplainedTable, CollectivesHaveTheRatesOfNcclTests) {
  const json rows = document(Explained::Collective, explained_run("gpt2"))["collective"];
  ASSERT_FALSE(rows.empty());
  for (const json& row : rows) {
    const double time = row["time_s"], bytes = row["bytes"];
    EXPECT_NEAR(row["alpha_s"].get<double>() + row["beta_s"].get<double>(), time, 1e-12 * time);
    EXPECT_NEAR(row["algbw_bytes_per_s"], bytes / time, 1e-9 * bytes / time);
    EXPECT_EQ(row["group"], "dp");
    EXPECT_EQ(row["ranks"], 8);
    EXPECT_EQ(row["domains"], 1);
  }
}

TEST(ExplainedTable, FitsATerminal) {
  for (const Explained what : kEverything) {
    const std::string text =
        render(explained_table(what, explained_run("llama-3-8b")), Format::Table);
    const std::string rows = text.substr(0, text.find("\n  "));  // notes are indented
    for (std::size_t at = 0; at < rows.size();) {
      const std::size_t end = std::min(rows.find('\n', at), rows.size());
      EXPECT_LE(end - at, 100u) << rows.substr(at, end - at);
      at = end + 1;
    }
  }
}

TEST(ExplainedTable, EveryFormatHasTheSameRows) {
  const sim::Run run = explained_run("gpt2");
  for (const Explained what : kEverything) {
    const std::string csv = render(what, run, {}, Format::Csv);
    const auto lines = static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n'));
    EXPECT_EQ(lines, document(what, run)[sim::name_of(what)].size() + 1) << sim::name_of(what);
    for (const Format format : {Format::Table, Format::Markdown, Format::Latex}) {
      const std::string text = render(what, run, {.database = "facts"}, format);
      EXPECT_NE(text.find(" behind the "), std::string::npos) << sim::name_of(format);
      EXPECT_NE(text.find("database: facts"), std::string::npos) << sim::name_of(format);
      EXPECT_EQ(text.find("nan"), std::string::npos) << sim::name_of(format);
    }
  }
}

TEST(FactsBehind, AreThoseOfTheFormatsAndKernelsThatRun) {
  const sim::Run run = explained_run("gpt2");
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys_behind(Explained::Gemm, run),
            (Keys{"device.ideal.peak.bf16", "device.ideal.gemm.bf16.k_half",
                  "device.ideal.sustained_clock", "framework.toy.efficiency"}));
  EXPECT_EQ(keys_behind(Explained::Attention, run),
            (Keys{"device.ideal.peak.bf16", "device.ideal.attention.flash-3.forward",
                  "device.ideal.sustained_clock", "framework.toy.efficiency"}));
  EXPECT_EQ(keys_behind(Explained::Collective, run),
            (Keys{"device.ideal.collective_fraction", "cluster.ideal.fabric.latency_s"}));
}

TEST(FactsBehind, KernelsWithoutCoefficientsHaveThoseOfAll) {
  sim::Run run = explained_run("gpt2");
  run.framework.attention_kernel = sim::AttentionKernel::Flash2;
  const std::vector<std::string> keys = keys_behind(Explained::Attention, run);
  EXPECT_NE(std::find(keys.begin(), keys.end(), "device.ideal.attention.forward"), keys.end());
  EXPECT_EQ(std::find(keys.begin(), keys.end(), "device.ideal.attention.flash-3.forward"),
            keys.end());
}

TEST(ExplainedJson, HasCoefficientsWithTheirSources) {
  const json rows = document(Explained::Gemm, explained_run("gpt2"))["coefficients"];
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[1]["key"], "device.ideal.gemm.bf16.k_half");
  EXPECT_EQ(rows[1]["value"], "256 +- 20");
  EXPECT_EQ(rows[1]["evidence"], "fitted");
  EXPECT_EQ(rows[1]["source"], "a grid");
}

TEST(Explained, IsFoundByItsName) {
  for (const Explained what : kEverything)
    EXPECT_EQ(sim::named<Explained>(sim::name_of(what)), what);
  EXPECT_EQ(sim::named<Explained>("kernel"), std::nullopt);
}

}  // namespace
}  // namespace llmsim::reports
