// One question to the planner, answered.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "cli/job_options.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "hwdb/store/database.h"
#include "reports/plan.h"

namespace llmsim::cli {

// As typed.
struct PlanOptions {
  RunOptions run;
  JobOptions job;
  std::string objective = "throughput";
  std::string prefer = "simple";
  std::string top = "10";
  std::optional<double> headroom, deadline;
  std::optional<std::string> largest;
  bool risk = false, smallest = false, pareto = false, sensitivity = false, verbose = false;
  std::string jobs = "1";
  std::optional<std::string> export_folder, target;  // of the best plan's launch files
  bool force = false;                                // export the nearest where nothing fits
  bool for_others = false;  // the answer is a page: files go by their names, without folders
  std::optional<std::string> space;    // file of all strategies
  std::optional<std::string> require;  // requirements.h
  std::optional<std::string> part;     // of the questions, or of --space (parts.h)
  std::string question;                // of the marks of --part
  OutputOptions output;
  std::string database;
};

// How plans are found and ordered, and what is said of them: --objective, --prefer, --risk ...
void add_ranking_options(CLI::App& command, PlanOptions& options);

// Throws Error for an unknown name.
sim::Objective objective_of(const std::string& name);

// What is searched for the question of `run`, which stands for options.run: with --export, what the
// target's files can say.  Throws Error as query_of() does.
sim::PlanQuery plan_query(const PlanOptions& options, const RunOptions& run,
                          const hwdb::Database& database);

// The answer to the question of `run`, which stands for options.run.  Where the framework leaves
// gradients of sharded weights whole until the last micro-batch, it is searched a second time with
// gradients reduced after each, and the better of both answers is given.  Ctrl-C ends the search
// with what it has found.  Throws Error as query_of() does.
reports::PlanAnswer planned(const PlanOptions& options, const RunOptions& run,
                            const hwdb::Database& database);

// Of an answer without plans, the strategy that breaks no rule and came nearest to fitting in
// memory; none where all break one.
std::optional<sim::NearestMiss> too_large(const reports::PlanAnswer& answer);

// The run of a strategy that was looked at and is no plan.
sim::Run run_of(const reports::PlanAnswer& answer, const sim::NearestMiss& miss);

// Of an answer without plans, why the launch files of what came nearest cannot be written; empty
// where none are asked for, or that is not a reason.
std::string why_not_written(const PlanOptions& options, const reports::PlanAnswer& answer,
                            const hwdb::Database& database);

}  // namespace llmsim::cli
