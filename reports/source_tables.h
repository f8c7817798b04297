// The tables of published projects, predicted against measured.
#pragma once

#include <span>
#include <string>

#include "calibrate/source_tables.h"
#include "reports/table.h"

namespace llmsim::reports {

// One table of a project.  Columns that no row fills and settings that all rows share are left out
// for people.
Table source_table(const calibrate::FilledTable& filled);

// A whole project as a Markdown document.
std::string source_document(const calibrate::FilledProject& project);

// One row per table of every project: rows, errors of times and peaks, verdicts.
Table source_summary(std::span<const calibrate::FilledProject> projects);

// {"projects": [{"title", "file", "tables": [{"title", "source", "rows": [...]}]}]}; each row an
// object with base units.
std::string source_json(std::span<const calibrate::FilledProject> projects);

}  // namespace llmsim::reports
