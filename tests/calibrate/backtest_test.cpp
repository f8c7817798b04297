#include "calibrate/backtest.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using sim::Bytes;
using sim::Seconds;

hwdb::RunRecord scored(const std::string& id, double seconds) {
  hwdb::RunRecord record;
  record.id = id;
  record.measured.emplace();
  record.measured->step_time = Seconds(seconds);
  record.scored.step_time = true;
  return record;
}

hwdb::RunRecord finished(const std::string& id, const std::string& outcome) {
  hwdb::RunRecord record;
  record.id = id;
  record.measured.emplace();
  record.measured->outcome = outcome;
  record.scored.outcome = true;
  return record;
}

hwdb::RunFile group(const std::string& name, std::vector<hwdb::RunRecord> runs) {
  for (hwdb::RunRecord& run : runs) run.group = name;
  return {.file = name + ".json",
          .group = name,
          .description = {},
          .runs = std::move(runs),
          .rejected = {}};
}

sim::Prediction step(double seconds, double low, double high) {
  sim::Prediction prediction;
  prediction.step_time = Seconds(seconds);
  prediction.interval = {Seconds(low), Seconds(high)};
  return prediction;
}

Backtest always(const std::vector<hwdb::RunFile>& files, const sim::Prediction& prediction) {
  return backtest(files, Scope::All, [&](const hwdb::RunRecord&) { return prediction; });
}

// Predicted 2 s for runs of 1, 2 and 4 s: ln(p / m) = ln 2, 0, -ln 2.
TEST(Backtest, TheErrorOfAGroupIsTheMedianOfItsAbsoluteLogErrors) {
  const Backtest result = always(
      {group("g", {scored("a", 1.0), scored("b", 2.0), scored("c", 4.0)})}, step(2.0, 1.5, 4.0));
  ASSERT_EQ(result.groups.size(), 1u);
  const GroupErrors& g = result.groups.front();
  EXPECT_EQ(g.scored, 3);
  EXPECT_NEAR(*g.median_abs_error, std::log(2.0), 1e-12);
  EXPECT_NEAR(*g.mean_abs_error, 2.0 * std::log(2.0) / 3.0, 1e-12);
  EXPECT_NEAR(*g.mape, (1.0 + 0.0 + 0.5) / 3.0, 1e-12);
  EXPECT_NEAR(*g.bias, 0.0, 1e-12);
  EXPECT_NEAR(*g.coverage, 2.0 / 3.0, 1e-12);  // 2 and 4 lie inside, both ends included
}

TEST(Backtest, EachGroupCountsOnceHoweverManyRunsItHas) {
  std::vector<hwdb::RunRecord> many;
  for (int i = 0; i < 100; ++i) many.push_back(scored("m" + std::to_string(i), 2.0));
  const Backtest result = always(
      {group("many", many), group("few", {scored("a", 1.0), scored("b", 1.0), scored("c", 1.0)})},
      step(2.0, 2.0, 2.0));
  EXPECT_EQ(result.overall.groups, 2);
  EXPECT_EQ(result.overall.scored, 103);
  EXPECT_NEAR(*result.overall.macro_median_abs_error, std::log(2.0) / 2.0, 1e-12);
  EXPECT_NEAR(*result.overall.coverage, 0.5, 1e-12);
}

TEST(Backtest, GroupsOfFewerThanThreeScoredTimesArePooled) {
  const Backtest result =
      always({group("x", {scored("a", 1.0), scored("b", 2.0)}), group("y", {scored("c", 4.0)})},
             step(2.0, 2.0, 2.0));
  ASSERT_EQ(result.groups.size(), 1u);
  EXPECT_EQ(result.groups.front().group, "(small groups)");
  EXPECT_EQ(result.groups.front().scored, 3);
  EXPECT_EQ(result.overall.groups, 1);
}

