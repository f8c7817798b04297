// Measured runs made ready for fitting, their step times and their peaks and outcomes: resolved
// once, without what an earlier fit found.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "calibrate/backtest.h"
#include "hwdb/runs/run_record.h"
#include "sim/run.h"

namespace llmsim::calibrate {

// One run whose step time is scored.
struct MeasuredRun {
  std::string id;
  std::size_t group = 0;  // index into MeasuredRuns::groups
  sim::Run run;           // as it resolves without the rows of run_fit.h
  double measured = 0.0;  // s
  bool moe = false;       // with experts, expert or context parallelism
};

struct MeasuredRuns {
  std::vector<std::string> groups;
  std::vector<MeasuredRun> runs;  // by group, in the order of the files
};

// What the fitted_from of coefficients that were fitted to runs begins with.
inline constexpr const char* kRunFit = "step times of ";

// The scored runs of `files` that the simulator can predict; of each group at most
// `most_per_group`, spread evenly over the order of the file.
MeasuredRuns measured_runs(std::span<const hwdb::RunFile> files, std::size_t most_per_group = 60);

// One run whose peak memory is scored.
struct MeasuredPeak {
  std::string id;
  std::size_t group = 0;      // index into MeasuredMemory::groups
  sim::Run run;               // as it resolves without the rows of memory_fit.h
  hwdb::Measured measured{};  // with a peak; its kind and scope say what it is compared with
};

// One run whose outcome is known: it fitted into its devices, or it did not.
struct MeasuredOutcome {
  std::string id;
  std::size_t group = 0;
  sim::Run run;
  bool ran = false;  // false: out of memory
};

struct MeasuredMemory {
  std::vector<std::string> groups;
  std::vector<MeasuredPeak> peaks;  // in the order of the files
  std::vector<MeasuredOutcome> outcomes;
};

// What the fitted_from of coefficients that were fitted to peaks and outcomes begins with.
inline constexpr const char* kMemoryFit = "peaks and outcomes of ";

// The scored peaks and outcomes ("ok", "oom") of `files` of runs that the simulator can predict.
MeasuredMemory measured_memory(std::span<const hwdb::RunFile> files);

}  // namespace llmsim::calibrate
