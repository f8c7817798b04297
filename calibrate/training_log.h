// Logs of training runs: their steps, read line by line, and what these say of a run.
//
// A log may be of one rank or of several, which differ in the prefix that launchers put before a
// line ("3: ", "[rank3]:", "[default3]:", "[1,3]<stdout>:") or in their files.  Of a step that
// several ranks print, the longest time counts.  Several files with the same steps are of several
// ranks; with others, they are one log after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/log_formats.h"
#include "calibrate/steady_phase.h"
#include "hwdb/runs/run_record.h"
#include "sim/base/quantity.h"

namespace llmsim::calibrate {

// What one line, or one block of lines, says.
struct LoggedStep {
  std::optional<std::int64_t> number;
  std::size_t start = 0;  // how often the run was started again before
  Readings readings;
};

// What one rank logged, in one file, in one format.
struct LogStream {
  const LogFormat* format = nullptr;
  std::string rank;  // as the log labels it; empty: not said
  std::size_t file = 0;
  std::vector<LoggedStep> steps{};
};

struct TrainingLog {
  std::vector<std::string> files;
  std::vector<LogStream> streams{};  // with at least one step
  std::int64_t lines = 0;
  std::optional<sim::Bytes> peak_allocated{}, peak_reserved{};  // largest of all ranks and lines
  bool out_of_memory = false;  // an error of that kind stands behind the last step
  std::string unread_table{};  // why a table is not read; empty: there is none
};

// Reads one log to its end; `file` is its name.  A last line that is cut off is left out.  Nothing
// is thrown.
void read_training_log(std::istream& stream, const std::string& file, TrainingLog& log);

// The logs of one run.  Throws Error for a file that cannot be read or is compressed, and where
// there is neither a step nor an error of memory: it names what was looked for.
TrainingLog read_training_logs(const std::vector<std::string>& paths);

// The format of the steps in the first 256 KiB of a file of any kind; none where there is no step,
// and for JSON lines, which other files consist of, too.
std::optional<std::string> training_log_format(const std::string& path);

}  // namespace llmsim::calibrate
