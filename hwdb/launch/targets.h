// Targets of launch files: a training program and its file.  The table of each is
// targets/NAME.rows (row_text.h).
//
// Private to hwdb.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/launch/launch_file.h"
#include "hwdb/launch/launch_table.h"

namespace llmsim::hwdb {

// The content of a file, whatever its format.
struct LaunchText {
  LaunchValues values;
  std::optional<int> num_devices{};  // of the launcher's own options
  std::string program{};             // whose options these are, a file's name; empty: not said
};

struct LaunchTarget {
  const char* name;
  // Of facts/frameworks.json; the first is that of a file that is read.  None: any.
  std::vector<std::string> frameworks;
  const char* file_name;
  LaunchText (*parsed)(const std::string& text, const std::string& path);  // null: write only
  // Null: read only.
  std::string (*written)(const sim::Run& run, const std::vector<LaunchEntry>& entries);
  // By which a file is recognised: a key, or several, parted by blanks, that it has all.
  std::vector<std::string> beginnings;
  bool names_model = true;      // false: the file says nothing of the model
  bool names_adapters = false;  // though the file says what adapters it has
  // Fields of the strategy that the program which is configured says, not the file.
  std::vector<std::string> left_to_program{};
  // The command that trains with the file on a node, "$@" being the user's own words.
  std::string (*command)(const sim::Run& run) = nullptr;
  // Frameworks whose command says what is recomputed, which the file does not.
  std::vector<std::string> commanded_recompute{};
  // Its files start the program of the run's own framework, whose files are written with them.
  bool launches = false;
  LaunchFile (*node_file)(const sim::Run& run) = nullptr;  // one more file, which each node runs
};

const std::vector<LaunchTarget>& all_launch_targets();

// What the rows of a target write of a run's fields.  Throws Error "TARGET cannot express
// FIELD = VALUE", also where the program would not start.
std::vector<LaunchEntry> entries_of(const LaunchTarget& target, const LaunchValues& fields);

// Of targets/read_only.cpp: programs whose files are read and not written.
std::vector<LaunchTarget> read_only_targets();

// Of targets/slurm.cpp.
LaunchTarget torchrun_target();
LaunchTarget slurm_target();

}  // namespace llmsim::hwdb
