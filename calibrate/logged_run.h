// The steps of one run, from the logs of its ranks, and the times of these steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/log_formats.h"
#include "calibrate/training_log.h"
#include "sim/run.h"

namespace llmsim::calibrate {

// The sizes that turn rates into step times.
struct StepSize {
  int global_batch = 1;      // sequences
  int seq_len = 1;           // tokens
  int num_devices = 1;       //
  int num_microbatches = 1;  // of one replica
};

// One step, with the readings of every rank that prints it.
struct RunStep {
  std::size_t start = 0;  // how often the run was started again before
  std::optional<std::int64_t> number;
  std::vector<std::pair<std::size_t, Readings>> of_ranks{};  // rank, at least one

  const Readings& readings() const { return of_ranks.front().second; }
};

// Those of a run.
StepSize step_size(const sim::Run& run);

struct LoggedRun {
  const LogFormat* format = nullptr;
  std::vector<std::string> ranks{};  // names: "rank 3", or that of a file
  std::vector<RunStep> steps{};      // in the order of the log
};

// The run in the format with the best witness: the first of log_formats() that has at least 5
// steps, else the one with most.  Files of one label (or of none) are of several ranks where at
// least half of their steps are the same, else one after the other.  Timers of micro-steps are
// added up to steps.  Requires a log with a step.
LoggedRun logged_run(TrainingLog log, const StepSize& size);

// A kind of number that step times follow from.
struct Witness {
  Logged what = Logged::StepTime;
  double work = 0.0;      // seconds = work / rate; 0: the number is a time
  double rounding = 0.0;  // relative, in the median: half a unit of the last digit

  bool is_rate_of_data() const;  // which the size of a step turns into a time
  std::optional<double> time_of(const Readings& readings) const;
  std::optional<double> time_of(const RunStep& step) const;  // the longest of all ranks
};

// Those that at least half of the steps have, printed times first; rates give
//
//   t = 1 / steps_per_s = global_batch / samples_per_s = global_batch seq_len / tokens_per_s
std::vector<Witness> witnesses(const std::vector<RunStep>& steps, const StepSize& size);

}  // namespace llmsim::calibrate
