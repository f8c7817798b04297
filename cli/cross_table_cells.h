// The cells of a comparison table: the run of each one, and its prediction.
//
// A cell is predicted as `llmsim predict` predicts the same options, planned as `llmsim plan` plans
// them, or predicted as a measured run is recorded.
#pragma once

#include <string>
#include <vector>

#include "cli/job_options.h"
#include "cli/parts.h"
#include "cli/run_options.h"
#include "hwdb/store/database.h"
#include "hwdb/text/table_file.h"
#include "reports/cross_table.h"

namespace llmsim::cli {

// The inputs that all cells share.
struct CellContext {
  const hwdb::Database& database;
  std::vector<std::string> runs{};  // files of measured runs that come before the shipped ones
  JobOptions job{};                 // of which the price counts
  std::string jobs = "0";           // threads of a search
  Part part{};                      // only its cells, row by row, are answered
};

// The table of a file.  Throws hwdb::UnknownKey and Error as check_options() does, and Error naming
// the cell whose options are wrong for a run or a search.
reports::CrossTable cross_table(const hwdb::TableFile& file, const CellContext& context);

// The table of options of which two have lists of values: the first in `order`, which names options
// as they are typed ("--model"), is that of the rows.  One list is rows alone.  Throws Error for
// more than two.
reports::CrossTable cross_table(const RunOptions& options, const std::vector<std::string>& order,
                                bool planned, const CellContext& context);

// Throws Error naming `option` for another name.
std::vector<reports::CellValue> cell_values(const std::vector<std::string>& names,
                                            const std::string& option);

// Whether the options leave the mesh and the sharding open.
bool leaves_layout_open(const RunOptions& options);

// A table file (hwdb/text/table_file.h) has the options of one run, or those of a search, which
// takes lists where it chooses.
enum class TableOptionsOf { Run, Search };

// Throws hwdb::UnknownKey for an unknown option, naming file, line and the nearest known one, and
// Error for a value that an option cannot have.
void check_options(const hwdb::TableOptions& options, TableOptionsOf kind, const std::string& file);

// The same options as on a command line.  Of an option that is there twice the later value counts.
// Requires options that have been checked.
RunOptions run_options(const hwdb::TableOptions& options, TableOptionsOf kind);

}  // namespace llmsim::cli
