#include "hwdb/runs/comparison.h"

#include "hwdb/text/input_file.h"
#include "hwdb/text/json_reader.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

RunRecord run_of(const json& value, const std::string& place) {
  RunFile file = parse_runs(value.dump(), place);
  if (!file.rejected.empty()) throw Error(file.rejected.front().reason);
  return std::move(file.runs.front());
}

void read_runs_of(ObjectReader& reader, const std::string& place, Comparison& comparison) {
  const json* run = reader.any("run");
  const json* without = reader.any("without");
  if (!run || !without)
    reader.refuse("run",
                  "\"off\" and \"on\", or \"run\", \"without\" and \"speedup\" are expected");
  json off = *run;
  off.merge_patch(*without);
  comparison.on = run_of(*run, place);
  comparison.off = run_of(off, place);
  for (RunRecord* record : {&*comparison.on, &*comparison.off}) record->group = comparison.group;
}

Comparison read_comparison(const json& value, const std::string& place) {
  ObjectReader reader(value, place);
  Comparison comparison;
  comparison.setting = reader.text("setting").value_or("");
  comparison.group = reader.text("group").value_or("");
  comparison.source = reader.text("source").value_or("");
  if (comparison.setting.empty()) reader.refuse("setting", "what was switched is expected");
  if (comparison.source.empty()) reader.refuse("source", "where it is said is expected");
  comparison.values = reader.texts("values");
  if (!comparison.values.empty() && comparison.values.size() != 2)
    reader.refuse("values", "two texts are expected, without and with the setting");
  comparison.off_id = reader.text("off");
  comparison.on_id = reader.text("on");
  comparison.speedup = reader.number("speedup", -0.99);
  comparison.noise = reader.number("noise", 0.0);
  const bool by_id = comparison.off_id && comparison.on_id;
  if (!by_id) read_runs_of(reader, place, comparison);
  reader.finish();
  if (by_id == comparison.speedup.has_value())
    reader.refuse("speedup", "is stated for runs without figures of their own, and only for them");
  return comparison;
}

}  // namespace

std::vector<Comparison> parse_comparisons(const std::string& text, const std::string& file) {
  const json document = parse_json(text, file);
  ObjectReader reader(document, file);
  if (reader.integer("schema", 1, 1 << 20).value_or(1) != 1)
    reader.refuse("schema", "this program reads schema 1");
  reader.texts("about");
  const json* list = reader.any("comparisons");
  reader.finish();
  if (!list || !list->is_array()) reader.refuse("comparisons", "a list is expected");
  std::vector<Comparison> comparisons;
  for (const json& value : *list)
    comparisons.push_back(
        read_comparison(value, file + ": comparison " + std::to_string(comparisons.size() + 1)));
  return comparisons;
}

std::vector<Comparison> read_comparisons(const std::string& path) {
  return parse_comparisons(content_of_file(path), path);
}

}  // namespace llmsim::hwdb
