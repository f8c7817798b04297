// llmsim calibrate verify: what the simulator must get exactly right, counted in real training steps.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/output.h"

namespace llmsim::cli {

struct VerifyOptions {
  std::vector<std::string> results;  // files of `llmsim-runtime --verify`; none: count here
  OutputOptions output;
  std::string database;
};

// Adds the subcommand to `calibrate`; parsing it runs it and sets `status`.
void add_calibrate_verify(CLI::App& calibrate, int& status);

// Prints a line for each figure, predicted and measured.  0 where all are equal, else 1.
int run_calibrate_verify(const VerifyOptions& options);

}  // namespace llmsim::cli
