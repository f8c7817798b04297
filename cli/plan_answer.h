// One question to the planner, answered.
#pragma once

#include <optional>
#include <string>

#include "cli/job_options.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "hwdb/database.h"
#include "reports/plan.h"

namespace llmsim::cli {

// As typed.
struct PlanOptions {
  RunOptions run;
  JobOptions job;
  std::string objective = "throughput";
  std::string top = "10";
  std::optional<double> headroom, deadline;
  std::optional<std::string> largest;
  bool risk = false, smallest = false, pareto = false, sensitivity = false, verbose = false;
  std::string jobs = "1";
  OutputOptions output;
  std::string database;
};

// Throws Error for an unknown name.
sim::Objective objective_of(const std::string& name);

// The answer to the question of `run`, which stands for options.run.  Ctrl-C ends the search with
// what it has found.  Throws Error as query_of() does.
reports::PlanAnswer planned(const PlanOptions& options, const RunOptions& run,
                            const hwdb::Database& database);

}  // namespace llmsim::cli
