// llmsim trace: one step of a run as a trace of every pipeline stage and stream.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/run_options.h"

namespace llmsim::cli {

struct TraceOptions {
  std::string run_file;  // empty: the run is described by options
  RunOptions run;
  std::string microbatches = "0";
  bool operators = false;
  bool no_operators = false;
  std::string file;  // empty: standard output
  std::string database;
};

// Adds the command; parsing it runs it and sets `status` to the exit status.
void add_trace(CLI::App& program, int& status);

// 0, or 3 where the run cannot be carried out: standard error says why, and one that runs out of memory is drawn all the same.
int run_trace(const TraceOptions& options);

}  // namespace llmsim::cli
