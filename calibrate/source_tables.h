// The tables of published projects, with a predicted value for each measured one.
//
// A row counts in the errors where its value is scored, or where the table says what to assume for
// what the source leaves out.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/ablation.h"
#include "calibrate/backtest.h"
#include "hwdb/runs/source_tables.h"
#include "sim/predict.h"

namespace llmsim::calibrate {

// One measured run of a table.  Rates are of a device.
struct SourceRow : BacktestRow {
  hwdb::RunRecord record;
  bool counts = false;  // its time in the errors
  std::optional<sim::FlopsPerSecond> measured_rate;
  // In the source's own convention.
  std::optional<sim::FlopsPerSecond> reported_rate, predicted_reported_rate;
  std::optional<double> measured_tokens_per_second;

  // ln(predicted / measured) as far as it lies outside the spread that the source states (the
  // record's `noise`): 0 inside of it, none where none is stated.
  std::optional<double> error_beyond_noise() const;
};

// One pipeline stage.  Resident is what stays between steps: weights, gradients,
// master weights and states.
struct StageRow {
  std::string run, stage;
  std::optional<sim::Bytes> measured_resident, predicted_resident;
  std::optional<sim::Bytes> measured_peak, predicted_peak;
  std::optional<sim::Bytes> measured_reserved, predicted_reserved;
};

struct FilledTable {
  hwdb::SourceTable table;
  std::vector<SourceRow> rows;  // one of these three
  std::vector<StageRow> stages;
  std::vector<AblationPair> pairs;

  int size() const { return static_cast<int>(rows.size() + stages.size() + pairs.size()); }
};

// Errors of one table: of times (of ratios, in a table of pairs) and of
// peaks, absolute and logarithmic.
struct TableErrors {
  int rows = 0, times = 0, peaks = 0, outcomes = 0, outcomes_right = 0;
  std::optional<double> time_median, time_worst, peak_median, peak_worst;
  std::optional<double> worst_beyond_noise;  // of times, noise being 0 where none is stated
};

struct FilledProject {
  hwdb::SourceProject project;
  std::vector<FilledTable> tables;
};

// Fills the tables of `project` from the runs in `files`; pairs come from `ablations`.  Throws
// Error for a run that is not there.
FilledProject filled(const hwdb::SourceProject& project, std::span<const hwdb::RunFile> files,
                     const Ablations& ablations, const Predictor& predict);

TableErrors errors_of(const FilledTable& table);

}  // namespace llmsim::calibrate
