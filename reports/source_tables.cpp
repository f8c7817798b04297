#include "reports/source_tables.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "calibrate/statistics.h"
#include "reports/json.h"
#include "reports/units.h"

namespace llmsim::reports {
namespace {

using calibrate::AblationPair;
using calibrate::FilledProject;
using calibrate::FilledTable;
using calibrate::SourceRow;
using calibrate::StageRow;
using calibrate::TableErrors;
using hwdb::RunRecord;
using sim::stated;

// A reason without the file and the run that it begins with: the line names the run, and a file's
// place differs by machine.
std::string without_place(const std::string& reason, const std::string& id) {
  const std::string place = "run " + id + ": ";
  const std::size_t at = reason.find(place);
  return at == std::string::npos ? reason : reason.substr(at + place.size());
}

void append(std::string& text, const std::string& part, const char* between = ", ") {
  if (!part.empty()) text += (text.empty() ? "" : between) + part;
}

std::string counted(const char* name, const std::optional<int>& value) {
  return value ? std::string(name) + " " + std::to_string(*value) : "";
}

std::string shape_text(const hwdb::RecordedModel& m) {
  std::string text;
  append(text, counted("L", sim::stated<int>(m.fields, "num_layers")));
  append(text, counted("h", sim::stated<int>(m.fields, "hidden_size")));
  append(text, counted("a", sim::stated<int>(m.fields, "num_heads")));
  return text;
}

std::string layout_text(const sim::PartialStrategy& s) {
  std::string text;
  append(text, counted("dp", stated<int>(s, "dp")));
  for (const char* ranks : {"tp", "pp"}) {
    if (stated<int>(s, ranks).value_or(1) > 1) append(text, counted(ranks, stated<int>(s, ranks)));
  }
  const std::string sharding = stated<std::string>(s, "sharding").value_or("none");
  if (sharding != "none") append(text, sharding);
  return text;
}

std::string recompute_text(const sim::PartialStrategy& s) {
  const std::string kind = stated<std::string>(s, "recompute.kind").value_or("none");
  if (kind == "none") return "";
  if (kind != "every_n") return "recompute " + kind;
  return "recompute 1 of " + std::to_string(stated<int>(s, "recompute.every_n").value_or(1)) +
         " blocks";
}

std::string offload_text(const sim::PartialStrategy& s) {
  std::string text;
  for (const std::string what : {"optimizer", "parameters", "activations"}) {
    if (stated<bool>(s, "offload." + what).value_or(false)) append(text, what, "+");
  }
  return text.empty() ? text : "offload " + text;
}

// What the run states of its program: "fp8_recipe=delayed, optimizer_step=false".
std::string flags_text(const hwdb::RecordedTraining& t) {
  std::string text;
  for (const auto& [key, value] : t.settings) append(text, key + "=" + sim::text_of(value));
  return text;
}

std::string settings_text(const sim::PartialStrategy& s) {
  const auto on = [&](const char* key, bool otherwise = false) {
    return stated<bool>(s, key).value_or(otherwise);
  };
  std::string text;
  append(text, recompute_text(s));
  if (on("compile")) append(text, "compile");
  if (on("fused_cross_entropy")) append(text, "fused cross entropy");
  if (on("tp_overlap")) append(text, "asynchronous tp");
  if (!on("flash_attention", true)) append(text, "no flash attention");
  append(text, offload_text(s));
  return text;
}

const std::vector<Column>& run_columns() {
  static const std::vector<Column> columns(
      {as_text("model"), as_text("shape"), as_integer("seq_len", "sequence"),
       as_text("accelerator", "device"), as_integer("num_devices", "devices"), as_text("layout"),
       as_integer("micro_batch", "micro-batch"), as_integer("global_batch", "batch"),
       as_text("precision"), as_text("framework"), as_text("settings"), as_text("flags"),
       as_text("date")});
  return columns;
}

const std::vector<Column>& figure_columns() {
  static const std::vector<Column> columns(
      {in_seconds("measured_s", "step measured"), in_seconds("predicted_s", "step predicted"),
       in_percent("time_error", "error"), in_percent("error_beyond_noise", "beyond its noise"),
       in_tokens_per_s("measured_tokens_per_s_per_device", "tokens measured"),
       in_tokens_per_s("predicted_tokens_per_s_per_device", "tokens predicted"),
       in_flops_per_s("reported_flops_per_s", "as the source counts, measured"),
       in_flops_per_s("predicted_reported_flops_per_s", "as the source counts, predicted"),
       in_flops_per_s("measured_flops_per_s", "real measured"),
       in_flops_per_s("predicted_flops_per_s", "real predicted"),
       in_bytes("measured_peak_bytes", "peak measured"),
       in_bytes("predicted_peak_bytes", "peak predicted"), in_percent("peak_error", "peak error"),
       as_text("measured_outcome", "outcome"), as_text("predicted_outcome", "predicted outcome"),
       as_text("counts", "scored"), as_text("id", "run")});
  return columns;
}

Cell text_cell(const std::string& text) { return text.empty() ? Cell() : Cell(text); }

Cells run_cells(const RunRecord& r) {
  const hwdb::RecordedTraining& t = r.training;
  return Cells({cell(r.model.name), text_cell(shape_text(r.model)),
                cell(stated<int>(r.model.fields, "seq_len")), cell(r.hardware.accelerator),
                cell(r.hardware.num_devices), text_cell(layout_text(t.strategy)),
                cell(stated<int>(t.strategy, "micro_batch")),
                cell(stated<int>(t.strategy, "global_batch")),
                cell(stated<std::string>(t.strategy, "precision")), cell(t.framework),
                text_cell(settings_text(t.strategy)), text_cell(flags_text(t)), cell(r.date)});
}

Cells figure_cells(const SourceRow& row) {
  return Cells(
      {cell(row.measured_time), cell(row.predicted_time), cell(row.time_error()),
       row.counts ? cell(row.error_beyond_noise()) : Cell(), cell(row.measured_tokens_per_second),
       row.measured_tokens_per_second ? cell(row.predicted_tokens_per_second) : Cell(),
       cell(row.reported_rate), cell(row.predicted_reported_rate), cell(row.measured_rate),
       cell(row.predicted_rate), cell(row.measured_peak), cell(row.predicted_peak),
       cell(row.peak_error()), cell(row.measured_outcome), cell(row.predicted_outcome),
       row.measured_time ? Cell(std::string(row.counts ? "yes" : "no")) : Cell(), row.record.id});
}

// Columns worth folding: what describes a run, as far as it is shown.
std::vector<std::string> shared_keys(const Table& table) {
  std::vector<std::string> keys;
  for (std::size_t c = 0; c < table.columns().size(); ++c) {
    const std::string& key = table.columns()[c].key;
    if (!table.hidden(c) && (c < run_columns().size() || key == "counts")) keys.push_back(key);
  }
  return keys;
}

Table runs_table(const FilledTable& filled) {
  std::vector<Column> columns = run_columns();
  columns.insert(columns.end(), figure_columns().begin(), figure_columns().end());
  Table table(filled.table.title, columns);
  for (const SourceRow& row : filled.rows) {
    Cells cells = run_cells(row.record), figures = figure_cells(row);
    cells.insert(cells.end(), figures.begin(), figures.end());
    table.add_row(std::move(cells));
  }
  table.hide_empty();
  table.fold_constants(shared_keys(table));
  for (const SourceRow& row : filled.rows) {
    // A prediction without anything measured beside it says little.
    if (row.skipped && (row.measured_time || row.measured_peak))
      table.add_note(row.record.id +
                     " is not predicted: " + without_place(*row.skipped, row.record.id));
  }
  return table;
}

Table stages_table(const FilledTable& filled) {
  Table table(filled.table.title,
              {as_text("stage"), in_bytes("measured_resident_bytes", "resident measured"),
               in_bytes("predicted_resident_bytes", "predicted"),
               in_bytes("measured_peak_bytes", "peak measured"),
               in_bytes("predicted_peak_bytes", "predicted"), in_percent("peak_error", "error"),
               in_bytes("measured_reserved_bytes", "reserved measured"),
               in_bytes("predicted_reserved_bytes", "predicted"), as_text("id", "run")});
  for (const StageRow& row : filled.stages) {
    table.add_row({row.stage, cell(row.measured_resident), cell(row.predicted_resident),
                   cell(row.measured_peak), cell(row.predicted_peak),
                   cell(calibrate::log_ratio(row.measured_peak, row.predicted_peak)),
                   cell(row.measured_reserved), cell(row.predicted_reserved), row.run});
  }
  return table;
}

// Speed with the setting over speed without, minus one.
Cell gain(const std::optional<double>& time_ratio) {
  return time_ratio ? Cell(1.0 / *time_ratio - 1.0) : Cell();
}

Table pairs_table(const FilledTable& filled) {
  Table table(filled.table.title,
              {as_text("setting"), as_text("off", "from"), as_text("on", "to"),
               in_percent("measured_gain", "faster, measured"),
               in_percent("predicted_gain", "faster, predicted"),
               in_percent("ratio_error", "error of the ratio"), as_text("on_id", "run")});
  for (const AblationPair& pair : filled.pairs)
    table.add_row({pair.setting, pair.off, pair.on, gain(pair.measured_time),
                   gain(pair.predicted_time), cell(pair.time_error()), pair.on_id});
  return table;
}

Json table_json(const FilledTable& filled) {
  return {{"title", filled.table.title},
          {"source", filled.table.source},
          {"rows", rows_json(source_table(filled))}};
}

}  // namespace

Table source_table(const FilledTable& filled) {
  Table table = !filled.stages.empty()  ? stages_table(filled)
                : !filled.pairs.empty() ? pairs_table(filled)
                                        : runs_table(filled);
  if (filled.table.assumed) table.add_note("Assumed: " + filled.table.assumption);
  for (const std::string& sentence : filled.table.unexplained) table.add_note(sentence);
  table.add_note("Source: " + filled.table.source);
  return table;
}

std::string source_document(const FilledProject& project) {
  std::string text = "# " + project.project.title + "\n";
  for (const std::string& paragraph : project.project.about) text += "\n" + paragraph + "\n";
  text += "\nErrors are ln(predicted / measured). Written by `tests/validation/update`.\n";
  for (const FilledTable& filled : project.tables)
    text += "\n" + render(source_table(filled), Format::Markdown);
  return text;
}

Table source_summary(std::span<const FilledProject> projects) {
  Table table(
      "Tables of the source projects",
      {as_text("project"), as_text("table"), as_integer("rows"), as_integer("times"),
       in_percent("median_abs_error", "median error"), in_percent("worst_abs_error", "worst"),
       in_percent("worst_beyond_noise", "beyond its noise"), as_integer("peaks"),
       in_percent("memory_median_abs_error", "memory error"),
       in_percent("memory_worst_abs_error", "worst memory"),
       as_text("outcomes_right", "verdicts right")});
  for (const FilledProject& project : projects) {
    for (const FilledTable& filled : project.tables) {
      const TableErrors e = calibrate::errors_of(filled);
      const std::string verdicts =
          std::to_string(e.outcomes_right) + "/" + std::to_string(e.outcomes);
      table.add_row({project.project.title, filled.table.title, count_or_none(e.rows),
                     count_or_none(e.times), cell(e.time_median), cell(e.time_worst),
                     cell(e.worst_beyond_noise), count_or_none(e.peaks), cell(e.peak_median),
                     cell(e.peak_worst), e.outcomes > 0 ? Cell(verdicts) : Cell()});
    }
  }
  return table;
}

std::string source_json(std::span<const FilledProject> projects) {
  return text_of({{"projects", list_json(projects,
                                         [](const FilledProject& project) {
                                           return Json{
                                               {"title", project.project.title},
                                               {"file", project.project.file},
                                               {"tables", list_json(project.tables, table_json)}};
                                         })}},
                 1);
}

}  // namespace llmsim::reports
