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

// The spread between studies is that of its own trait.
TEST(RatioFit, SpreadsAreThoseOfTheirTraits) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  Measured measured;
  for (std::size_t study = 0; study < 40; ++study) {
    const double of_stages = 0.1 * normal(random);
    for (const int tp : {1, 2})
      for (const int pp : {1, 2, 4})
        add(measured, study, of_layout(tp, pp, 1),
            of_stages * std::log2(pp) + 0.02 * normal(random));
  }
  const RatioFit fit = ratio_fit(measured.runs, measured.fit);
  EXPECT_GT(of(fit, LayoutTrait::Stages).spread, 0.05);
  EXPECT_LT(of(fit, LayoutTrait::TensorRanks).spread, 0.03);
  EXPECT_EQ(of(fit, LayoutTrait::Stages).studies, 40);
  EXPECT_EQ(of(fit, LayoutTrait::MicroBatch).studies, 0);
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

// The error of a ratio is that of each of its traits and of two runs.
TEST(RatioFit, RowsHaveTheErrorsOfEveryTraitAndOfARun) {
  const Measured measured = planted(0.08, 0.03, 0.02);
  const RatioFit fit = ratio_fit(measured.runs, measured.fit);
  std::size_t errors = 0, runs = 0;
  for (const hwdb::Coefficient& row : fitted_rows(fit)) {
    EXPECT_EQ(row.scope, "framework");
    if (row.id != "megatron-lm") continue;
    if (row.key == "ratios.run") {
      ++runs;
      EXPECT_NEAR(row.value, fit.run, 1e-2 * fit.run);
    }
    if (row.key == "ratios.tensor_ranks.error") {
      EXPECT_NEAR(row.value, of(fit, LayoutTrait::TensorRanks).error(), 1e-2 * row.value);
    }
    if (row.key == "ratios.tensor_ranks.bias") {
      EXPECT_NEAR(*row.standard_error, of(fit, LayoutTrait::TensorRanks).standard_error, 1e-4);
      EXPECT_EQ(row.fitted_from.find("not clearly"), std::string::npos);
    }
    if (row.key == "ratios.stages.bias") {
      EXPECT_NE(row.fitted_from.find("; not clearly different from 0, which stays"),
                std::string::npos);
    }
    errors += row.key.ends_with(".error");
  }
  EXPECT_EQ(errors, sim::kLayoutTraits);
  EXPECT_EQ(runs, 1u);
}

// Whatever a layout chooses leaves a problem as it is.
TEST(RatioFit, LayoutsOfAProblemMayDifferInAllThatALayoutChooses) {
  Measured measured;
  add(measured, 0, of_layout(1, 1, 1), 0.0);
  const auto problems = [&](auto change) {
    Measured two = measured;
    sim::Run run = of_layout(2, 2, 2);
    change(run.strategy);
    add(two, 0, run, 0.0);
    const RatioFit fit = ratio_fit(two.runs, two.fit);
    EXPECT_EQ(fit.runs, fit.problems * 2);
    return fit.problems;
  };
  using S = sim::Strategy;
  EXPECT_EQ(problems([](S& s) { s.cp = 2, s.cp_balanced = !s.cp_balanced; }), 1);
  EXPECT_EQ(problems([](S& s) { s.ep = 2, s.etp = 1; }), 1);
  EXPECT_EQ(problems([](S& s) { s.virtual_stages = 2; }), 1);
  EXPECT_EQ(problems([](S& s) { s.shard_size = 4; }), 1);
  EXPECT_EQ(problems([](S& s) { s.sequence_parallel = !s.sequence_parallel; }), 1);
  EXPECT_EQ(problems([](S& s) { s.embeddings_as_layers = true; }), 1);
  EXPECT_EQ(problems([](S& s) { s.pipeline_schedule = sim::PipelineSchedule::GPipe; }), 1);
  EXPECT_EQ(problems([](S& s) { s.sharding = sim::Sharding::Zero1; }), 1);
  EXPECT_EQ(problems([](S& s) { s.recompute.kind = sim::RecomputeKind::Full; }), 1);
  EXPECT_EQ(problems([](S& s) { s.gradient_overlap = !s.gradient_overlap; }), 1);
  EXPECT_EQ(problems([](S& s) { s.gather_overlap = !s.gather_overlap; }), 1);
  EXPECT_EQ(problems([](S& s) { s.mesh_order = sim::MeshOrder::DataLast; }), 1);
  EXPECT_EQ(problems([](S& s) { s.stage_layers = {1, 1}; }), 1);
  EXPECT_EQ(problems([](S& s) { s.global_batch *= 2; }), 0);
  EXPECT_EQ(problems([](S& s) { s.cuda_graph = !s.cuda_graph; }), 0);
}

TEST(RatioFit, ProblemsHaveOneStudyModelDeviceAndFramework) {
  const auto problems = [](auto change, std::size_t study = 0) {
    Measured two;
    add(two, 0, of_layout(1, 1, 1), 0.0);
    sim::Run run = of_layout(2, 1, 1);
    change(run);
    add(two, study, run, 0.0);
    return ratio_fit(two.runs, two.fit).problems;
  };
  EXPECT_EQ(problems([](sim::Run&) {}), 1);
  EXPECT_EQ(problems([](sim::Run&) {}, 1), 0);
  EXPECT_EQ(problems([](sim::Run& run) { run.cluster.num_devices = 32; }), 0);
  EXPECT_EQ(problems([](sim::Run& run) { run.cluster.device.id = "other"; }), 0);
  EXPECT_EQ(problems([](sim::Run& run) { run.framework.id = "other"; }), 0);
  EXPECT_EQ(problems([](sim::Run& run) { run.model.num_layers *= 2; }), 0);
}

}  // namespace
}  // namespace llmsim::calibrate
