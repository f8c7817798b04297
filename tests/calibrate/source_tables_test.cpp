#include "calibrate/source_tables.h"

#include <cmath>

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using sim::Bytes;
using sim::Seconds;

hwdb::RunRecord run(const std::string& id, double seconds) {
  hwdb::RunRecord record;
  record.id = id;
  record.group = "g";
  record.measured.emplace();
  record.measured->step_time = Seconds(seconds);
  record.measured->outcome = "ok";
  record.scored.step_time = record.scored.outcome = true;
  return record;
}

// 2 s at 100 TFLOP/s of exact work; two stages of 100 and 80 bytes, of which 60 stay.
sim::Prediction prediction() {
  sim::Prediction p;
  p.step_time = Seconds(2.0);
  p.flops_per_device = 100.0 * sim::TFLOPS;
  p.memory.peak = Bytes(100.0);
  p.memory.reserved = Bytes(110.0);
  p.memory.stages = {{.stage = 0,
                      .peak = Bytes(100.0),
                      .terms = {{"weights", Bytes(40.0)},
                                {"optimizer_states", Bytes(20.0)},
                                {"logits", Bytes(40.0)}}},
                     {.stage = 1, .peak = Bytes(80.0), .terms = {{"weights", Bytes(80.0)}}}};
  return p;
}

hwdb::SourceTable table_of(std::vector<std::string> patterns) {
  hwdb::SourceTable table;
  table.title = "t";
  table.runs = std::move(patterns);
  return table;
}

std::vector<hwdb::RunFile> files(std::vector<hwdb::RunRecord> runs) {
  return {{.file = "f", .group = "g", .description = {}, .runs = std::move(runs), .rejected = {}}};
}

FilledProject fill(const hwdb::SourceTable& table, const std::vector<hwdb::RunFile>& runs,
                   const Ablations& ablations = {}) {
  hwdb::SourceProject project;
  project.groups = {"g"};
  project.tables = {table};
  return filled(project, runs, ablations, [](const hwdb::RunRecord&) { return prediction(); });
}

// Measured 4 s and predicted 2 s: the same FLOPs in half the time are twice the rate under any
// convention.
TEST(SourceRows, CarryRatesInTheSourcesConventionAndInRealWork) {
  hwdb::RunRecord record = run("a", 4.0);
  record.measured->reported_tflops_per_device = 75.0;
  const FilledProject project = fill(table_of({"a"}), files({record}));
  const SourceRow& row = project.tables[0].rows.at(0);
  EXPECT_NEAR(*row.predicted_reported_rate / sim::TFLOPS, 150.0, 1e-9);
  EXPECT_NEAR(*row.predicted_rate / sim::TFLOPS, 100.0, 1e-9);
  EXPECT_NEAR(*row.measured_rate / sim::TFLOPS, 50.0, 1e-9);
  EXPECT_NEAR(*row.time_error(), -std::log(2.0), 1e-12);
}

TEST(SourceTableErrors, CountScoredFiguresAndThoseOfTablesThatSayWhatTheyAssume) {
  hwdb::RunRecord unscored = run("b", 1.0);
  unscored.scored = {};
  hwdb::SourceTable table = table_of({"*"});
  EXPECT_EQ(errors_of(fill(table, files({run("a", 4.0), unscored})).tables[0]).times, 1);
  table.assumed.emplace();
  const TableErrors errors = errors_of(fill(table, files({run("a", 4.0), unscored})).tables[0]);
  EXPECT_EQ(errors.rows, 2);
  EXPECT_EQ(errors.times, 2);
  EXPECT_NEAR(*errors.time_worst, std::log(2.0), 1e-12);
  EXPECT_NEAR(*errors.time_median, std::log(2.0), 1e-12);
  EXPECT_EQ(errors.outcomes, 1);
  EXPECT_EQ(errors.outcomes_right, 1);
}

// Twice as fast as measured, of which a spread of a quarter explains ln 1.25.
TEST(SourceTableErrors, BeyondTheirNoiseAreWhatTheStatedSpreadLeaves) {
  hwdb::RunRecord noisy = run("a", 4.0);
  noisy.noise = 0.25;
  const FilledTable table = fill(table_of({"*"}), files({noisy})).tables[0];
  EXPECT_NEAR(*table.rows[0].error_beyond_noise(), std::log(1.25 / 2.0), 1e-12);
  EXPECT_NEAR(*errors_of(table).worst_beyond_noise, std::log(2.0 / 1.25), 1e-12);
  noisy.noise = 2.0;
  EXPECT_EQ(*errors_of(fill(table_of({"*"}), files({noisy})).tables[0]).worst_beyond_noise, 0.0);
  noisy.noise.reset();
  const FilledTable plain = fill(table_of({"*"}), files({noisy})).tables[0];
  EXPECT_FALSE(plain.rows[0].error_beyond_noise());
  EXPECT_NEAR(*errors_of(plain).worst_beyond_noise, std::log(2.0), 1e-12);
}

