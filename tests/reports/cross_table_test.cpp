#include "reports/cross_table.h"

#include <gtest/gtest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "tests/reports/sample_prediction.h"

namespace llmsim::reports {
namespace {

// The sample prediction: 4 s (3 to 5), 1024 tokens/s, 400 TFLOP/s, MFU 40 %, HFU 50 %, 3 GiB; by 6N
// 380 TFLOP/s and 38 %.
CrossTable one_cell() {
  return {.title = "T",
          .notes = {},
          .rows = {"r"},
          .columns = {"c"},
          .values = {CellValue::Tflops, CellValue::Mfu},
          .cells = {{.prediction = sample_prediction()}}};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string cell_text(const CrossTable& table) {
  const std::string text = render(table, Format::Table);
  const std::size_t row = text.find("\nr  ") + 4;
  return text.substr(row, text.find('\n', row) - row);
}

TEST(CrossTable, ACellSaysWhatIsAskedFor) {
  CrossTable table = one_cell();
  EXPECT_EQ(cell_text(table), "400 TFLOP/s (40.0 % MFU)");
  table.values = {CellValue::StepTime};
  EXPECT_EQ(cell_text(table), "4.00 s");
  table.values = {CellValue::Memory, CellValue::Hfu, CellValue::Tokens};
  EXPECT_EQ(cell_text(table), "3.00 GiB (50.0 % HFU, 1024 tokens/s)");
  table.values = {CellValue::Cost};
  EXPECT_EQ(cell_text(table), "no price");
  // 10^9 / 1024 s of a device at 3.6 USD an hour, a thousandth of a dollar a second.
  table.cells[0].price = 3.6;
  EXPECT_EQ(cell_text(table), "977 USD");
}

TEST(CrossTable, ConventionsCountTheirOwnWay) {
  CrossTable table = one_cell();
  table.convention = "6N";
  EXPECT_EQ(cell_text(table), "380 TFLOP/s (38.0 % MFU)");
  EXPECT_TRUE(has(render(table, Format::Table), "counted by the convention 6N"));
}

// 4 s hold 3 to 5 s, so a rate of 400 has 400 * 4/5 to 400 * 4/3.
TEST(CrossTable, IntervalsOfRatesAreThoseOfTheTime) {
  CrossTable table = one_cell();
  const auto rate = metric_of(table, table.cells[0], CellValue::Tflops);
  ASSERT_TRUE(rate);
  EXPECT_DOUBLE_EQ(rate->value, 400e12);
  EXPECT_DOUBLE_EQ(rate->low, 320e12);
  EXPECT_NEAR(rate->high, 533.33e12, 0.01e12);
  const auto time = metric_of(table, table.cells[0], CellValue::StepTime);
  EXPECT_DOUBLE_EQ(time->low, 3.0);
  EXPECT_DOUBLE_EQ(time->high, 5.0);
  table.interval = true;
  table.values = {CellValue::Tflops};
  EXPECT_EQ(cell_text(table), "400 [320, 533] TFLOP/s");
}

// Measured 5 s are 4/5 of the predicted rates.
TEST(CrossTable, MeasuredStandsBelowPredicted) {
  CrossTable table = one_cell();
  table.cells[0].measured_time = sim::Seconds(5.0);
  const std::string text = render(table, Format::Table);
  EXPECT_TRUE(
      has(text, "\nr           400 TFLOP/s (40.0 % MFU)\n  measured  320 TFLOP/s (32.0 % MFU)\n"))
      << text;
  table.cells[0].measured_out_of_memory = true;
  EXPECT_TRUE(has(render(table, Format::Table), "  measured  out of memory\n"));
}

TEST(CrossTable, WhatDoesNotFitSaysSo) {
  CrossTable table = one_cell();
  sim::Prediction& p = *table.cells[0].prediction;
  p.memory.peak = 19 * sim::GiB;  // and 1 GiB of context
  p.infeasible = sim::Infeasible{.rule = "out of memory", .message = "needs"};
  EXPECT_EQ(cell_text(table), "out of memory, 20.0 GiB of 10.0");
  table.cells[0] = {.why_not = "nothing fits: never",
                    .nearest = std::pair(96 * sim::GiB, 80 * sim::GiB)};
  EXPECT_EQ(cell_text(table), "out of memory, 96.0 GiB of 80.0 [1]");
  EXPECT_TRUE(has(render(table, Format::Table), "  [1] nothing fits: never\n"));
}

// Of two cells that break one rule there is one footnote.
TEST(CrossTable, RulesAreFootnotes) {
  CrossTable table = one_cell();
  sim::Prediction broken{.run = sample_run()};
  broken.infeasible = sim::Infeasible{.rule = "tp", .message = "tp = 3 does not divide"};
  table.columns = {"c", "d", "e"};
  table.cells = {
      {.prediction = broken}, {.prediction = broken}, {.prediction = sample_prediction()}};
  EXPECT_EQ(cell_text(table), "impossible [1]  impossible [1]  400 TFLOP/s (40.0 % MFU)");
  const std::string text = render(table, Format::Table);
  EXPECT_TRUE(has(text, "  [1] tp = 3 does not divide\n")) << text;
  EXPECT_FALSE(has(text, "[2]"));
}

TEST(CrossTable, PlansSayTheirLayouts) {
  CrossTable table = one_cell();
  table.planned = true;
  EXPECT_TRUE(has(render(table, Format::Table), "pp 2, dp 4"));
  table.values = {CellValue::Layout};
  const std::string text = render(table, Format::Table);
  EXPECT_FALSE(has(text, "Layouts")) << text;
  EXPECT_TRUE(has(text, "pp 2, dp 4"));
}

TEST(CrossTable, MachinesGetEveryValueInBaseUnits) {
  CrossTable table = one_cell();
  table.values = {CellValue::Layout};
  table.provenance.database = "db";
  table.cells[0].measured_time = sim::Seconds(5.0);
  const auto document = nlohmann::json::parse(render(table, Format::Json));
  EXPECT_EQ(document.at("provenance").at("database"), "db");
  const auto& cell = document.at("cells").at(0);
  EXPECT_EQ(cell.at("row"), "r");
  EXPECT_EQ(cell.at("feasible"), "yes");
  EXPECT_DOUBLE_EQ(cell.at("step_time_s"), 4.0);
  EXPECT_DOUBLE_EQ(cell.at("measured_step_time_s"), 5.0);
  EXPECT_DOUBLE_EQ(cell.at("tflops_per_device"), 400.0);
  EXPECT_DOUBLE_EQ(cell.at("measured_mfu"), 0.32);
  EXPECT_TRUE(cell.at("usd_per_billion_tokens").is_null());
  const std::string csv = render(table, Format::Csv);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
}

}  // namespace
}  // namespace llmsim::reports
