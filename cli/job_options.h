// The options that describe a whole training job: how many tokens, and what interrupts it.  The
// defaults are those of hwdb/hardware/job_defaults.h.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "hwdb/store/database.h"
#include "reports/job.h"
#include "sim/predict.h"

namespace llmsim::cli {

// As typed; job_of() reads them.
struct JobOptions {
  std::optional<std::string> tokens{};  // none: no job
  std::optional<std::string> price{}, mtbf{}, restart{}, operations{}, ramp_up{};
  std::optional<std::string> checkpoint_interval{}, checkpoint_bandwidth{};
  bool asynchronous = false;
};

// All in the group "Job"; each of the others but --price needs --tokens.
void add_job_options(CLI::App& command, JobOptions& options);

// A count as people type it: "15T", "300B", "20M", "4K", "1.5e13", "1000000".
// Throws Error naming `option`.
double token_count(const std::string& option, const std::string& text);

// USD of a device-hour: --price, else the public prices of the device; none where it has none.
std::optional<double> device_hour_price(const JobOptions& options, const sim::Cluster& cluster,
                                        const hwdb::Database& database);

// The job of a predicted run; none where no tokens are asked for or the run cannot be carried out.
// A ramp-up predicts the run once more, with its first batch.  Throws Error for a value that cannot
// be, naming its option.
std::optional<reports::JobAnswer> job_of(const JobOptions& options,
                                         const sim::Prediction& prediction,
                                         const hwdb::Database& database);

}  // namespace llmsim::cli