TEST(Backtest, ARunThatCannotBePredictedIsListedAndCountsAsAnErrorOfOne) {
  const auto predict = [](const hwdb::RunRecord& record) {
    if (record.id == "bad") throw Error("no such device");
    return step(2.0, 1.0, 3.0);
  };
  const std::vector files{group("g", {scored("a", 2.0), scored("b", 2.0), scored("bad", 2.0)})};
  const Backtest result = backtest(files, Scope::All, predict);
  EXPECT_EQ(result.rows[2].skipped, "no such device");
  EXPECT_FALSE(result.rows[2].predicted_time);
  EXPECT_EQ(result.groups.front().missed, 1);
  EXPECT_NEAR(*result.groups.front().mean_abs_error, 1.0 / 3.0, 1e-12);
  EXPECT_NEAR(*result.groups.front().coverage, 2.0 / 3.0, 1e-12);
  EXPECT_NEAR(*result.groups.front().bias, 0.0, 1e-12);  // of the predicted runs
}

TEST(Backtest, UnscoredTimesAreReportedButNotCounted) {
  hwdb::RunRecord record = scored("a", 1.0);
  record.scored.step_time = false;
  const Backtest result = always({group("g", {record})}, step(2.0, 1.0, 3.0));
  EXPECT_EQ(result.rows.front().measured_time, Seconds(1.0));
  EXPECT_EQ(result.rows.front().predicted_time, Seconds(2.0));
  EXPECT_TRUE(result.groups.empty());
  EXPECT_FALSE(result.overall.macro_median_abs_error);
}

TEST(Backtest, RejectedAndRepeatedRunsAreListedWithTheReason) {
  hwdb::RunFile file = group("g", {scored("a", 1.0), scored("a", 1.0)});
  file.rejected.push_back({"b", "unknown key"});
  const Backtest result = always({file}, step(1.0, 1.0, 1.0));
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_FALSE(result.rows[0].skipped);
  EXPECT_EQ(result.rows[1].skipped, "g.json: run a: this id appears twice");
  EXPECT_EQ(result.rows[2].skipped, "unknown key");
  EXPECT_FALSE(result.rows[0].unread);
  EXPECT_TRUE(result.rows[1].unread);
  EXPECT_TRUE(result.rows[2].unread);
}

// Three runs that ran, one that did not fit; everything is said to fit: 3 of 4 right, balanced (1 +
// 0) / 2.
TEST(Backtest, BothOutcomesCountTheSameInTheBalancedAccuracy) {
  const std::vector files{group("g", {finished("a", "ok"), finished("b", "ok"), finished("c", "ok"),
                                      finished("d", "oom"), finished("e", "crash")})};
  const Backtest result = always(files, step(1.0, 1.0, 1.0));
  EXPECT_EQ(result.groups.front().outcomes, 4);
  EXPECT_EQ(result.groups.front().outcomes_right, 3);
  const OverallErrors& overall = result.overall;
  EXPECT_EQ(overall.outcomes, 4);
  EXPECT_EQ(overall.outcomes_right, 3);
  EXPECT_NEAR(*overall.outcome_accuracy, 0.75, 1e-12);
  EXPECT_NEAR(*overall.balanced_outcome_accuracy, 0.5, 1e-12);
}

TEST(Backtest, AnOutcomeThatIsNotScoredCountsForNothing) {
  hwdb::RunRecord other = finished("b", "oom");
  other.scored.outcome = false;
  const Backtest result = always({group("g", {finished("a", "ok"), other})}, step(1.0, 1.0, 1.0));
  EXPECT_EQ(result.overall.outcomes, 1);
}

TEST(Backtest, SaysHowFarItIs) {
  std::vector<std::pair<std::size_t, std::size_t>> seen;
  backtest(
      std::vector{group("g", {scored("a", 1.0), scored("b", 1.0)}), group("h", {scored("c", 1.0)})},
      Scope::All, [](const hwdb::RunRecord&) { return step(1.0, 1.0, 1.0); },
      [&](std::size_t done, std::size_t all) { seen.emplace_back(done, all); });
  EXPECT_EQ(seen.front(), std::pair(std::size_t{0}, std::size_t{3}));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(seen[i].first, i);
}

