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

using LaunchParser = LaunchText (*)(const std::string& text, const std::string& path);

using LaunchWriter = std::string (*)(const sim::Run& run, std::vector<LaunchEntry> entries);

struct LaunchTarget {
  const char* name;
  // Of facts/frameworks.json; the first is that of a file that is read.  None: any.
  std::vector<std::string> frameworks{};
  LaunchParser parsed = nullptr;  // null: write only
  // By which a file is recognised: a key, or several, parted by blanks, that it has all.
  std::vector<std::string> beginnings{};
  LaunchWriter written = nullptr;  // null: read only
  const char* file_name = "";      // of what is written
  // Before what is written: the first line of a comment, of the model's name and the number of
  // devices, and the last one, what the file leaves to its user.  Empty: no comment.
  const char* title = "";
  const char* yours = "";
  bool names_model = true;      // false: the file says nothing of the model
  bool names_adapters = false;  // though the file says what adapters it has
  // Fields of the strategy, and settings, that the program which is configured says, not the file.
  std::vector<std::string> left_to_program{};
  // The command that trains with the file on a node, "$@" being the user's own words, and what
  // a run adds to it.
  const char* command = "";
  std::string (*options)(const sim::Run& run) = nullptr;
  // Frameworks whose command says what is recomputed, and the settings that the file does not.
  std::vector<std::string> commanding{};
  // Its files start the program of the run's own framework, whose files are written with them.
  bool launches = false;
  LaunchFile (*node_file)(const sim::Run& run) = nullptr;  // one more file, which each node runs
};

const std::vector<LaunchTarget>& all_launch_targets();

// Null where none has that name, and where none that is written runs the framework.
const LaunchTarget* find_target(const std::string& name);
const LaunchTarget* target_running(const std::string& framework);

// What the rows of a target write of a run's fields.  Throws Error "TARGET cannot express
// FIELD = VALUE", also where the program would not start.
std::vector<LaunchEntry> entries_of(const LaunchTarget& target, const LaunchValues& fields);

// The file of a run.  Throws Error as entries_of().
std::string written_text(const LaunchTarget& target, const sim::Run& run);

// Of targets/read_only.cpp: programs whose files are read and not written.
LaunchTarget reader_of(const char* name, const char* framework, LaunchParser parsed,
                       std::vector<std::string> beginnings);
std::vector<LaunchTarget> read_only_targets();

// Of targets/slurm.cpp.
LaunchTarget torchrun_target();
LaunchTarget slurm_target();

}  // namespace llmsim::hwdb
