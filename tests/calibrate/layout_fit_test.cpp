#include "calibrate/layout_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace llmsim::calibrate {
namespace {

constexpr auto kMicroBatch = static_cast<std::size_t>(sim::LayoutAxis::MicroBatch);
constexpr auto kTensorRanks = static_cast<std::size_t>(sim::LayoutAxis::TensorRanks);

sim::LayoutErrors planted_layouts() {
  sim::LayoutErrors errors{.error = 0.15, .sharding = 2.0, .run = 0.03};
  errors.doublings.fill(3.0);
  errors.doublings[kMicroBatch] = 1.0;
  errors.doublings[kTensorRanks] = 4.0;
  return errors;
}

// Studies of 16 runs: a step of their own, what is planted of their layouts, and noise.
std::vector<SiteStudy> simulated_studies(int count) {
  std::mt19937 random(11);
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> doublings(0, 4);
  std::vector<SiteStudy> studies;
  for (int s = 0; s < count; ++s) {
    SiteStudy study;
    study.priors.spreads = {.step = 0.1, .memory = 0.1, .network = 0.1, .host = 0.1};
    study.priors.cells = {1e-9};
    std::vector<sim::LayoutPoint> layouts;
    for (int i = 0; i < 16; ++i) {
      sim::LayoutPoint layout;
      layout.log2[kMicroBatch] = doublings(random);
      layout.log2[kTensorRanks] = doublings(random);
      if (random() % 2 == 0) layout.sharding = sim::Sharding::Zero3;
      layouts.push_back(layout);
    }
    const LayoutBasis basis(layouts, planted_layouts());
    std::vector<double> effects;
    for (std::size_t j = 0; j < basis.pivots().size(); ++j) effects.push_back(normal(random));
    const double step = 0.1 * normal(random);
    for (const sim::LayoutPoint& layout : layouts) {
      SiteRow row{.residual = step + 0.03 * normal(random), .layout = layout};
      const std::vector<double> slopes = basis.slopes(layout);
      for (std::size_t j = 0; j < slopes.size(); ++j) row.residual += slopes[j] * effects[j];
      study.rows.push_back(row);
    }
    studies.push_back(study);
  }
  return studies;
}

TEST(LayoutFit, RecoversWhatIsPlanted) {
  const LayoutFit fit = layout_fit(simulated_studies(40));
  EXPECT_EQ(fit.studies, 40);
  EXPECT_EQ(fit.runs, 640);
  const auto near = [](double fitted, double error, double truth) {
    EXPECT_NEAR(fitted, truth, 3.0 * error);
    EXPECT_LT(error, 0.25 * truth);
  };
  const sim::LayoutErrors& errors = fit.standard_errors;
  near(fit.errors.error, errors.error, 0.15);
  near(fit.errors.run, errors.run, 0.03);
  near(fit.errors.doublings[kMicroBatch], errors.doublings[kMicroBatch], 1.0);
  near(fit.errors.doublings[kTensorRanks], errors.doublings[kTensorRanks], 4.0);
  near(fit.errors.sharding, errors.sharding, 2.0);
}

// What no study varies stays at its prior: three doublings.
TEST(LayoutFit, AnAxisThatNobodyVariesStaysAtItsPrior) {
  const LayoutFit fit = layout_fit(simulated_studies(4));
  EXPECT_NEAR(fit.errors.doublings[static_cast<std::size_t>(sim::LayoutAxis::Stages)], 3.0, 1e-3);
  EXPECT_NEAR(fit.errors.recompute, 1.0 / 3.0, 1e-3);
}

TEST(LayoutFit, WithoutStudiesThePriorsStay) {
  const LayoutFit fit = layout_fit({SiteStudy{}});
  EXPECT_NEAR(fit.errors.error, 0.07, 1e-9);
  EXPECT_NEAR(fit.errors.run, 0.05, 1e-9);
  ASSERT_EQ(fit.without.size(), 1U);
  EXPECT_EQ(fit.without[0], fit.errors);
}

// A study of layouts alike says less: without it layouts differ more.
TEST(LayoutFit, WhatIsLeftOutMovesTheFitAwayFromIt) {
  std::vector<SiteStudy> studies = simulated_studies(6);
  for (SiteRow& row : studies[2].rows) row.residual = 0.02;
  const LayoutFit fit = layout_fit(studies);
  ASSERT_EQ(fit.without.size(), 6U);
  EXPECT_GT(fit.without[2].error, fit.errors.error);
}

}  // namespace
}  // namespace llmsim::calibrate
