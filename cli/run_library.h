// Measured runs by their ids.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hwdb/runs/run_record.h"
#include "hwdb/text/shipped_text.h"

namespace llmsim::cli {

// The table files of cli/tables and the measured runs that they name, as they were when the program
// was built.
using hwdb::ShippedText;
std::span<const ShippedText> shipped_tables();  // "gpt2-h100", ... in alphabetical order
std::span<const ShippedText> shipped_runs();    // files of tests/validation/runs

// Looks for runs in files that the user names, in those that ship with tables, and at last in those
// of the project that the program was built in.  Nothing is read before the first run is asked for.
class RunLibrary {
 public:
  explicit RunLibrary(std::vector<std::string> paths);

  // Throws Error for an unknown id, naming the nearest, and for a run or file that cannot be read.
  const hwdb::RunRecord& run(const std::string& id);

 private:
  void read_near();
  void read_project(const std::string& id);
  const hwdb::RunRecord* find(const std::string& id) const;
  std::vector<std::string> ids() const;

  std::vector<std::string> paths_;
  std::vector<hwdb::RunFile> files_;
};

}  // namespace llmsim::cli
