#include "cli/commands.h"

#include <CLI/Error.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>

#include "cli/number_list.h"
#include "cli/output.h"
#include "cli/run_options.h"
#include "cli/run_request.h"
#include "reports/plan.h"
#include "sim/base/error.h"
#include "sim/plan.h"

namespace llmsim::cli {
namespace {

struct PlanOptions {
  RunOptions run;
  std::string objective = "throughput";
  std::string top = "10";
  OutputOptions output;
  std::string database;
};

// Plans that are predicted in full, so that the winner can be compared with other families than the
// first few.
constexpr int kCompared = 60;

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

sim::Plan timed_plan(const sim::PlanQuery& query, sim::Seconds& duration) {
  const auto start = std::chrono::steady_clock::now();
  sim::Plan plan = sim::plan(query);
  duration =
      sim::Seconds(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return plan;
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
  answer.query.top = std::max(top, kCompared);
  answer.plan = timed_plan(answer.query, answer.duration);
  write_result(reports::render(answer, format, style_of(options.output)), options.output);
  if (answer.plan.plans.empty()) {
    say_why_not(reports::why_nothing_fits(answer.plan));
    return 3;
  }
  for (const std::string& warning : answer.plan.plans.front().warnings)
    std::cerr << "warning: " << warning << "\n";
  return 0;
}

}  // namespace

void add_plan(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "plan", "the best strategies for a model on a number of devices, ranked");
  const auto options = std::make_shared<PlanOptions>();
  add_search_options(*command, options->run);
  command
      ->add_option("--objective", options->objective,
                   "what is best: throughput, memory or time; default throughput; example: "
                   "--objective memory")
      ->type_name("NAME");
  command
      ->add_option("--top", options->top, "plans to show, 1 to 1000; default 10; example: --top 20")
      ->type_name("N");
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
