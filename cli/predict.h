// llmsim predict: one run in full.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "cli/output.h"
#include "cli/run_options.h"

namespace llmsim::cli {

struct PredictOptions {
  std::string run_file;  // empty: the run is described by options
  RunOptions run;
  std::optional<std::string> reported_mfu{}, reported_tflops{}, convention{};  // a published figure to explain
  std::optional<std::string> explain{};                                        // instead of the usual answer
  bool memory_timeline = false;
  std::optional<int> memory_stage{};  // none: the fullest
  OutputOptions output;
  std::string database;
};

// Adds the command; parsing it runs it and sets `status` to the exit status.
void add_predict(CLI::App& program, int& status);

// 0, or 3 where the run cannot be carried out (the answer says why).
int run_predict(const PredictOptions& options);

}  // namespace llmsim::cli
