#include "hwdb/runs/site_layouts.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hwdb/runs/layout_errors.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/runs/site.h"
#include "tests/hwdb/runs/sample_site.h"

namespace llmsim::hwdb {
namespace {

constexpr const char* kSampleCell = "cell/h100_sxm/fsdp2/bf16/dense";

// Two layouts, a doubling of the micro-batch apart: k = 0.04 and 0.04 e^-0.5.
SiteLayouts sample_layouts() {
  SiteLayouts layouts;
  layouts.errors.error = 0.2;
  layouts.points.resize(2);
  layouts.points[1].log2[0] = 1.0;
  layouts.points[1].recompute = sim::RecomputeKind::Full;
  layouts.points[1].sharding = sim::Sharding::Zero3;
  layouts.errors.recompute = layouts.errors.sharding = 0.0;
  layouts.weights = {2.0, -1.0};
  layouts.squares = {{-5.0}, {1.0, -4.0}};
  layouts.in_cell = {{"", {-0.1, 0.0}}, {kSampleCell, {-0.2, 0.1}}};
  return layouts;
}

TEST(SiteLayouts, MeanAndVarianceAreSumsOverLayouts) {
  const SiteLayouts layouts = sample_layouts();
  const double a = 0.04, b = 0.04 * std::exp(-0.5);
  EXPECT_NEAR(layouts.mean({}), 2.0 * a - b, 1e-12);
  const double alone = 0.04 - 5.0 * a * a - 4.0 * b * b + 2.0 * a * b;
  EXPECT_NEAR(layouts.variance({}, kSampleCell), alone - 0.4 * a + 0.2 * b, 1e-12);
  EXPECT_NEAR(layouts.variance({}, ""), alone - 0.2 * a, 1e-12);
  EXPECT_NEAR(layouts.variance({}, "another"), alone, 1e-12);
}

TEST(SiteLayouts, AreReadFromTheirNumbers) {
  const SiteLayouts layouts = sample_layouts();
  SiteLayouts read;
  for (const SiteLayoutNumber& number : numbers_of(layouts)) put(number, read);
  complete(read);
  EXPECT_EQ(read.errors, layouts.errors);
  EXPECT_EQ(read.points, layouts.points);
  EXPECT_EQ(read.weights, layouts.weights);
  EXPECT_EQ(read.squares, layouts.squares);
  EXPECT_EQ(read.in_cell, layouts.in_cell);
}

TEST(SiteLayouts, WhatIsMissingIsNothing) {
  SiteLayouts read;
  for (const SiteLayoutNumber& number : numbers_of(sample_layouts()))
    if (!number.key.starts_with("layout/0/")) put(number, read);
  put({"layout/99999999999/M.0", 1.0}, read);
  put({"layout/0/of a later version", 1.0}, read);
  complete(read);
  EXPECT_EQ(read.weights, (std::vector<double>{0.0, -1.0}));
  EXPECT_NEAR(read.mean(sample_layouts().points[1]), -0.04, 1e-12);
}

TEST(SiteLayouts, ALayoutMovesTheStepAndTheErrorOfARun) {
  const Database database(":memory:");
  const sim::Run before = RunResolver(database).resolve(sample_record());
  Site site = sample_site();
  site.cells.front().error = 0.3;
  site.layouts = sample_layouts();
  site.layouts.points = {layout_of(before)};
  site.layouts.weights = {2.0}, site.layouts.squares = {{-5.0}};
  site.layouts.in_cell = {{kSampleCell, {-0.2}}};
  RunResolver resolver(database, Frameworks::shipped(), site);
  const sim::Run run = resolver.resolve(sample_record());
  EXPECT_NEAR(std::log(run.framework.efficiency / before.framework.efficiency), -0.2 - 0.08, 1e-12);
  const double added = 0.04 - 5.0 * 0.0016 - 0.4 * 0.04;
  EXPECT_NEAR(std::pow(run.framework.errors.site, 2), 0.09 + added, 1e-12);
  // A search starts without a layout and puts it in.
  sim::Run searched = resolver.resolve_without_layout(sample_record());
  EXPECT_NEAR(std::log(searched.framework.efficiency / before.framework.efficiency), -0.2, 1e-12);
  searched.strategy = run.strategy;
  resolver.site_layouts()(searched);
  EXPECT_NEAR(searched.framework.efficiency, run.framework.efficiency, 1e-12);
  EXPECT_EQ(searched.framework.errors, run.framework.errors);
  EXPECT_FALSE(RunResolver(database).site_layouts());
}

TEST(ShippedLayoutErrors, AreThere) {
  const sim::LayoutErrors errors = layout_errors(Database(":memory:"));
  EXPECT_GT(errors.error, 0.02);
  EXPECT_GT(errors.run, 0.01);
  EXPECT_NE(errors.doublings[0], 1.0);
}

}  // namespace
}  // namespace llmsim::hwdb
