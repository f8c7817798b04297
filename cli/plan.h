// llmsim plan: the best strategies, ranked.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "cli/output.h"
#include "cli/run_options.h"

namespace llmsim::cli {

struct PlanOptions {
  RunOptions run;
  std::string objective = "throughput";
  std::string top = "10";
  OutputOptions output;
  std::string database;
};

// Adds the command; parsing it runs it and sets `status` to the exit status.
void add_plan(CLI::App& program, int& status);

// 0, or 3 where nothing fits (the answer says why).
int run_plan(const PlanOptions& options);

}  // namespace llmsim::cli
