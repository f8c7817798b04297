// Source tables: which measured runs the tables of a published project consist of, so that they can
// be printed again with a prediction for each measured value.
//
// A file describes one project:
//
//   {"schema": 1, "title": ..., "about": [...], "groups": [...], "tables": [...]}
//
// `groups` are the run groups whose every run must stand in a table.  A table has a title, a
// source, the number of rows that the source prints, and one of
//
//   runs         patterns of run ids, "*" for any text; rows come in the order of the run files
//   stages       memory of single pipeline stages, for which run records have no place: {run,
//                stage: "first" | "middle" | "last", allocated_bytes, peak_bytes, reserved_bytes};
//                allocated_bytes are resident between steps
//   comparisons  settings whose pairs and stated speed-ups (comparison.h) of `groups` are listed
//
// and optionally `assume`: {reason, model, hardware, training}, in the schema of run records, for
// what the source does not print, and `unexplained`: sentences on what is predicted far off.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/runs/run_record.h"
#include "sim/base/quantity.h"

namespace llmsim::hwdb {

struct StageFigures {
  std::string run, stage;
  std::optional<sim::Bytes> allocated, peak, reserved;
};

struct SourceTable {
  std::string title, source;
  int rows = 0;
  std::vector<std::string> runs;
  std::vector<StageFigures> stages;
  std::vector<std::string> comparisons, unexplained;
  std::optional<RunRecord> assumed;
  std::string assumption;  // the reason
};

struct SourceProject {
  std::string file, title;
  std::vector<std::string> about, groups;
  std::vector<SourceTable> tables;
};

// Throws Error where the text is no such JSON, naming file, table and key.
SourceProject parse_source_project(const std::string& text, const std::string& file);
SourceProject read_source_project(const std::string& path);

// Whether `pattern` covers the whole of `id`.
bool matches(const std::string& pattern, const std::string& id);

// `record` with what it does not say taken from `assumed`: counts of the model,
// hardware, ranks and batch.
RunRecord filled(RunRecord record, const RunRecord& assumed);

}  // namespace llmsim::hwdb
