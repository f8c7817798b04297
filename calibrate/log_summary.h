// What the logs of a training run say of it: step time, spread, memory, and what was left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/log_formats.h"
#include "calibrate/logged_run.h"
#include "calibrate/steady_phase.h"
#include "calibrate/training_log.h"
#include "hwdb/runs/run_record.h"
#include "sim/base/quantity.h"

namespace llmsim::calibrate {

// A rank whose own median is more than 5 % over the median of all ranks.
struct Straggler {
  std::string rank;
  double slowdown = 1.0;  // relative to that median
};

struct LogSummary {
  std::string format;                                 // empty: no step, out of memory
  std::size_t steps = 0;                              // read, before anything is left out
  std::optional<std::int64_t> first_step, last_step;  // numbers
  std::int64_t steps_per_line = 1;                    // of which each time is the mean
  std::size_t ranks = 1;
  std::size_t restarts = 0;
  std::size_t other_batch = 0;  // steps of another global batch, left out
  SteadyPhase phase;            // of step times in seconds
  Logged from = Logged::StepTime;
  double rounding = 0.0;  // relative: half a unit of the last digit of what times are read from
  std::optional<double> device_tokens_per_second, device_flops_per_second, mfu;  // printed; medians
  std::optional<sim::Bytes> peak_allocated, peak_reserved;
  bool out_of_memory = false;
  std::string other_work;      // of a step in addition to training; empty: none
  bool by_wall_clock = false;  // step times are the time between two lines
  std::vector<Straggler> stragglers;
  std::vector<std::string> warnings;

  bool has_time() const { return !format.empty(); }
  bool of_whole_run() const;  // one mean over all steps, warm-up included
  double noise() const;       // relative: the spread, and not less than the rounding
};

// The summary of the run whose logs these are (logged_run.h).  Step times are printed ones, unless
// their rounding exceeds 0.5 % and a rate's is finer.  Warns where a printed step time and a
// printed rate differ by more than 2 %.  Throws Error where every step has another global batch
// than the run, or no time.
LogSummary summary(TrainingLog log, const StepSize& size);

// The summary as run files have it.  `pipeline_parallel` and the number of ranks tell whose peak of
// memory a log has.
hwdb::Measured measured(const LogSummary& summary, int pipeline_parallel);
hwdb::Scored scored(const LogSummary& summary, const hwdb::Measured& measured,
                    int pipeline_parallel);

}  // namespace llmsim::calibrate
