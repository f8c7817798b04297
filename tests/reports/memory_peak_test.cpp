#include "reports/memory_peak.h"

#include <algorithm>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reports/json.h"
#include "tests/reports/sample_prediction.h"
#include "tests/sim/sample_run.h"

namespace llmsim::reports {

namespace {

sim::Bytes size_at(const Table& table, std::size_t row) {
  return std::get<sim::Bytes>(table.rows()[row][1]);
}
std::string text_at(const Table& table, std::size_t row, std::size_t column) {
  return std::get<std::string>(table.rows()[row][column]);
}

// Two points: 2 GiB, and 4 GiB in the loss of the third micro-batch.
sim::MemoryCurve two_points() {
  sim::MemoryTerms logits;
  logits[sim::MemoryKind::Logits] = 4 * sim::GiB;
  return {
      .stage = 1,
      .points = {{.phase = "idle", .allocated = 2 * sim::GiB},
                 {.phase = "loss", .micro_batch = 2, .allocated = 4 * sim::GiB, .terms = logits}},
      .highest = 1,
      .fragmentation = 1.5};
}

TEST(MemoryPeak, ThePlaceIsCountedFromOne) {
  sim::Prediction p = sample_prediction();
  EXPECT_EQ(peak_phase_text(p), "stage 1 of 2, loss of micro-batch 2 of 4");
  p.memory_peak.phase = "backward", p.memory_peak.layer = 1;
  EXPECT_EQ(peak_phase_text(p), "stage 1 of 2, backward pass of layer 2 of 2, micro-batch 2 of 4");
  p.run.strategy.pp = 1;
  p.memory_peak = {.phase = "update"};
  EXPECT_EQ(peak_phase_text(p), "optimizer update");
}

TEST(MemoryPeak, TheTableAddsUpToThePeakAndToWhatIsNeeded) {
  sim::Prediction p = sample_prediction();
  p.memory.margin = 0.5 * sim::GiB;
  const Table table = peak_table(p);
  ASSERT_EQ(table.rows().size(), 6U);
  EXPECT_EQ(text_at(table, 0, 0), "activations");  // the largest first
  EXPECT_EQ(text_at(table, 0, 3), "2 blocks of 2 forward passes");
  EXPECT_EQ(text_at(table, 1, 3), "2.15 bytes for each of 0.5000 B parameters");  // 2^30 / 5e8
  EXPECT_EQ(size_at(table, 2), size_at(table, 0) + size_at(table, 1));
  EXPECT_EQ(size_at(table, 2), p.memory.peak);
  EXPECT_EQ(size_at(table, 5), 4.5 * sim::GiB);  // 3 + 0.5 + 1
  EXPECT_EQ(std::get<double>(table.rows()[5][2]), 1.5);
}

TEST(MemoryPeak, TheCurveHasABarForEachPointAndMarksThePeak) {
  const Table table = curve_table(sample_prediction(), two_points(), Format::Table);
  EXPECT_EQ(table.title(), "Memory through the step of stage 2 of 2");
  EXPECT_EQ(text_at(table, 0, 5), std::string(20, '#'));
  EXPECT_EQ(text_at(table, 1, 5), std::string(40, '#') + " peak");
  EXPECT_TRUE(std::holds_alternative<std::monostate>(table.rows()[0][1]));
  EXPECT_EQ(std::get<std::int64_t>(table.rows()[1][1]), 3);
  const Table machine = curve_table(sample_prediction(), two_points(), Format::Csv);
  EXPECT_EQ(std::get<std::int64_t>(machine.rows()[1][1]), 2);
  EXPECT_EQ(machine.columns().size(), 5U);
}

TEST(MemoryPeak, JsonCountsFromZeroAndAddsUpToo) {
  sim::Prediction p = sample_prediction();
  const Json peak = prediction_json(p, {})["memory"]["peak"];
  EXPECT_EQ(peak["stage"], 0);
  EXPECT_EQ(peak["micro_batch"], 1);
  EXPECT_TRUE(peak["layer"].is_null());
  double sum = peak["gaps_bytes"].get<double>() + peak["context_bytes"].get<double>();
  for (const auto& [name, size] : peak["terms"].items()) sum += size.get<double>();
  EXPECT_EQ(sum, peak["needed_bytes"].get<double>());

  const Json curve = curve_json(two_points());
  EXPECT_EQ(curve["highest"], 1);
  EXPECT_EQ(curve["points"][1]["micro_batch"], 2);
  EXPECT_EQ(curve["points"][1]["terms"]["logits"], 4294967296);
  EXPECT_TRUE(curve["points"][0]["micro_batch"].is_null());
}

}  // namespace

namespace {

using nlohmann::json;

sim::Prediction predicted() {
  sim::TrainingRun run = sim::small_run(4);
  run.strategy.pp = 2, run.strategy.dp = 2;
  return sim::predict(run);
}

TEST(TensorTable, RowsAddUpToThePeakLargestFirst) {
  const sim::Prediction p = predicted();
  const json rows = json::parse(render(tensor_table(p), Format::Json));
  double sum = 0.0, before = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    const double size = rows[i]["size_bytes"];
    EXPECT_LE(size, before);
    sum += size, before = size;
  }
  EXPECT_EQ(rows.back()["tensor"], "peak");
  EXPECT_EQ(rows.back()["size_bytes"], p.memory.peak.value());
  EXPECT_NEAR(sum, p.memory.peak.value(), 1.0);
}

// A tensor of each of a stage's 4 blocks, for as many micro-batches as are in flight.
TEST(TensorTable, SaysOfWhichLayersAndMicroBatchesATensorIs) {
  const sim::Prediction p = predicted();
  const json rows = json::parse(render(tensor_table(p), Format::Json));
  const auto q =
      std::find_if(rows.begin(), rows.end(), [](const json& row) { return row["tensor"] == "q"; });
  ASSERT_NE(q, rows.end());
  EXPECT_EQ((*q)["shape"], "1024 x 1024");
  EXPECT_EQ((*q)["dtype"], "bf16");
  EXPECT_EQ((*q)["layers"], 4);
  EXPECT_EQ((*q)["micro_batches"], p.memory_peak.passes_in_flight);
  EXPECT_EQ((*q)["why"], "saved: core attention");
  EXPECT_EQ((*q)["kind"], "activations");
}

// Largest first the table fits a terminal.
TEST(TensorTable, LinesHaveAHundredColumns) {
  std::string text = render(tensor_table(predicted()), Format::Table);
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1)
    EXPECT_LE(end - begin, 100U) << text.substr(begin, end - begin);
}

}  // namespace

}  // namespace llmsim::reports