TEST(Backtest, OutOfMemoryIsAVerdictAndAnotherBrokenRuleIsNot) {
  sim::Prediction prediction = step(1.0, 1.0, 1.0);
  prediction.infeasible = sim::Infeasible{"out of memory", "needs 90 GB"};
  EXPECT_EQ(always({group("g", {finished("a", "oom")})}, prediction).overall.outcomes_right, 1);
  prediction.infeasible = sim::Infeasible{"tp does not divide heads", "tp = 3"};
  const BacktestRow row = always({group("g", {finished("a", "oom")})}, prediction).rows.front();
  EXPECT_EQ(row.predicted_outcome, "infeasible");
  EXPECT_EQ(row.skipped, "tp = 3");
}

TEST(Backtest, ARowNamesWhatItWasPredictedWith) {
  sim::Prediction prediction = step(2.0, 1.5, 2.5);
  prediction.run.cluster.device.id = "d", prediction.run.framework.id = "f";
  prediction.run.strategy.precision = sim::Precision::Fp8;
  prediction.flops_per_device = 3.0 * sim::TFLOPS;
  prediction.tokens_per_second_per_device = 7.0;
  hwdb::RunRecord record = scored("a", 2.0);
  record.measured->outcome = "ok";
  const BacktestRow row = always({group("g", {record})}, prediction).rows.front();
  EXPECT_EQ(row.id + row.group + row.device + row.framework + row.precision, "agdffp8");
  EXPECT_EQ(*row.predicted_rate, 3.0 * sim::TFLOPS);
  EXPECT_EQ(*row.predicted_tokens_per_second, 7.0);
  EXPECT_EQ(row.measured_outcome, "ok");
  EXPECT_EQ(row.predicted_outcome, "ok");
  EXPECT_EQ(row.time_inside(), true);
  EXPECT_FALSE(row.unread);
  EXPECT_FALSE(row.skipped);
}

TEST(Backtest, ARunWaitsForTheLargestTermThatIsNoArithmetic) {
  sim::Prediction prediction = step(10.0, 9.0, 11.0);
  EXPECT_EQ(always({group("g", {finished("a", "ok")})}, prediction).rows.front().waits_for, "none");
  prediction.breakdown = {{"forward_gemm", sim::Seconds(6.0)},
                          {"tensor_exposed", sim::Seconds(1.0)},
                          {"host", sim::Seconds(3.0)}};
  EXPECT_EQ(always({group("g", {finished("a", "ok")})}, prediction).rows.front().waits_for, "host");
  std::ranges::reverse(prediction.breakdown);
  EXPECT_EQ(always({group("g", {finished("a", "ok")})}, prediction).rows.front().waits_for, "host");
}

sim::Memory three_stages() {
  sim::Memory memory;
  memory.peak = Bytes(100.0);
  memory.context = Bytes(10.0);
  memory.stages = {{.stage = 0, .peak = Bytes(80.0), .reserved = Bytes(125.0), .terms = {}},
                   {.stage = 1, .peak = Bytes(100.0), .reserved = Bytes(120.0), .terms = {}},
                   {.stage = 2, .peak = Bytes(50.0), .reserved = Bytes(60.0), .terms = {}}};
  return memory;
}

Bytes compared(const std::string& kind, const std::string& scope) {
  hwdb::Measured measured;
  if (!kind.empty()) measured.memory_kind = kind;
  if (!scope.empty()) measured.memory_scope = scope;
  return comparable_peak(three_stages(), measured);
}

TEST(ComparablePeak, IsThatOfTheKindAndTheStageThatWasMeasured) {
  EXPECT_EQ(compared("allocated", ""), Bytes(100.0));
  EXPECT_EQ(compared("allocated", "max-rank"), Bytes(100.0));
  EXPECT_EQ(compared("allocated", "last-stage"), Bytes(50.0));
  EXPECT_EQ(compared("allocated", "first-or-last-stage"), Bytes(80.0));
  // The stage that reserves most need not be the one that allocates most.
  EXPECT_EQ(compared("reserved", ""), Bytes(125.0));
  EXPECT_EQ(compared("", ""), Bytes(125.0));
  EXPECT_EQ(compared("reserved", "last-stage"), Bytes(60.0));
  // And 10 of the driver.
  EXPECT_EQ(compared("device", "first-or-last-stage"), Bytes(125.0 + 10.0));
}

