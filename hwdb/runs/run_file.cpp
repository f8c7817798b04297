#include "hwdb/runs/run_file.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "hwdb/text/json_reader.h"
#include "hwdb/text/rounding.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::ordered_json;

constexpr int kMeasuredDigits = 6;  // more than any clock of a training step has

template <class Value>
ordered_json or_null(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json();
}

ordered_json or_null(const std::optional<double>& value) {
  return value ? ordered_json(rounded(*value, kMeasuredDigits)) : ordered_json();
}

ordered_json measured_json(const Measured& m) {
  ordered_json measured;
  measured["step_time_s"] =
      m.step_time ? ordered_json(rounded(m.step_time->value(), kMeasuredDigits)) : ordered_json();
  measured["step_time_derived_from"] = or_null(m.step_time_derived_from);
  measured["tokens_per_s_per_device"] = or_null(m.tokens_per_second_per_device);
  measured["reported_tflops_per_device"] = or_null(m.reported_tflops_per_device);
  measured["reported_mfu"] = or_null(m.reported_mfu);
  if (m.reported_hfu) measured["reported_hfu"] = rounded(*m.reported_hfu, kMeasuredDigits);
  if (m.flops_convention) measured["flops_convention"] = *m.flops_convention;
  measured["peak_memory_bytes"] =
      m.peak_memory ? ordered_json(std::llround(m.peak_memory->value())) : ordered_json();
  measured["memory_kind"] = or_null(m.memory_kind);
  measured["memory_scope"] = or_null(m.memory_scope);
  measured["outcome"] = or_null(m.outcome);
  return measured;
}

ordered_json scored_json(const Scored& scored) {
  return {{"step_time", scored.step_time}, {"memory", scored.memory}, {"outcome", scored.outcome}};
}

// The run alone, of a file with one run or of the run's own.
ordered_json run_of(const ordered_json& document) {
  if (document.contains("runs")) return document.at("runs").at(0);
  ordered_json run = document;
  run.erase("schema");
  return run;
}

void put(const RunResult& result, ordered_json& run) {
  run["id"] = result.id;
  run["group"] = result.group;
  run["source"] = result.source;
  run["measured"] = measured_json(result.measured);
  run["scored"] = scored_json(result.scored);
  run["noise"] = or_null(result.noise);
  if (!result.notes.empty()) run["notes"] = result.notes;
}

}  // namespace

std::string run_file_with(const RunResult& result, const std::string& text,
                          const std::string& file) {
  parse_json(text, file);
  const ordered_json document = ordered_json::parse(text);
  ordered_json run = {{"id", result.id}, {"group", result.group}, {"source", result.source}};
  run.update(run_of(document));
  put(result, run);
  const ordered_json out = {{"schema", 2},
                            {"group", result.group},
                            {"description", document.value("description", "Own runs, from logs")},
                            {"caveats", document.value("caveats", ordered_json::array())},
                            {"runs", ordered_json::array({run})}};
  const std::string written =
      out.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  const RunFile read = parse_runs(written, file);
  if (!read.rejected.empty()) throw Error(read.rejected.front().reason);
  return written;
}

}  // namespace llmsim::hwdb
