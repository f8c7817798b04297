// llmsim calibrate: measure this machine, make a device of the measurements, hold predictions against its own training steps.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"

namespace llmsim::cli {

struct CalibrateOptions {
  std::vector<std::string> results;  // files of llmsim-runtime; `run` writes one
  bool quick = false;
  bool resume = false;
  bool replace = false;
  int ranks = 1;             // local processes that are measured together, after one alone
  std::optional<int> nodes;  // print how to start them on so many nodes
  std::optional<int> threads;
  std::optional<double> budget;
  std::string device;
  std::string id;
  OutputOptions output;
  std::string database;
};

// Adds the command with its subcommands run, import, compare and verify; parsing one runs it and sets `status` to the exit
// status.
void add_calibrate(CLI::App& program, int& status);

// Starts llmsim-runtime here, for one rank and then for `ranks`, and imports what it wrote; with `nodes`, prints the lines that
// start the ranks there, and ends.
int run_calibrate_run(const CalibrateOptions& options);

// Fits the device and stores it as one's own hardware, with all coefficients.
int run_calibrate_import(const CalibrateOptions& options);

// Predicted against measured step times of the file's training steps, on the imported device.
int run_calibrate_compare(const CalibrateOptions& options);

}  // namespace llmsim::cli
