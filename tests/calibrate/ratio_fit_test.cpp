#include "calibrate/ratio_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "tests/sim/sample_run.h"

namespace llmsim::calibrate {
namespace {

using sim::LayoutTrait;

struct Measured {
  MeasuredRuns runs;
  RunFit fit;
};

// One run more, of which a prediction without its study is `residual` too fast, in logarithms.
void add(Measured& measured, std::size_t study, const sim::Run& run, double residual) {
  while (measured.runs.groups.size() <= study)
    measured.runs.groups.push_back("study " + std::to_string(measured.runs.groups.size()));
  measured.runs.runs.push_back(
      {.id = std::to_string(measured.runs.runs.size()), .group = study, .run = run});
  measured.fit.left_out.push_back(-residual);
}

sim::Run of_layout(int tp, int pp, int micro_batch) {
  sim::Run run = sim::small_run(16);
  run.strategy.tp = tp, run.strategy.pp = pp, run.strategy.dp = 16 / (tp * pp);
  run.strategy.micro_batch = micro_batch;
  return run;
}

const TraitFit& of(const RatioFit& fit, LayoutTrait trait) {
  return fit.traits[static_cast<std::size_t>(trait)];
}

// Forty studies whose predictions are 8 % too fast a doubling of the tensor ranks, each with a
// level of its own, which ratios do not have.
Measured planted(double of_tensor_ranks, double spread, double noise) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  Measured measured;
  for (std::size_t study = 0; study < 40; ++study) {
    const double level = 0.5 * normal(random), own = of_tensor_ranks + spread * normal(random);
    for (const int tp : {1, 2, 4, 8})
      for (const int pp : {1, 2})
        add(measured, study, of_layout(tp, pp, 1),
            level + own * std::log2(tp) + noise * normal(random));
  }
  return measured;
}

TEST(RatioFit, RecoversAPlantedBiasAndItsSpread) {
  const Measured measured = planted(0.08, 0.03, 0.02);
  const RatioFit fit = ratio_fit(measured.runs, measured.fit);
  EXPECT_EQ(fit.studies, 40);
  EXPECT_EQ(fit.problems, 40);
  EXPECT_EQ(fit.runs, 320);
  const TraitFit& ranks = of(fit, LayoutTrait::TensorRanks);
  EXPECT_EQ(ranks.studies, 40);
  EXPECT_NEAR(ranks.bias, 0.08, 3.0 * ranks.standard_error);
  EXPECT_LT(ranks.standard_error, 0.01);
  EXPECT_TRUE(ranks.is_clear());
  // Scales of Student's t with four degrees of freedom that normal values have: 0.8 of them.
  EXPECT_NEAR(ranks.spread, 0.8 * 0.03, 0.01);
  EXPECT_NEAR(fit.run, 0.8 * 0.02, 0.005);
  EXPECT_NEAR(ranks.error(), std::hypot(ranks.spread, ranks.standard_error), 1e-12);
  EXPECT_FALSE(of(fit, LayoutTrait::Stages).is_clear());
}

// What all runs of a problem have in common says nothing, nor do runs of several problems.
TEST(RatioFit, WithoutTwoLayoutsOfAProblemThePriorsStay) {
  Measured measured;
  for (std::size_t study = 0; study < 4; ++study) {
    sim::Run run = of_layout(1 << study, 1, 1);
    run.model.num_layers += static_cast<int>(study);
    add(measured, 0, run, 0.3 * static_cast<double>(study));
  }
  const RatioFit fit = ratio_fit(measured.runs, measured.fit);
  EXPECT_EQ(fit.runs, 0);
  for (const TraitFit& trait : fit.traits) {
    EXPECT_EQ(trait.studies, 0);
    EXPECT_NEAR(trait.bias, 0.0, 1e-12);
    EXPECT_NEAR(trait.standard_error, 0.05, 1e-9);
  }
}

TEST(RatioFit, ATraitThatOneStudyMovesStaysNearItsPrior) {
  Measured measured;
  for (const int micro_batch : {1, 2, 4})
    add(measured, 0, of_layout(1, 1, micro_batch), 0.2 * std::log2(micro_batch));
  const RatioFit fit = ratio_fit(measured.runs, measured.fit);
  const TraitFit& trait = of(fit, LayoutTrait::MicroBatch);
  EXPECT_EQ(trait.studies, 1);
  EXPECT_GT(trait.bias, 0.01);
  EXPECT_LT(trait.bias, 0.12);
  EXPECT_FALSE(trait.is_clear());
}

// A vocabulary that is padded for the tensor ranks leaves the problem as it is, another switch does
// not.
TEST(RatioFit, ProblemsDifferInSwitches) {
  Measured measured;
  sim::Run run = of_layout(1, 1, 1);
  add(measured, 0, run, 0.0);
  run = of_layout(2, 1, 1);
  run.model.vocab_size += 128;
  add(measured, 0, run, 0.0);
  EXPECT_EQ(ratio_fit(measured.runs, measured.fit).runs, 2);
  run = of_layout(4, 1, 1);
  run.strategy.compile = !run.strategy.compile;
  add(measured, 0, run, 0.0);
  EXPECT_EQ(ratio_fit(measured.runs, measured.fit).runs, 2);
}

TEST(RatioFit, RowsSayHowManyStudiesDifferInATrait) {
  const Measured measured = planted(0.08, 0.03, 0.02);
  const std::vector<hwdb::Coefficient> rows = fitted_rows(ratio_fit(measured.runs, measured.fit));
  std::size_t biases = 0;
  for (const hwdb::Coefficient& row : rows) {
    EXPECT_TRUE(row.fitted_from.starts_with(kRunFit));
    if (row.id != "megatron-lm" || !row.key.ends_with(".bias")) continue;
    ++biases;
    if (row.key == "ratios.tensor_ranks.bias") {
      EXPECT_NEAR(row.value, 0.08, 0.02);
      EXPECT_TRUE(row.fitted_from.ends_with("40 of which differ in this"));
    } else {
      EXPECT_EQ(row.value, 0.0) << row.key;
    }
  }
  EXPECT_EQ(biases, sim::kLayoutTraits);
}

}  // namespace
}  // namespace llmsim::calibrate
