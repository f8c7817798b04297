// A cross table: rows of settings, columns of models, hardware or numbers of devices, and the
// prediction of each pair, as the READMEs of training benchmarks print it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/provenance.h"
#include "reports/table.h"
#include "sim/base/field.h"
#include "sim/predict.h"

namespace llmsim::reports {

// The values that a cell can have:
//
//   step_time   of an optimizer step            memory   peak of the fullest stage, allocated
//   tokens      per second and device           cost     USD for 10^9 tokens
//   tflops      model FLOP/s per device         layout   the strategy, in words
//   mfu, hfu    model and hardware FLOPs over the peak of the recipe's format
enum class CellValue { StepTime, Tokens, Tflops, Mfu, Hfu, Memory, Cost, Layout };

sim::NameTable<CellValue> name_table(CellValue);  // "step_time", "tokens"

// One cell: a prediction, or why there is none.
struct CrossCell {
  std::optional<sim::Prediction> prediction{};
  std::string why_not{};  // where there is no prediction: why no layout fits
  // There, the memory that the layout nearest to fitting needs, and the usable memory of a device.
  std::optional<std::pair<sim::Bytes, sim::Bytes>> nearest{};
  std::optional<double> price{};  // USD of a device-hour
  // Of a measured run, the same run as the predicted one.
  std::optional<sim::Seconds> measured_time{};
  std::optional<sim::Bytes> measured_peak{};
  // What the measured peak is compared with (calibrate/backtest.h).
  std::optional<sim::Bytes> comparable_peak{};
  bool measured_out_of_memory = false;
};

struct CrossTable {
  std::string title;
  std::string corner{};  // what the rows are, "model"; may be empty
  std::vector<std::string> notes{}, rows{}, columns{};
  std::vector<CellValue> values{};  // at least one
  // By which tflops and mfu are counted (sim/model/flops.h); none: GEMMs and causal attention.
  std::optional<std::string> convention{};
  bool interval = false;           // for people: each value with its interval
  bool planned = false;            // for people: the layouts of all cells below the table
  std::vector<CrossCell> cells{};  // row by row
  Provenance provenance{};

  const CrossCell& at(std::size_t row, std::size_t column) const {
    return cells[row * columns.size() + column];
  }
};

// A value with its interval at the prediction's interval_level, in base units, and the measured
// value where the run was measured.  The interval of the step time is that of all rates: v = c / t.
struct Metric {
  double value = 0.0, low = 0.0, high = 0.0;
  std::optional<double> measured{};
};

// None of the layout, and where there is no such value: a broken rule, no price.
std::optional<Metric> metric_of(const CrossTable& table, const CrossCell& cell, CellValue value);

// For programs: a row for each cell from `first` to before `last`, counted row by row, with all its
// values in base units.
Table cell_table(const CrossTable& table, std::size_t first, std::size_t last);

// For people a text in each cell: "700 TFLOP/s (70.7 % MFU)", "out of memory, 96.2 GiB of 79.2", or
// "impossible [1]" with the rule in a footnote; what was measured of a row stands below it.  CSV
// has a row for each cell with all values, whatever was asked for; JSON has the keys of README.md.
std::string render(const CrossTable& table, Format format, const Style& style = {});

// What people read as one HTML page.
std::string page(const CrossTable& table);

}  // namespace llmsim::reports
