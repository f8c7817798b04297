// Run files with what was measured: a run's own file, as people wrote it, and its results.
#pragma once

#include <optional>
#include <string>

#include "hwdb/runs/run_record.h"

namespace llmsim::hwdb {

// What a run file has besides the run's model, hardware and training.
struct RunResult {
  std::string id, group;
  std::string source;  // where the values were published or logged
  Measured measured;
  Scored scored;
  std::optional<double> noise{};
  std::string notes{};  // empty: those of the run
};

// A run file of schema 2 (tests/validation/runs/README.md) with the only run of `text`,
// which read_run accepts: all its keys, and the result in place of an earlier one.  `file`
// names it in messages.
std::string run_file_with(const RunResult& result, const std::string& text,
                          const std::string& file);

}  // namespace llmsim::hwdb