TEST(Backtest, MemoryErrorsAreMedianByGroupAndMeanOverRuns) {
  hwdb::RunRecord record;
  record.id = "a";
  record.measured.emplace();
  record.measured->peak_memory = Bytes(50.0);
  record.measured->memory_kind = "allocated";
  record.scored.memory = true;
  sim::Prediction prediction = step(1.0, 1.0, 1.0);
  prediction.memory = three_stages();
  const Backtest result = always({group("g", {record})}, prediction);
  EXPECT_NEAR(*result.groups.front().memory_median_abs_error, std::log(2.0), 1e-12);
  EXPECT_NEAR(*result.overall.memory_mape, 1.0, 1e-12);
}

// Predicted 100 bytes for peaks of 50 and 110: |ln| of 0.69 and 0.095, of which an error of 10 %
// holds the second in 2.1318 times 10 %.
TEST(Backtest, PeaksHaveIntervalsAndCoverage) {
  std::vector<hwdb::RunRecord> records(2);
  for (std::size_t i : {0u, 1u}) {
    records[i].id = std::to_string(i);
    records[i].measured.emplace();
    records[i].measured->peak_memory = Bytes(i == 0 ? 50.0 : 110.0);
    records[i].measured->memory_kind = "allocated";
    records[i].scored.memory = true;
  }
  sim::Prediction prediction = step(1.0, 1.0, 1.0);
  prediction.memory = three_stages();
  prediction.memory.error = 0.1;
  const Backtest result = always({group("g", records)}, prediction);
  EXPECT_NEAR(result.rows[0].peak_interval->second.value(), 100.0 * std::exp(0.21318), 1e-3);
  EXPECT_NEAR(*result.groups.front().memory_coverage, 0.5, 1e-12);
  EXPECT_NEAR(*result.overall.memory_coverage, 0.5, 1e-12);
}

// Exactly what is there is needed: P = 1/2, whose Brier score is 1/4 either way.  Without room on
// the host P = 0: 1 for a run that ran.
TEST(Backtest, VerdictsHaveABrierScore) {
  sim::Prediction prediction = step(1.0, 1.0, 1.0);
  prediction.memory.peak = prediction.memory.capacity = Bytes(100.0);
  prediction.memory.needed_error = 0.1;
  const std::vector files{group("g", {finished("a", "ok"), finished("b", "oom")})};
  const Backtest even = always(files, prediction);
  EXPECT_NEAR(*even.rows[0].fit_probability, 0.5, 1e-12);
  EXPECT_NEAR(*even.overall.brier_score, 0.25, 1e-12);
  prediction.memory.host = {.node = Bytes(2.0), .capacity = Bytes(1.0)};
  prediction.infeasible = sim::Infeasible{"out of host memory", "needs 2"};
  EXPECT_NEAR(*always({group("g", {finished("a", "ok")})}, prediction).overall.brier_score, 1.0,
              1e-12);
}

// 2 s for runs of 1, 4 and 2 s, the last without a prediction, in two groups.
TEST(Backtest, PooledGroupsKeepAllTheirErrors) {
  const auto predict = [](const hwdb::RunRecord& record) {
    if (record.id == "c") throw Error("unknown");
    return step(2.0, 1.5, 4.0);
  };
  const std::vector files{group("x", {scored("a", 1.0), scored("b", 4.0)}),
                          group("y", {scored("c", 2.0)})};
  const Backtest result = backtest(files, Scope::All, predict);
  ASSERT_EQ(result.groups.size(), 1u);
  const GroupErrors& pooled = result.groups.front();
  EXPECT_EQ(pooled.scored, 3);
  EXPECT_EQ(pooled.missed, 1);
  EXPECT_NEAR(*pooled.median_abs_error, std::log(2.0), 1e-12);
  EXPECT_NEAR(*pooled.mean_abs_error, (2.0 * std::log(2.0) + 1.0) / 3.0, 1e-12);
  EXPECT_NEAR(*pooled.mape, (1.0 + 0.5 + 1.0) / 3.0, 1e-12);
  EXPECT_NEAR(*pooled.bias, 0.0, 1e-12);
  EXPECT_NEAR(*pooled.coverage, 1.0 / 3.0, 1e-12);
  EXPECT_EQ(result.overall.missed, 1);
  EXPECT_NEAR(*result.overall.macro_mean_abs_error, *pooled.mean_abs_error, 1e-12);
}

