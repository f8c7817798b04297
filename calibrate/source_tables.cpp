#include "calibrate/source_tables.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "calibrate/statistics.h"
#include "sim/base/error.h"

namespace llmsim::calibrate {
namespace {

using hwdb::RunRecord;
using hwdb::SourceTable;
using sim::Bytes;
using sim::Prediction;

// --- rows of runs ---

SourceRow source_row(const RunRecord& record, const SourceTable& table, const Predictor& predict) {
  SourceRow row;
  row.record = table.assumed ? hwdb::filled(record, *table.assumed) : record;
  static_cast<BacktestRow&>(row) = row_of(row.record, predict);
  row.counts = record.scored.step_time || table.assumed.has_value();
  if (!record.measured) return row;
  row.measured_tokens_per_second = record.measured->tokens_per_second_per_device;
  if (const auto rate = record.measured->reported_tflops_per_device)
    row.reported_rate = *rate * sim::TFLOPS;
  // The source's formula gives the same FLOPs for both times.
  if (!row.measured_time || !row.predicted_time) return row;
  const double faster = *row.measured_time / *row.predicted_time;
  row.measured_rate = *row.predicted_rate / faster;
  if (row.reported_rate) row.predicted_reported_rate = *row.reported_rate * faster;
  return row;
}

void add_rows(std::span<const hwdb::RunFile> files, const Predictor& predict, FilledTable& table) {
  for (const hwdb::RunFile& file : files) {
    for (const RunRecord& record : file.runs) {
      const auto lists = [&](const std::string& p) { return hwdb::matches(p, record.id); };
      if (std::ranges::any_of(table.table.runs, lists))
        table.rows.push_back(source_row(record, table.table, predict));
    }
  }
}

// --- rows of stages ---

const RunRecord& run_named(std::span<const hwdb::RunFile> files, const std::string& id) {
  for (const hwdb::RunFile& file : files) {
    for (const RunRecord& record : file.runs) {
      if (record.id == id) return record;
    }
  }
  throw Error("there is no run " + id);
}

const sim::StageMemory& stage_named(const sim::Memory& memory, const std::string& stage) {
  if (stage == "first") return memory.stages.front();
  if (stage == "last") return memory.stages.back();
  return memory.stages[memory.stages.size() / 2];
}

Bytes resident(const sim::StageMemory& stage) {
  static const std::set<std::string_view> kept{"weights", "gradients", "master_weights",
                                               "optimizer_states"};
  Bytes sum(0.0);
  for (const sim::MemoryTerm& term : stage.terms) {
    if (kept.contains(term.name)) sum += term.size;
  }
  return sum;
}

void add_stages(std::span<const hwdb::RunFile> files, const Predictor& predict,
                FilledTable& table) {
  for (const hwdb::StageFigures& figures : table.table.stages) {
    const Prediction prediction = predict(run_named(files, figures.run));
    StageRow row;
    row.run = figures.run;
    row.stage = figures.stage;
    row.measured_resident = figures.allocated;
    row.measured_peak = figures.peak;
    row.measured_reserved = figures.reserved;
    if (!prediction.memory.stages.empty()) {
      const sim::StageMemory& stage = stage_named(prediction.memory, figures.stage);
      row.predicted_resident = resident(stage);
      row.predicted_peak = stage.peak;
      row.predicted_reserved = stage.peak * (prediction.memory.reserved / prediction.memory.peak);
    }
    table.stages.push_back(std::move(row));
  }
}

// --- errors ---

void add(const std::optional<double>& error, std::vector<double>& errors) {
  if (error) errors.push_back(std::abs(*error));
}

std::optional<double> worst(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(*std::ranges::max_element(values));
}

double beyond(double error, double noise) {
  return std::copysign(std::max(0.0, std::abs(error) - noise), error);
}

bool is_verdict(const SourceRow& row) {
  return row.record.scored.outcome && row.predicted_outcome &&
         (row.measured_outcome == "ok" || row.measured_outcome == "oom");
}

}  // namespace

std::optional<double> SourceRow::error_beyond_noise() const {
  const std::optional<double> error = time_error();
  if (!error || !record.noise) return std::nullopt;
  return beyond(*error, std::log1p(*record.noise));
}

FilledProject filled(const hwdb::SourceProject& project, std::span<const hwdb::RunFile> files,
                     const Ablations& ablations, const Predictor& predict) {
  FilledProject result{.project = project, .tables = {}};
  for (const SourceTable& table : project.tables) {
    FilledTable filled;
    filled.table = table;
    add_rows(files, predict, filled);
    add_stages(files, predict, filled);
    for (const AblationPair& pair : ablations.pairs) {
      const auto& groups = project.groups;
      const auto& settings = table.comparisons;
      if (std::ranges::find(groups, pair.group) != groups.end() &&
          std::ranges::find(settings, pair.setting) != settings.end())
        filled.pairs.push_back(pair);
    }
    result.tables.push_back(std::move(filled));
  }
  return result;
}

TableErrors errors_of(const FilledTable& table) {
  std::vector<double> times, outside, peaks;
  for (const SourceRow& row : table.rows) {
    if (row.counts) add(row.time_error(), times);
    if (row.counts) add(row.record.noise ? row.error_beyond_noise() : row.time_error(), outside);
    if (row.record.scored.memory || table.table.assumed) add(row.peak_error(), peaks);
  }
  for (const StageRow& row : table.stages)
    add(log_ratio(row.measured_peak, row.predicted_peak), peaks);
  for (const AblationPair& pair : table.pairs) {
    const std::optional<double> error = pair.time_error();
    add(error, times);
    if (error) outside.push_back(std::abs(beyond(*error, pair.noise)));
  }
  TableErrors errors;
  errors.rows = table.size();
  errors.times = static_cast<int>(times.size());
  errors.peaks = static_cast<int>(peaks.size());
  errors.time_median = median_if_any(times);
  errors.time_worst = worst(times);
  errors.worst_beyond_noise = worst(outside);
  errors.peak_median = median_if_any(peaks);
  errors.peak_worst = worst(peaks);
  for (const SourceRow& row : table.rows) {
    errors.outcomes += is_verdict(row) ? 1 : 0;
    errors.outcomes_right +=
        is_verdict(row) && row.measured_outcome == row.predicted_outcome ? 1 : 0;
  }
  return errors;
}

}  // namespace llmsim::calibrate
