// Table files: comparison tables as people write them down, in TOML.
//
//   title = "GPT-2 XL on one H100"      of the table
//   note = "..."                        below it; a text or a list of texts
//   cell = ["tflops", "mfu"]            what a cell says, by the names of `llmsim compare --cell`
//   convention = "palm"                 how FLOPs are counted; default the exact ones
//   interval = true                     each value with its 90 % interval; default false
//   plan = true                         cells are the best plans, not given layouts; default false
//   runs = ["mine.json"]                files of measured runs, in this folder, for [[cells]]
//
//   [common]                            options of all cells, as of `llmsim predict`
//   [[rows]]                            label = "bf16", and options of the row
//   [[rows]]                            plus = "compile": the options of the row above, and these
//   [[columns]]                         label or plus, and options of the column
//   [[cells]]                           row and column by their labels, and options of one cell;
//                                       or run = "ID" in their place: a measured run, predicted as
//                                       its record says
//
// The label of `plus = "compile"` is "+ compile".  Options have their names without dashes in
// front; inside, "-" and "_" are the same.  A list is joined by commas.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/error.h"

namespace llmsim::hwdb {

// An unknown key; the message has file and line, and the nearest known one.
class UnknownKey : public Error {
 public:
  using Error::Error;
};

struct TableOption {
  std::string key;    // "micro-batch"
  std::string value;  // "8", "true", "1,2"
  int line = 0;
};
using TableOptions = std::vector<TableOption>;

// A row or a column, with the options of those that it builds on.  Of two options with one key the
// later one counts.
struct TableLine {
  std::string label;
  TableOptions options;
};

struct TableCell {
  std::size_t row = 0, column = 0;
  TableOptions options;
  std::optional<std::string> run;  // id
};

struct TableFile {
  std::string file, title;
  std::vector<std::string> notes, values;  // values: empty where the file does not list them
  std::optional<std::string> convention;
  bool interval = false, plan = false;
  std::vector<std::string> runs;  // paths
  TableOptions common;
  std::vector<TableLine> rows, columns;
  std::vector<TableCell> cells;  // at most one for each row and column
};

// Throws UnknownKey for an unknown key that is no option, and Error for what is no such TOML, each
// with `file` and line.  Options are not looked at.
TableFile parse_table_file(const std::string& text, const std::string& file);
TableFile read_table_file(const std::string& path);

}  // namespace llmsim::hwdb