TEST(StageRows, CompareWhatStaysAndThePeakOfThatStage) {
  hwdb::SourceTable table;
  table.stages = {
      {.run = "a",
       .stage = "first",
       .allocated = Bytes(60.0),
       .peak = Bytes(100.0),
       .reserved = Bytes(120.0)},
      {.run = "a", .stage = "last", .allocated = {}, .peak = Bytes(40.0), .reserved = {}}};
  const FilledProject project = fill(table, files({run("a", 1.0)}));
  const std::vector<StageRow>& rows = project.tables[0].stages;
  EXPECT_EQ(*rows[0].predicted_resident, Bytes(60.0));
  EXPECT_NEAR(rows[0].predicted_reserved->value(), 110.0, 1e-9);
  EXPECT_EQ(*rows[0].measured_resident, Bytes(60.0));
  EXPECT_EQ(*rows[0].measured_peak, Bytes(100.0));
  EXPECT_EQ(*rows[0].measured_reserved, Bytes(120.0));
  EXPECT_FALSE(rows[1].measured_reserved);
  EXPECT_EQ(*rows[1].predicted_peak, Bytes(80.0));
  EXPECT_NEAR(*errors_of(project.tables[0]).peak_worst, std::log(2.0), 1e-12);
  table.stages[0].run = "nonesuch";
  EXPECT_THROW(fill(table, files({run("a", 1.0)})), Error);
}

TEST(StageRows, OfTheMiddleAreThoseOfTheMiddleStage) {
  hwdb::SourceTable table;
  for (const char* stage : {"first", "middle", "last"})
    table.stages.push_back(
        {.run = "a", .stage = stage, .allocated = {}, .peak = Bytes(50.0), .reserved = {}});
  hwdb::SourceProject project;
  project.tables = {table};
  const auto peaks = [&](const sim::Prediction& predicted) {
    return filled(project, files({run("a", 1.0)}), {},
                  [&](const hwdb::RunRecord&) { return predicted; })
        .tables[0];
  };
  sim::Prediction three = prediction();
  three.memory.stages.insert(three.memory.stages.begin() + 1,
                             {.stage = 1, .peak = Bytes(25.0), .terms = {}});
  const FilledTable table_of_three = peaks(three);
  EXPECT_EQ(*table_of_three.stages[0].predicted_peak, Bytes(100.0));
  EXPECT_EQ(*table_of_three.stages[1].predicted_peak, Bytes(25.0));
  EXPECT_EQ(*table_of_three.stages[2].predicted_peak, Bytes(80.0));
  // ln 2, ln 2 and ln 1.6.
  const TableErrors errors = errors_of(table_of_three);
  EXPECT_EQ(errors.peaks, 3);
  EXPECT_EQ(errors.rows, 3);
  EXPECT_NEAR(*errors.peak_median, std::log(2.0), 1e-12);
  EXPECT_NEAR(*errors.peak_worst, std::log(2.0), 1e-12);
  sim::Prediction none;
  EXPECT_FALSE(peaks(none).stages[0].predicted_peak);
  EXPECT_EQ(errors_of(peaks(none)).peaks, 0);
}

// Two of three verdicts are right, and a run that crashed has none.
TEST(SourceTableErrors, CountVerdicts) {
  std::vector<hwdb::RunRecord> runs{run("a", 1.0), run("b", 1.0), run("c", 1.0), run("d", 1.0)};
  runs[1].measured->outcome = "oom";
  runs[2].measured->outcome = "crash";
  const TableErrors errors = errors_of(fill(table_of({"*"}), files(runs)).tables[0]);
  EXPECT_EQ(errors.outcomes, 3);
  EXPECT_EQ(errors.outcomes_right, 2);
  EXPECT_EQ(errors_of(fill(table_of({"a", "c"}), files(runs)).tables[0]).rows, 2);
  for (hwdb::RunRecord& one : runs) one.scored.outcome = false;
  EXPECT_EQ(errors_of(fill(table_of({"*"}), files(runs)).tables[0]).outcomes, 0);
}

TEST(SourceTables, OfPairsTakeThoseOfTheProjectsGroups) {
  AblationPair own, other;
  own.setting = other.setting = "compile";
  own.group = "g";
  other.group = "h";
  Ablations ablations;
  ablations.pairs = {own, other};
  hwdb::SourceTable table;
  table.comparisons = {"compile"};
  const FilledProject project = fill(table, files({run("a", 1.0)}), ablations);
  ASSERT_EQ(project.tables[0].pairs.size(), 1u);
  EXPECT_EQ(project.tables[0].pairs[0].group, "g");
}

}  // namespace
}  // namespace llmsim::calibrate
