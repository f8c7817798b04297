#include "calibrate/site_fit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "hwdb/runs/run_resolver.h"
#include "sim/predict.h"
#include "tests/calibrate/sample_layouts.h"
#include "tests/calibrate/sample_runs.h"
#include "tests/error_of.h"

namespace llmsim::calibrate {
namespace {

// Of a step alone: prior 0.3, cell 0, noise 0.1.
SitePriors plain_priors() {
  return {.spreads = {.step = 0.3, .memory = 0.1, .network = 0.15, .host = 0.2},
          .noise = 0.1,
          .cells = {1e-9}};
}

// Shrinkage 0.3^2 / (0.3^2 + 0.1^2) = 0.9, variance 0.3^2 (1 - 0.9) = 0.009.
TEST(SitePosterior, OneRowShrinksByPriorOverPriorAndNoise) {
  const MixedFit fit = site_posterior({{.residual = 0.2}}, plain_priors()).fit;
  EXPECT_NEAR(fit.means[0], 0.18, 1e-9);
  EXPECT_NEAR(fit.covariance[0][0], 0.009, 1e-9);
  EXPECT_NEAR(fit.means[1], 0.0, 1e-12);
  EXPECT_NEAR(fit.deviation(1), 0.1, 1e-9);
}

// Two rows: prior variance 0.09, of their mean 0.01 / 2: 0.09 / 0.095.
TEST(SitePosterior, TwoRowsCountTwice) {
  const MixedFit fit = site_posterior({{.residual = 0.2}, {.residual = 0.4}}, plain_priors()).fit;
  EXPECT_NEAR(fit.means[0], 0.3 * 0.09 / 0.095, 1e-9);
}

// A row that only memory moves, by -0.5: variance 0.25 * 0.1^2 of 0.0025 + 0.09 + 0.01 = 0.1025;
// memory takes -0.5 * 0.01 / 0.1025 of the residual, the step 0.09 / 0.1025.
TEST(SitePosterior, EffectsShareAResidualByTheirVariances) {
  const MixedFit fit =
      site_posterior({{.residual = 0.2, .slopes = {.step = 1.0, .memory = -0.5}}}, plain_priors())
          .fit;
  EXPECT_NEAR(fit.means[0], 0.2 * 0.09 / 0.1025, 1e-9);
  EXPECT_NEAR(fit.means[1], -0.2 * 0.005 / 0.1025, 1e-9);
}

TEST(SitePosterior, WithoutRowsThePriorsStay) {
  const MixedFit fit = site_posterior({}, plain_priors()).fit;
  EXPECT_EQ(fit.means, std::vector<double>(5, 0.0));  // four effects and a cell
  EXPECT_NEAR(fit.deviation(0), 0.3, 1e-9);
  EXPECT_NEAR(fit.deviation(2), 0.15, 1e-9);
}

TEST(SitePosterior, PlantedEffectsAreRecoveredFromManyRows) {
  std::mt19937 random(7);
  std::student_t_distribution<double> noise(4.0);  // times 0.05, as the model has it
  std::uniform_real_distribution<double> slope(-0.6, 0.0);
  std::vector<SiteRow> rows;
  for (int i = 0; i < 200; ++i) {
    const double memory = slope(random), network = slope(random), host = -slope(random);
    SiteRow row{.slopes = {.step = 1.0, .memory = memory, .network = network, .host = host}};
    row.residual = 0.25 + memory * 0.12 + network * -0.2 + host * 0.3 + 0.05 * noise(random);
    rows.push_back(row);
  }
  const MixedFit fit = site_posterior(rows, plain_priors()).fit;
  const double truth[] = {0.25, 0.12, -0.2, 0.3};
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_NEAR(fit.means[k], truth[k], 3.0 * fit.deviation(k)) << k;
    EXPECT_LT(fit.deviation(k), 0.03) << k;
  }
  EXPECT_NEAR(fit.noise, 0.05, 0.01);  // its standard error is 0.003
}

TEST(SitePosterior, ABrokenRowHardlyMovesTheOthers) {
  std::vector<SiteRow> rows(6, {.residual = 0.1});
  const double before = site_posterior(rows, plain_priors()).fit.means[0];
  rows.push_back({.residual = 2.0});
  EXPECT_NEAR(site_posterior(rows, plain_priors()).fit.means[0], before, 0.03);
}

// Rows that agree are the site, not a crowd of broken rows.
TEST(SitePosterior, ASiteThatIsFarOffIsFollowed) {
  const std::vector<SiteRow> rows(4, {.residual = 1.2});
  EXPECT_GT(site_posterior(rows, plain_priors()).fit.means[0], 1.1);
}

// One run: k(A, B) = 0.04 e^-0.5 of variance 0.04 + 0.01.
TEST(SitePosterior, ARunTellsOfAnotherLayoutByTheirCovariance) {
  const SitePosterior site = site_posterior({row_at(0.0, 0.3)}, layout_priors());
  const double shared = 0.04 * std::exp(-0.5);
  EXPECT_NEAR(site.mean_of(row_at(2.0)), 0.3 * shared / 0.05, 1e-9);
  EXPECT_NEAR(site.variance_of(row_at(2.0)), 0.04 - shared * shared / 0.05, 1e-9);
  EXPECT_NEAR(site.variance_of(row_at(0.0)), 0.04 * 0.01 / 0.05, 1e-9);
}

// Two runs at 0 and 2 doublings, r = (0.3, 0.1), seen from 1 doubling: with a = 0.05 and
// b = 0.04 e^-0.5 their weights are (a r1 - b r2, a r2 - b r1) / (a^2 - b^2), and both count with
// c = 0.04 e^-0.125: the mean is c (r1 + r2) / (a + b), the variance 0.04 - 2 c^2 / (a + b).
TEST(SitePosterior, TwoRunsAreTheGaussianProcessWorkedOutByHand) {
  const SitePosterior site = site_posterior({row_at(0.0, 0.3), row_at(2.0, 0.1)}, layout_priors());
  const double a = 0.05, b = 0.04 * std::exp(-0.5), c = 0.04 * std::exp(-0.125);
  EXPECT_NEAR(site.mean_of(row_at(1.0)), c * 0.4 / (a + b), 1e-9);
  EXPECT_NEAR(site.variance_of(row_at(1.0)), 0.04 - 2.0 * c * c / (a + b), 1e-9);
}

// Equal layouts have one effect: two runs halve the noise.
TEST(SitePosterior, RunsOfOneLayoutShareItsEffect) {
  const SitePosterior site = site_posterior({row_at(0.0, 0.3), row_at(0.0, 0.1)}, layout_priors());
  EXPECT_EQ(site.layouts.pivots().size(), 1U);
  EXPECT_NEAR(site.mean_of(row_at(0.0)), 0.2 * 0.04 / 0.045, 1e-9);
}

// Far from all runs a layout is as unknown as before.
TEST(SitePosterior, DistantLayoutsStayUnknown) {
  const SitePosterior site = site_posterior({row_at(0.0, 0.3)}, layout_priors());
  EXPECT_NEAR(site.mean_of(row_at(20.0)), 0.0, 1e-9);
  EXPECT_NEAR(site.variance_of(row_at(20.0)), 0.04, 1e-9);
}

const hwdb::Database& database() {
  static const hwdb::Database shipped(":memory:");
  return shipped;
}

// A run of the sample that takes as long as is predicted with `truth`.
SiteRun measured(int global_batch, const hwdb::SiteEffects& truth,
                 const std::string& framework = "pytorch", int seq_len = 2048, int cp = 1) {
  hwdb::RunRecord record = sample_record("a", "h100_sxm", framework, global_batch);
  record.model.fields["seq_len"] = seq_len;
  record.training.strategy["cp"] = cp;
  SiteRun run{.id = "a" + std::to_string(global_batch),
              .run = hwdb::RunResolver(database()).resolve(record)};
  sim::Run turned = run.run;
  hwdb::apply_effects(turned, truth);
  run.measured = sim::predict(turned).step_time.value();
  return run;
}

double predicted(const SiteRun& of, const hwdb::Site& site) {
  sim::Run run = of.run;
  hwdb::apply(site, hwdb::Frameworks::shipped(), run);
  return sim::predict(run).step_time.value();
}

TEST(SiteRowOf, SlopesHaveTheSignOfTheirEffects) {
  const SiteRow row = site_row(measured(32, {.step = 0.1}));
  EXPECT_NEAR(row.residual, 0.1, 0.02);
  EXPECT_GT(row.slopes.step, 0.8);  // start-up of kernels and messages stays
  EXPECT_LE(row.slopes.step, 1.0 + 1e-6);
  EXPECT_LT(row.slopes.memory, -0.02);
  EXPECT_LT(row.slopes.network, 0.0);
  EXPECT_GT(row.slopes.host, 0.0);
}

// What context ranks add.
double ranks_variance(const SiteRun& run) {
  const sim::PredictionErrors& errors = run.run.framework.errors;
  return errors.moe_site * errors.moe_site - errors.site * errors.site;
}

// Of the effects in the row of a run, without a site.
double prior_variance(const SiteRun& run, const SiteRow& row) {
  const sim::PredictionErrors& errors = run.run.framework.errors;
  const double step = errors.site * errors.site + errors.efficiency * errors.efficiency +
                      std::pow(run.run.cluster.device.achieved.training_rate_error, 2);
  const double cell = errors.cell * errors.cell;
  const double ranks = run.run.strategy.cp > 1 ? ranks_variance(run) : 0.0;
  return std::pow(row.slopes.step, 2) * (step + cell + ranks) +
         std::pow(errors.memory_bound * row.slopes.memory, 2) +
         std::pow(errors.collectives * row.slopes.network, 2) +
         std::pow(errors.hosts * row.slopes.host, 2);
}

// With a = variance of all effects in the row, b of the noise: a / (a + b).
void expect_shrinkage(const SiteRun& run) {
  const SiteRow row = site_row(run);
  const double a = prior_variance(run, row), b = std::pow(run.run.framework.errors.run, 2);
  const SiteFit fit = fit_site("ours", {run}, {}, "");
  const double before = predicted(run, {}), after = predicted(run, fit.site);
  EXPECT_NEAR(std::log(after / before), a / (a + b) * row.residual, 4e-4);
  EXPECT_NEAR(fit.rows[0].before, before, 1e-9 * before);
  EXPECT_NEAR(fit.rows[0].after, after, 1e-9 * after);
  // What is left: a b / (a + b) of the prediction, b of one more run.
  ASSERT_EQ(fit.site.cells.size(), 1U);
  EXPECT_NEAR(fit.site.cells[0].error, std::sqrt(a * b / (a + b)), 1e-3);
  EXPECT_NEAR(fit.site.run_error, std::sqrt(b), 1e-9);
  EXPECT_LT(fit.error, fit.prior_error);
  EXPECT_NEAR(fit.error, std::sqrt(a * b / (a + b) + b), 1e-3);
  EXPECT_NEAR(fit.prior_error, std::sqrt(a + b), 0.1 * fit.prior_error);
  EXPECT_NEAR(fit.rows[0].deviations, (std::log(run.measured) - std::log(after)) / std::sqrt(b),
              1e-6);
}

TEST(SiteFit, ALoneRunMovesByTheShrinkageWorkedOutByHand) {
  expect_shrinkage(measured(32, {.step = 0.06}));
  expect_shrinkage(measured(32, {.step = 0.06}, "pytorch", 2048, 2));  // may differ more
}

TEST(SiteFit, RunsWithRanksOutsideItsCellsMayDifferMore) {
  const SiteRun run = measured(32, {.step = 0.06});
  const hwdb::Site site = fit_site("ours", {run}, {}, "").site;
  EXPECT_GT(ranks_variance(run), 0.0);
  EXPECT_NEAR(std::pow(site.moe_error, 2) - std::pow(site.error, 2), ranks_variance(run), 1e-12);
}

sim::LayoutErrors layout_errors() {
  sim::LayoutErrors errors{.error = 0.1, .run = 0.04};
  errors.doublings.fill(2.0);
  return errors;
}

// Runs of micro-batches 1, 2 and 4, of which larger ones are slower.
std::vector<SiteRun> runs_of_micro_batches() {
  std::vector<SiteRun> runs;
  for (const int micro_batch : {1, 2, 4}) {
    SiteRun run = measured(64, {});
    run.run.strategy.micro_batch = micro_batch;
    run.measured = sim::predict(run.run).step_time.value() * std::exp(0.05 * micro_batch);
    runs.push_back(run);
  }
  return runs;
}

TEST(SiteFit, PredictionsWithTheSiteAreWhatTheFitSaysOfTheirLayouts) {
  const std::vector<SiteRun> runs = runs_of_micro_batches();
  const SiteFit fit = fit_site("ours", runs, layout_errors(), "");
  for (std::size_t i = 0; i < runs.size(); ++i)
    EXPECT_NEAR(predicted(runs[i], fit.site), fit.rows[i].after, 1e-9 * fit.rows[i].after) << i;
  SiteRun other = runs[2];
  other.run.strategy.micro_batch = 8;
  const SiteRow row = site_row(other);
  const double moved = std::log(predicted(other, fit.site) / predicted(other, {}));
  EXPECT_NEAR(moved, fit.posterior.mean_of(row), 2e-3);
  EXPECT_GT(moved, std::log(predicted(runs[0], fit.site) / predicted(runs[0], {})));
}

// The mean variance of the site's runs, as if they had the layout.
TEST(SiteFit, ErrorsWithTheSiteAreThoseOfTheFit) {
  const std::vector<SiteRun> runs = runs_of_micro_batches();
  const SiteFit fit = fit_site("ours", runs, layout_errors(), "");
  double before = 0.0;
  for (const int micro_batch : {2, 4, 8}) {
    sim::Run run = runs[0].run;
    run.strategy.micro_batch = micro_batch;
    double variance = 0.0;
    for (const SiteRun& known : runs) {
      SiteRow row = site_row(known);
      row.layout = hwdb::layout_of(run);
      variance += fit.posterior.variance_of(row) / 3.0;
    }
    hwdb::apply(fit.site, hwdb::Frameworks::shipped(), run);
    const double error = run.framework.errors.site;
    EXPECT_NEAR(error / std::sqrt(variance), 1.0, 0.05) << micro_batch;  // s is nearly 1
    EXPECT_GT(error, before) << micro_batch;                             // further from the runs
    before = error;
  }
}

TEST(SiteFit, ASavedSiteIsTheFittedOne) {
  const std::vector<SiteRun> runs = runs_of_micro_batches();
  const hwdb::Site fitted = fit_site("ours", runs, layout_errors(), "").site;
  hwdb::Database stored(":memory:");
  hwdb::put_site(stored, fitted, false);
  const hwdb::Site read = hwdb::site(stored, "ours");
  EXPECT_EQ(read.layouts.errors, fitted.layouts.errors);
  EXPECT_EQ(read.layouts.points, fitted.layouts.points);
  EXPECT_EQ(read.layouts.weights, fitted.layouts.weights);
  EXPECT_EQ(read.layouts.squares, fitted.layouts.squares);
  EXPECT_EQ(read.layouts.in_cell, fitted.layouts.in_cell);
  for (const SiteRun& run : runs) EXPECT_EQ(predicted(run, read), predicted(run, fitted));
}

TEST(SiteFit, TwoRunsHaveTheTailsOfFewAndThreeThoseOfMany) {
  std::vector<SiteRun> runs;
  for (const int batch : {8, 16, 32}) {
    runs.push_back(measured(batch, {}));
    sim::PredictionErrors& errors = runs.back().run.framework.errors;
    errors.few_faster = 2.0, errors.few_slower = 3.0;
    errors.site_faster = 1.5, errors.site_slower = 2.5;
  }
  const hwdb::Site many = fit_site("ours", runs, {}, "").site;
  EXPECT_EQ(std::pair(many.faster, many.slower), std::pair(1.5, 2.5));
  runs.pop_back();
  const hwdb::Site few = fit_site("ours", runs, {}, "").site;
  EXPECT_EQ(std::pair(few.faster, few.slower), std::pair(2.0, 3.0));
}

TEST(SiteFit, PlantedEffectsPredictRunsThatWereNotAmongThem) {
  const hwdb::SiteEffects truth{.step = 0.2, .memory = -0.15, .network = -0.25, .host = 0.2};
  std::vector<SiteRun> runs;
  for (const int batch : {8, 16, 32, 64})
    for (const int seq_len : {512, 2048, 8192})
      runs.push_back(measured(batch, truth, "pytorch", seq_len));
  const SiteFit fit = fit_site("ours", runs, {}, "");
  const SiteRun other = measured(128, truth, "pytorch", 4096);
  EXPECT_NEAR(predicted(other, fit.site) / other.measured, 1.0, 0.015);
  EXPECT_GT(std::abs(predicted(other, {}) / other.measured - 1.0), 0.1);
}

// A vocabulary of 50257 is trained as one of 50304 and more.
TEST(SiteFit, TimesAreThoseOfThePaddedVocabulary) {
  SiteRun run = measured(8, {}, "megatron-lm");
  run.run.model.vocab_size = 50257;
  ASSERT_GT(sim::trained_vocab_size(run.run), 50257);
  run.measured = sim::predict(run.run).step_time.value();
  EXPECT_NEAR(site_row(run).residual, 0.0, 1e-12);
  const SiteFit fit = fit_site("ours", {run}, {}, "");
  EXPECT_NEAR(fit.rows[0].before / run.measured, 1.0, 1e-12);
}

// Ten slow runs of one framework and one quick one of another: their cells part, and what is left
// of an unknown cell is more than of one that was measured.
TEST(SiteFit, CellsDifferByWhatTheirRunsSay) {
  std::vector<SiteRun> runs;
  for (const int batch : {8, 16, 24, 32, 40, 48}) {
    runs.push_back(measured(batch, {.step = 0.12}));
    runs.push_back(measured(batch, {.step = -0.12}, "megatron-lm"));
  }
  const SiteFit fit = fit_site("ours", runs, {}, "");
  ASSERT_EQ(fit.site.cells.size(), 2U);
  EXPECT_GT(fit.site.cells[0].step, 0.05);
  EXPECT_LT(fit.site.cells[1].step, -0.05);
  for (const hwdb::SiteCell& cell : fit.site.cells) EXPECT_LT(cell.error, fit.site.error);
  EXPECT_EQ(fit.site.cells[0].device, "h100_sxm");
  EXPECT_EQ(fit.site.cells[0].precision, "bf16");
  for (const SiteFitRow& row : fit.rows)
    EXPECT_LT(std::abs(std::log(row.measured / row.after)),
              0.5 * std::abs(std::log(row.measured / row.before)));
}

TEST(SiteCellsOf, DifferInWhatIsTrainedOnWhat) {
  std::vector<SiteRun> runs{measured(8, {}), measured(16, {}), measured(8, {}, "megatron-lm"),
                            measured(8, {}, "pytorch", 2048, 2)};
  runs.push_back(runs[0]), runs.back().run.cluster.device.id = "a100_sxm_80";
  runs.push_back(runs[0]), runs.back().run.strategy.precision = sim::Precision::Fp8;
  const SiteCells cells = site_cells(runs);
  EXPECT_EQ(cells.of_run, (std::vector<std::size_t>{0, 0, 1, 0, 2, 3}));
  ASSERT_EQ(cells.cells.size(), 4U);
  EXPECT_EQ(cells.cells[0].kind, hwdb::CellKind::Ranks);  // one of its runs has context ranks
  EXPECT_EQ(cells.cells[1].kind, hwdb::CellKind::Dense);
  EXPECT_EQ(cells.cells[1].framework, "megatron-lm");
  EXPECT_EQ(cells.cells[2].device, "a100_sxm_80");
  EXPECT_EQ(cells.cells[3].precision, "fp8");
  const auto key = [&](std::size_t i) {
    const hwdb::SiteCell& cell = cells.cells[i];
    return cell.device + cell.framework + cell.precision;
  };
  EXPECT_EQ(key(0), "h100_sxmpytorchbf16");
}

TEST(SiteFit, NamesItsRunsAndCells) {
  const SiteFit fit =
      fit_site("ours", {measured(8, {}), measured(16, {}, "megatron-lm")}, {}, "facts of today");
  EXPECT_EQ(fit.site.name, "ours");
  EXPECT_EQ(fit.site.fitted_from, "2 runs: a8, a16");
  EXPECT_EQ(fit.site.source, "site fit (calibrate/site_fit.h) to 2 runs, facts of today");
  ASSERT_EQ(fit.site.cells.size(), 2U);
  EXPECT_EQ(fit.site.cells[1].framework, "megatron-lm");
  EXPECT_EQ(fit.site.cells[1].kind, hwdb::CellKind::Dense);
}

TEST(SiteRuns, TakeTime) {
  hwdb::RunFile file = sample_group("ours", "h100_sxm", "pytorch", 1);
  file.runs[0].measured->step_time = sim::Seconds(0.0);
  EXPECT_NE(error_of([&] {
              site_runs(std::vector{file}, database());
            }).find("run ours1: measured.step_time_s is not positive"),
            std::string::npos);
}

TEST(SiteRuns, NameWhatCannotBeRead) {
  hwdb::RunFile file = sample_group("ours", "h100_sxm", "pytorch", 2);
  file.runs[1].training.strategy["tp"] = 3;
  const auto error = [&] { return error_of([&] { site_runs(std::vector{file}, database()); }); };
  EXPECT_TRUE(error().starts_with("ours.json: run ours2: ") ||
              error().find("run ours2") != std::string::npos)
      << error();
  file.rejected.push_back({"bad", "unknown key"});
  EXPECT_EQ(error(), "ours.json: run bad: unknown key");
}

TEST(SiteRuns, WithoutAMeasuredTimeAreAnError) {
  hwdb::RunFile file = sample_group("ours", "h100_sxm", "pytorch", 2);
  EXPECT_EQ(site_runs(std::vector{file}, database()).size(), 2U);
  file.runs[0].scored.step_time = false;
  EXPECT_EQ(site_runs(std::vector{file}, database()).size(), 1U);
  file.runs[1].scored.step_time = false;  // nothing is scored: what is measured counts
  EXPECT_EQ(site_runs(std::vector{file}, database()).size(), 2U);
  for (hwdb::RunRecord& run : file.runs) run.measured.reset();
  EXPECT_NE(llmsim::error_of([&] {
              site_runs(std::vector{file}, database());
            }).find("ours.json: no measured step time"),
            std::string::npos);
}

}  // namespace
}  // namespace llmsim::calibrate