// Three times are no small group: they stand beside the pool.
TEST(Backtest, ThreeScoredTimesAreAGroupOfTheirOwn) {
  const Backtest result =
      always({group("x", {scored("a", 1.0), scored("b", 1.0), scored("c", 1.0)}),
              group("y", {scored("d", 4.0)})},
             step(2.0, 1.0, 3.0));
  ASSERT_EQ(result.groups.size(), 2u);
  EXPECT_EQ(result.groups[0].group, "(small groups)");
  EXPECT_EQ(result.groups[1].group, "x");
  EXPECT_NEAR(*result.groups[1].bias, std::log(2.0), 1e-12);
  EXPECT_NEAR(*result.rows[0].time_error(), std::log(2.0), 1e-12);
  EXPECT_EQ(result.overall.groups, 2);
  EXPECT_EQ(result.overall.scored, 4);
}

TEST(Backtest, AStepThatTakesNoTimeOrForeverIsNoPrediction) {
  for (const double seconds : {0.0, -1.0, HUGE_VAL, std::nan("")}) {
    const BacktestRow row =
        always({group("g", {scored("a", 1.0)})}, step(seconds, 1.0, 2.0)).rows.front();
    EXPECT_FALSE(row.predicted_time) << seconds;
    EXPECT_FALSE(row.interval);
    EXPECT_FALSE(row.time_inside());
    EXPECT_FALSE(row.predicted_peak);  // a memory of no bytes
  }
  EXPECT_TRUE(always({group("g", {scored("a", 1.0)})}, step(1.5, 1.0, 2.0)).rows.front().interval);
}

TEST(Backtest, APeakWithoutAPredictionIsAnErrorOfOneOutsideEveryInterval) {
  hwdb::RunRecord peak;
  peak.id = "a";
  peak.measured.emplace();
  peak.measured->peak_memory = Bytes(50.0);
  peak.scored.memory = true;
  hwdb::RunRecord unscored = peak;
  unscored.id = "b", unscored.scored.memory = false;
  const Backtest result = always({group("g", {peak, unscored})}, step(1.0, 1.0, 1.0));
  EXPECT_EQ(result.overall.memory_scored, 1);
  EXPECT_EQ(*result.groups.front().memory_median_abs_error, 1.0);
  EXPECT_EQ(*result.groups.front().memory_coverage, 0.0);
  EXPECT_EQ(*result.overall.memory_mape, 1.0);
}

// Half of "ok" and all of "oom" are right.
TEST(Backtest, AWrongOrMissingVerdictScoresOne) {
  const auto predict = [](const hwdb::RunRecord& record) {
    sim::Prediction prediction = step(1.0, 1.0, 1.0);
    prediction.memory.peak = Bytes(record.id == "fits" ? 1.0 : 3.0);
    prediction.memory.capacity = Bytes(2.0);
    if (record.id != "fits") prediction.infeasible = sim::Infeasible{"out of memory", ""};
    if (record.id == "none") throw Error("unknown");
    return prediction;
  };
  const std::vector files{
      group("g", {finished("fits", "ok"), finished("wrong", "ok"), finished("too large", "oom")})};
  const OverallErrors errors = backtest(files, Scope::All, predict).overall;
  EXPECT_NEAR(*errors.outcome_accuracy, 2.0 / 3.0, 1e-12);
  EXPECT_NEAR(*errors.balanced_outcome_accuracy, 0.75, 1e-12);
  EXPECT_NEAR(*errors.brier_score, 1.0 / 3.0, 1e-12);
  const std::vector none{group("g", {finished("fits", "ok"), finished("none", "oom")})};
  EXPECT_NEAR(*backtest(none, Scope::All, predict).overall.brier_score, 0.5, 1e-12);
  EXPECT_FALSE(always({group("g", {scored("a", 1.0)})}, step(1.0, 1.0, 1.0)).overall.brier_score);
}

