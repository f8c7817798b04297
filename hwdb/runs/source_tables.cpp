#include "hwdb/runs/source_tables.h"

#include "hwdb/text/input_file.h"
#include "hwdb/text/json_reader.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

std::optional<sim::Bytes> bytes(ObjectReader& reader, const char* key) {
  const std::optional<double> value = reader.number(key, 1.0);
  return value ? std::optional(sim::Bytes(*value)) : std::nullopt;
}

StageFigures read_stage(const json& value, const std::string& place) {
  ObjectReader reader(value, place, "stages");
  StageFigures figures;
  figures.run = reader.text("run").value_or("");
  figures.stage = reader.one_of("stage", {"first", "middle", "last"}).value_or("");
  figures.allocated = bytes(reader, "allocated_bytes");
  figures.peak = bytes(reader, "peak_bytes");
  figures.reserved = bytes(reader, "reserved_bytes");
  reader.finish();
  if (figures.run.empty()) reader.refuse("run", "the id of a run is expected");
  if (figures.stage.empty()) reader.refuse("stage", "first, middle or last is expected");
  return figures;
}

void read_assumption(const json& value, const std::string& place, SourceTable& table) {
  ObjectReader reader(value, place, "assume");
  table.assumption = reader.text("reason").value_or("");
  if (table.assumption.empty()) reader.refuse("reason", "why this is assumed is expected");
  json record = value;
  record.erase("reason");
  record["id"] = "assumed";
  RunFile file = parse_runs(record.dump(), place);
  if (!file.rejected.empty()) throw Error(file.rejected.front().reason);
  table.assumed = std::move(file.runs.front());
}

SourceTable read_table(const json& value, const std::string& place) {
  ObjectReader reader(value, place);
  SourceTable table;
  table.title = reader.text("title").value_or("");
  table.source = reader.text("source").value_or("");
  table.rows = reader.count("rows").value_or(0);
  table.runs = reader.texts("runs");
  table.comparisons = reader.texts("comparisons");
  table.unexplained = reader.texts("unexplained");
  for (const json& stage : reader.list("stages")) table.stages.push_back(read_stage(stage, place));
  if (const json* assumed = reader.any("assume")) read_assumption(*assumed, place, table);
  reader.finish();
  if (table.title.empty()) reader.refuse("title", "a title is expected");
  if (table.source.empty()) reader.refuse("source", "where the table stands is expected");
  if (table.rows == 0)
    reader.refuse("rows", "the number of rows that the source prints is expected");
  if (int{!table.runs.empty()} + int{!table.stages.empty()} + int{!table.comparisons.empty()} != 1)
    reader.refuse("runs", "one of runs, stages and comparisons is expected");
  return table;
}

}  // namespace

SourceProject parse_source_project(const std::string& text, const std::string& file) {
  const json document = parse_json(text, file);
  ObjectReader reader(document, file);
  if (reader.integer("schema", 1, 1 << 20).value_or(1) != 1)
    reader.refuse("schema", "this program reads schema 1");
  SourceProject project;
  project.file = file;
  project.title = reader.text("title").value_or("");
  project.about = reader.texts("about");
  project.groups = reader.texts("groups");
  const json* tables = reader.any("tables");
  reader.finish();
  if (project.title.empty()) reader.refuse("title", "the name of the project is expected");
  if (!tables || !tables->is_array()) reader.refuse("tables", "a list is expected");
  for (const json& table : *tables)
    project.tables.push_back(
        read_table(table, file + ": table " + std::to_string(project.tables.size() + 1)));
  return project;
}

SourceProject read_source_project(const std::string& path) {
  return parse_source_project(content_of_file(path), path);
}

bool matches(const std::string& pattern, const std::string& id) {
  const std::size_t star = pattern.find('*');
  if (star == std::string::npos) return pattern == id;
  if (id.compare(0, star, pattern, 0, star) != 0) return false;
  const std::string rest = pattern.substr(star + 1);
  for (std::size_t from = star; from <= id.size(); ++from) {
    if (matches(rest, id.substr(from))) return true;
  }
  return false;
}

RunRecord filled(RunRecord record, const RunRecord& assumed) {
  const auto fill = [](auto& target, const auto& value) {
    if (!target) target = value;
  };
  record.model.fields.insert(assumed.model.fields.begin(), assumed.model.fields.end());
  fill(record.hardware.accelerator, assumed.hardware.accelerator);
  fill(record.hardware.num_devices, assumed.hardware.num_devices);
  fill(record.hardware.devices_per_node, assumed.hardware.devices_per_node);
  record.training.strategy.insert(assumed.training.strategy.begin(),
                                  assumed.training.strategy.end());
  return record;
}

}  // namespace llmsim::hwdb
