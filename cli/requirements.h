// What an answer must be like for exit status 0: "memory<75GiB,mfu>40%".
//
//   memory   device memory that is needed       GiB, GB, MiB, ...; also % of the device's
//   step     step time                           s, ms, min
//   tokens   tokens per second and device
//   mfu, hfu                                     % or a ratio
//   fits     probability to fit                  % or a ratio
//   days, cost                                   of the whole job (--tokens); days, USD
//
// joined by commas, each with <, <=, > or >=.  Predicted values are compared, not their intervals.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "reports/job.h"
#include "sim/predict.h"

namespace llmsim::cli {

struct Requirement {
  std::string text;  // as typed: "memory<75GiB"
  std::string quantity;
  std::string comparison;  // "<", "<=", ">", ">="
  double limit = 0.0;      // in base units: bytes, s, ratios, days, USD
  bool of_device = false;  // of memory: a share of the device's
};

// Throws Error naming what is wrong and what is expected.
std::vector<Requirement> requirements_in(const std::string& text);

// --require LIST.
void add_require_option(CLI::App& command, std::optional<std::string>& list);

// "--require mfu>40%: it is 38.2 %" of the first that is not met; empty: all are.  Throws Error for
// days and cost without a job.
std::string unmet(const std::vector<Requirement>& requirements, const sim::Prediction& prediction,
                  const std::optional<reports::JobAnswer>& job);

}  // namespace llmsim::cli