// A study of steps of `batches` whose times lie on a line, but the last `off` of them.
std::vector<hwdb::RunFile> on_a_line(int batches, int off) {
  std::vector<hwdb::RunRecord> runs;
  for (int n = 1; n <= batches; ++n) {
    const double bend = n > batches - off ? 1e-3 * (n % 2 ? 1.0 : -1.0) : 0.0;
    runs.push_back(scored(std::to_string(n), 0.123456789 + 0.2345678912 * n + bend));
    runs.back().training.strategy["global_batch"] = 8 * n;
  }
  return {group("line", runs)};
}

TEST(ComputedGroups, HaveThreeTriplesOnALineAndMoreThanHalf) {
  EXPECT_TRUE(computed_groups(on_a_line(4, 0)).empty());  // two triples
  EXPECT_EQ(computed_groups(on_a_line(5, 0)).size(), 1u);
  EXPECT_EQ(computed_groups(on_a_line(7, 1)).size(), 1u);   // 4 of 5: the last has the last time
  EXPECT_EQ(computed_groups(on_a_line(8, 3)).size(), 0u);   // 3 of 6
  EXPECT_EQ(computed_groups(on_a_line(8, 2)).size(), 1u);   // 4 of 6
  EXPECT_TRUE(computed_groups(on_a_line(12, 10)).empty());  // none
}

TEST(ComputedGroups, NeedTimesThatAreScoredAndPrintedExactly) {
  std::vector<hwdb::RunFile> files = on_a_line(6, 0);
  for (hwdb::RunRecord& run : files[0].runs) run.scored.step_time = false;
  EXPECT_TRUE(computed_groups(files).empty());
  files = on_a_line(6, 0);
  for (hwdb::RunRecord& run : files[0].runs)
    run.measured->step_time = Seconds(0.25 * std::stoi(run.id));
  EXPECT_TRUE(computed_groups(files).empty());
  files = on_a_line(6, 0);
  for (hwdb::RunRecord& run : files[0].runs) run.training.strategy.erase("global_batch");
  EXPECT_TRUE(computed_groups(files).empty());
  // Runs that differ in more than the batch are on no line.
  files = on_a_line(6, 0);
  for (hwdb::RunRecord& run : files[0].runs)
    run.training.strategy["micro_batch"] = std::stoi(run.id);
  EXPECT_TRUE(computed_groups(files).empty());
}

TEST(UnfittedGroups, AreComputedOrHaveAnEffectThatTheModelDoesNot) {
  std::vector<hwdb::RunFile> files = on_a_line(6, 0);
  files.push_back(group("odd", {}));
  files.back().unmodelled = "spot instances";
  files.push_back(group("sound", {scored("s", 1.0)}));
  const std::map<std::string, std::string> reasons = unfitted_groups(files);
  EXPECT_EQ(reasons.size(), 2u);
  EXPECT_EQ(reasons.at("odd"), "spot instances");
  EXPECT_TRUE(reasons.contains("line"));
}

TEST(Scope, ExpertsAndExpertOrContextParallelismAreNotDense) {
  hwdb::RunRecord dense, experts, context;
  experts.model.fields["moe.num_experts"] = 8;
  context.training.strategy["cp"] = 2;
  EXPECT_TRUE(in_scope(dense, Scope::Dense));
  EXPECT_FALSE(in_scope(dense, Scope::Moe));
  EXPECT_FALSE(in_scope(experts, Scope::Dense));
  EXPECT_TRUE(in_scope(context, Scope::Moe));
  EXPECT_TRUE(in_scope(context, Scope::All));
  hwdb::RunRecord ranks, alone;
  ranks.training.strategy["ep"] = 2;
  alone.training.strategy["ep"] = alone.training.strategy["cp"] = 1;
  EXPECT_TRUE(in_scope(ranks, Scope::Moe));
  EXPECT_TRUE(in_scope(alone, Scope::Dense));
}

}  // namespace
}  // namespace llmsim::calibrate
