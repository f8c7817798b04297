#include "hwdb/runs/site.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "hwdb/runs/run_resolver.h"
#include "sim/predict.h"
#include "tests/error_of.h"
#include "tests/hwdb/runs/sample_site.h"

namespace llmsim::hwdb {
namespace {

TEST(Site, TurnsEachKnobByItsFactor) {
  const sim::Run before = resolved_at(sample_record("fsdp2"));
  sim::Run run = before;
  apply_effects(run, {.step = 0.1, .memory = 0.05, .network = -0.2, .host = 0.3});
  const auto ratio = [](double after, double from) { return std::log(after / from); };
  EXPECT_NEAR(ratio(run.framework.efficiency, before.framework.efficiency), -0.1, 1e-12);
  EXPECT_NEAR(ratio(run.framework.collective_efficiency, before.framework.collective_efficiency),
              -0.3, 1e-12);
  EXPECT_NEAR(ratio(run.framework.host.factor, before.framework.host.factor), 0.4, 1e-12);
  EXPECT_NEAR(ratio(run.framework.host.per_step.value(), before.framework.host.per_step.value()),
              0.4, 1e-12);
  EXPECT_NEAR(ratio(run.cluster.device.achieved.memory_fraction,
                    before.cluster.device.achieved.memory_fraction),
              0.05, 1e-12);
}

TEST(Site, EffectsMoveTheStepTimeAsTheirNamesSay) {
  const auto time = [](const SiteEffects& effects) {
    sim::Run run = resolved_at(sample_record("fsdp2"));
    apply_effects(run, effects);
    return sim::predict(run).step_time.value();
  };
  EXPECT_GT(time({.step = 0.1}), 1.05 * time({}));
  EXPECT_LT(time({.memory = 0.1}), time({}));
  EXPECT_LE(time({.network = 0.1}), time({}));
  EXPECT_GT(time({.host = 0.1}), time({}));
}

TEST(Site, IsReadAsItWasPut) {
  Database database(":memory:");
  Site site = sample_site();
  site.cells.push_back({.device = "mi300x",
                        .framework = "llm.c",
                        .precision = "fp8",
                        .kind = CellKind::Moe,
                        .step = -0.1,
                        .error = 0.04});
  put_site(database, site, false);
  EXPECT_EQ(site_names(database), std::vector<std::string>{"ours"});
  const Site read = hwdb::site(database, "ours");
  EXPECT_EQ(read.effects.step, 0.1);
  EXPECT_EQ(read.effects.memory, 0.05);
  EXPECT_EQ(read.effects.network, -0.2);
  EXPECT_EQ(read.deviations.network, 0.12);
  EXPECT_EQ(read.effects.host, 0.15);
  EXPECT_EQ(read.deviations.host, 0.25);
  EXPECT_EQ(read.error, 0.06);
  EXPECT_EQ(read.moe_error, 0.10);
  EXPECT_EQ(read.run_error, 0.02);
  EXPECT_EQ(read.fitted_from, "2 runs: a, b");
  ASSERT_EQ(read.cells.size(), 2U);
  EXPECT_EQ(read.cells[1].framework, "llm.c");
  EXPECT_EQ(read.cells[1].kind, CellKind::Moe);
  EXPECT_EQ(read.cells[1].error, 0.04);
}

TEST(Site, ANameThatIsTakenNeedsReplace) {
  Database database(":memory:");
  put_site(database, sample_site(), false);
  EXPECT_NE(error_of([&] {
              put_site(database, sample_site(), false);
            }).find("NAME = ours: is taken by a stored site"),
            std::string::npos);
  Site other = sample_site();
  other.cells.clear();
  put_site(database, other, true);
  EXPECT_TRUE(hwdb::site(database, "ours").cells.empty());
}

TEST(Site, AnUnknownNameComesWithTheNearest) {
  Database database(":memory:");
  EXPECT_NE(error_of([&] { hwdb::site(database, "our"); }).find("none is stored"),
            std::string::npos);
  put_site(database, sample_site(), false);
  EXPECT_NE(
      error_of([&] { hwdb::site(database, "our"); }).find("unknown site 'our'; did you mean ours?"),
      std::string::npos);
}

// By step: of its cell 0.2, of the site 0.1.
TEST(Site, ARunOfACellHasItsStepAndItsError) {
  const sim::Run before = resolved_at(sample_record("fsdp2")),
                 run = resolved_at(sample_record("fsdp2"), sample_site());
  EXPECT_NEAR(std::log(run.framework.efficiency / before.framework.efficiency), -0.2, 1e-12);
  const sim::PredictionErrors& errors = run.framework.errors;
  EXPECT_EQ(errors.site, 0.03);
  EXPECT_NEAR(errors.moe_site, std::hypot(0.03, 0.08), 1e-12);  // 0.10^2 - 0.06^2 = 0.08^2
  EXPECT_EQ(errors.run, 0.02);
  EXPECT_EQ(errors.efficiency, 0.0);
  EXPECT_EQ(run.cluster.device.achieved.training_rate_error, 0.0);
  EXPECT_TRUE(run.warnings.empty());
}

// torchtitan and fsdp2 are both like pytorch; another format is another cell.
TEST(Site, TheSameFamilyOnTheSameDeviceHasTheErrorOfTheSite) {
  for (const RunRecord& other : {sample_record("torchtitan"), sample_record("fsdp2", "fp8")}) {
    const sim::Run before = resolved_at(other), run = resolved_at(other, sample_site());
    EXPECT_NEAR(std::log(run.framework.efficiency / before.framework.efficiency), -0.1, 1e-12);
    EXPECT_EQ(run.framework.errors.site, 0.06);
    EXPECT_EQ(run.framework.errors.moe_site, 0.10);
    EXPECT_EQ(run.framework.errors.efficiency, 0.0);
    EXPECT_TRUE(run.warnings.empty());
  }
}

TEST(Site, AnotherFamilyOrDeviceKeepsItsErrorsAndWarns) {
  RunRecord elsewhere = sample_record("fsdp2");
  elsewhere.hardware.accelerator = "a100_sxm_80";
  for (const RunRecord& other : {sample_record("megatron-lm"), elsewhere}) {
    const sim::Run before = resolved_at(other), run = resolved_at(other, sample_site());
    EXPECT_NEAR(std::log(run.framework.efficiency / before.framework.efficiency), -0.1, 1e-12);
    EXPECT_EQ(run.framework.errors, before.framework.errors);
    EXPECT_GT(run.cluster.device.achieved.training_rate_error, 0.0);
    ASSERT_EQ(run.warnings.size(), 1U);
    EXPECT_NE(run.warnings[0].find("site ours has no run on"), std::string::npos);
    EXPECT_EQ(sim::predict(run).warnings.front(), run.warnings[0]);
  }
}

TEST(Site, EveryValueIsAFact) {
  const sim::Run run = resolved_at(sample_record("fsdp2"), sample_site());
  for (const char* key : {"site.ours.cell/h100_sxm/fsdp2/bf16/dense", "site.ours.memory_rate",
                          "site.ours.network_rate", "site.ours.host_time", "site.ours.errors.site",
                          "site.ours.errors.run"})
    EXPECT_TRUE(std::ranges::any_of(run.facts, [&](const sim::Fact& fact) {
      return fact.key == key && fact.evidence == sim::Evidence::Fitted && fact.source == "a test";
    })) << key;
}

}  // namespace
}  // namespace llmsim::hwdb
