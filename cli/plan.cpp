#include "cli/commands.h"

#include <CLI/Error.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/interruption.h"
#include "cli/job_options.h"
#include "cli/number_list.h"
#include "cli/output.h"
#include "cli/predict_command.h"
#include "cli/progress.h"
#include "cli/run_options.h"
#include "cli/run_request.h"
#include "reports/plan.h"
#include "sim/base/error.h"
#include "sim/plan.h"
#include "sim/switches.h"

namespace llmsim::cli {
namespace {

struct PlanOptions {
  RunOptions run;
  JobOptions job;
  std::string objective = "throughput";
  std::string top = "10";
  std::optional<double> headroom;
  bool pareto = false, verbose = false;
  std::string jobs = "1";
  OutputOptions output;
  std::string database;
};

// Ideas that are predicted in full, so that the winner can be compared with other kinds than the
// first few.
constexpr int kCompared = 16;

sim::Objective objective_of(const std::string& name) {
  if (name == "throughput") return sim::Objective::Throughput;
  if (name == "memory") return sim::Objective::Memory;
  if (name == "time") return sim::Objective::Time;
  if (name == "cost") {
    throw Error(
        "--objective = cost: the planner knows no prices of devices; throughput, memory or time is "
        "expected");
  }
  throw Error("--objective = " + name + ": throughput, memory or time is expected");
}

// Ctrl-C ends the search: what it has found so far is the answer.
sim::Plan timed_plan(sim::PlanQuery query, sim::Seconds& duration) {
  const auto start = std::chrono::steady_clock::now();
  const Interruption interruption;
  ProgressLine line("searching group");
  query.progress = [&](std::size_t done, std::size_t all) {
    line.tell(done, all);
    return !interruption.came();
  };
  sim::Plan plan = sim::plan(query);
  duration =
      sim::Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return plan;
}

// How to predict it, and what the switches are worth that nobody has asked for.
void describe_winner(const RunOptions& asked, reports::PlanAnswer& answer) {
  const sim::Run& winner = answer.plan.plans.front().run;
  answer.command = predict_command(asked, winner.strategy);
  answer.assumed_switches = sim::switch_worths(winner, reports::assumed_strategy_fields(winner));
}

int run_plan(const PlanOptions& options) {
  const reports::Format format = format_of(options.output);
  const int top = static_cast<int>(number_in("--top", options.top, {.least = 1, .most = 1000}));
  const sim::Objective objective = objective_of(options.objective);
  const hwdb::Database database = open_database(options.database);
  reports::PlanAnswer answer{.query = query_of(options.run, database),
                             .plan = {},
                             .shown = static_cast<std::size_t>(top),
                             .duration = {},
                             .provenance = {.database = name_of(database)}};
  answer.query.objective = objective;
  answer.query.threads =
      static_cast<int>(number_in("--jobs", options.jobs, {.least = 0, .most = 1024}));
  answer.query.top = std::max(top, kCompared);
  answer.query.pareto = options.pareto;
  answer.verbose = options.verbose;
  if (options.headroom) answer.query.headroom = *options.headroom / 100.0;
  answer.plan = timed_plan(answer.query, answer.duration);
  if (!answer.plan.plans.empty()) {
    describe_winner(options.run, answer);
    answer.job = job_of(options.job, answer.plan.plans.front(), database);
  }
  write_result(reports::render(answer, format, style_of(options.output)), options.output);
  if (answer.plan.plans.empty()) {
    if (!answer.plan.complete) throw Error("interrupted before anything was found that fits");
    say_why_not(reports::why_nothing_fits(answer.plan));
    return 3;
  }
  if (!answer.plan.complete)
    std::cerr << "warning: interrupted: the best of what was searched until then\n";
  for (const std::string& warning : answer.plan.plans.front().warnings)
    std::cerr << "warning: " << warning << "\n";
  return 0;
}

void add_search_settings(CLI::App& c, PlanOptions& o) {
  c.add_option("--objective", o.objective,
               "what is best: throughput, memory or time; default throughput; example: "
               "--objective memory")
      ->type_name("NAME");
  c.add_option("--top", o.top, "plans to show, 1 to 1000; default 10; example: --top 20")
      ->type_name("N");
  c.add_option("--headroom", o.headroom,
               "per cent of a device's memory that plans leave free, 0 to 90; default what 3 of "
               "4 runs need that are planned so; example: --headroom 5")
      ->type_name("PERCENT")
      ->check(finite_range(0.0, 90.0));
  c.add_flag("--pareto", o.pareto,
             "also the Pareto front, plans that are slower but smaller: takes some times as "
             "long");
  c.add_option("--jobs", o.jobs,
               "threads of the search, 0 to 1024; default 1; 0: one for each core; example: "
               "--jobs 8")
      ->type_name("N");
}

}  // namespace

void add_plan(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "plan", "the best strategies for a model on a number of devices, ranked");
  const auto options = std::make_shared<PlanOptions>();
  add_search_options(*command, options->run);
  add_search_settings(*command, *options);
  add_job_options(*command, options->job);
  command->add_flag("--verbose", options->verbose, "also what failed and what was assumed");
  add_output_options(*command, options->output);
  add_database_option(*command, options->database);
  command->footer(
      "Exit status: 0 planned, 1 error, 2 usage, 3 nothing fits.\n"
      "Lists and ranges: 1,2,4 or 1-4 (1 2 3 4) or 1-16*2 (1 2 4 8 16) or 8-32+8 (8 16 24 32).\n"
      "Example: llmsim plan --model llama-70b --gpus 256");
  // Checked here and not by required(), which would hide a misspelt option behind the one that it
  // was meant for.
  command->callback([options, &status] {
    if (options->run.model.empty()) throw CLI::RequiredError("--model");
    if (!options->run.gpus) throw CLI::RequiredError("--gpus");
    status = run_plan(*options);
  });
}

}  // namespace llmsim::cli
