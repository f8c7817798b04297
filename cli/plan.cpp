#include "cli/commands.h"

#include <CLI/Error.hpp>
#include <iostream>
#include <memory>

#include "cli/help_format.h"
#include "cli/number_list.h"
#include "cli/output.h"
#include "cli/plan_answer.h"
#include "cli/plan_goals.h"
#include "cli/plan_questions.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

int answer_one(const PlanOptions& options, const hwdb::Database& database) {
  const reports::PlanAnswer answer = planned(options, options.run, database);
  write_result(reports::render(answer, format_of(options.output), style_of(options.output)),
               options.output);
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

int answer_many(const PlanOptions& options, const reports::PlanComparison& comparison) {
  if (comparison.plans.empty()) throw Error("interrupted before anything was found that fits");
  write_result(reports::render(comparison, format_of(options.output), style_of(options.output)),
               options.output);
  if (reports::best_of(comparison)) return 0;
  say_why_not(options.deadline ? "none of the questions has a plan that ends in time"
                               : "none of the questions has a plan that fits");
  return 3;
}

// Usage errors come first: nothing is searched for a question that cannot be answered.
void check_goals(const PlanOptions& options) {
  objective_of(options.objective);
  if (options.deadline && !options.job.tokens)
    throw Error("--deadline: --tokens is missing, how many tokens are to be trained on until then");
}

int run_plan(PlanOptions options) {
  format_of(options.output);
  check_goals(options);
  if (options.largest)
    return answer_many(options, largest(options, open_database(options.database)));
  const bool many = options.smallest || options.deadline;
  if (options.smallest && !options.run.gpus) options.run.gpus = kEveryPowerOfTwo;
  const PlanQuestions questions = questions_of(options.run);
  const hwdb::Database database = open_database(options.database);
  if (!many && questions.list.size() == 1) {
    options.run = questions.list.front().run;
    return answer_one(options, database);
  }
  return answer_many(options, compared(options, questions, database));
}

void add_search_settings(CLI::App& c, PlanOptions& o) {
  c.add_option("--objective", o.objective,
               "what is best: throughput, memory, time (of the whole job, with --tokens) or cost; "
               "default throughput; example: --objective memory")
      ->type_name("NAME");
  c.add_option("--top", o.top, "plans to show, 1 to 1000; default 10; example: --top 20")
      ->type_name("N");
  c.add_option("--headroom", o.headroom,
               "per cent of a device's memory that plans leave free, 0 to 90; default what 3 of "
               "4 runs need that are planned so; example: --headroom 5")
      ->type_name("PERCENT")
      ->check(finite_range(0.0, 90.0));
  c.add_flag("--fit", o.smallest,
             "the smallest number of devices on which it fits, of --gpus or of 1, 2, 4 to 65536; "
             "with --deadline on which it ends in time; example: --fit");
  c.add_option(
       "--largest", o.largest,
       "the largest model of the catalogue, seq-len or micro-batch that fits; default none; "
       "example: --largest seq-len")
      ->type_name("WHAT")
      ->excludes("--fit");
  c.add_option("--deadline", o.deadline,
               "days in which the job of --tokens is to end; default none; example: --tokens 2T "
               "--deadline 30")
      ->type_name("DAYS")
      ->check(finite_range(0.0, 1e6));
  c.add_flag(
      "--sensitivity", o.sensitivity,
      "also what it would take: one switch or number of the best plan changed at a time, and "
      "each property of the hardware 1.25 times as good, planned anew");
  c.add_flag(
      "--risk", o.risk,
      "plans in the order of what they may lose: at most, on the best of them, where any one "
      "property of the hardware is 1.25 times as good or as bad as it is taken to be");
  c.add_flag("--pareto", o.pareto,
             "also the Pareto front, plans that are slower but smaller: takes some times as "
             "long");
  c.add_option("--jobs", o.jobs,
               "threads of the search, 0 to 1024; default 1; 0: one for each core; example: "
               "--jobs 8")
      ->type_name("N");
  set_group(c, "Search",
            {"--objective", "--top", "--headroom", "--fit", "--largest", "--deadline",
             "--sensitivity", "--risk", "--pareto", "--jobs"});
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
      "Lists of --model, --gpus, --hardware, --system, --framework, --precision, --optimizer, "
      "--seq-len\n"
      "or --global-batch ask several questions: a row for each.\n"
      "Examples: llmsim plan --model llama-70b --gpus 256\n"
      "          llmsim plan --model llama-8b --gpus 8,16 --hardware h100,mi300x --objective cost\n"
      "          llmsim plan --model llama-8b --fit --tokens 1T --deadline 60");
  // Checked here and not by required(), which would hide a misspelt option behind the one that it
  // was meant for.
  command->callback([options, &status] {
    if (options->run.model.empty() && options->largest != "model")
      throw CLI::RequiredError("--model");
    if (!options->run.gpus && !options->smallest) throw CLI::RequiredError("--gpus or --fit");
    status = run_plan(*options);
  });
}

}  // namespace llmsim::cli
