#include "cli/commands.h"

#include <iostream>
#include <memory>

#include "cli/export.h"
#include "cli/help_format.h"
#include "cli/output.h"
#include "cli/plan_answer.h"
#include "cli/plan_goals.h"
#include "cli/plan_questions.h"
#include "cli/plan_space.h"
#include "cli/requirements.h"
#include "cli/run_request.h"
#include "hwdb/launch/launch_file.h"
#include "reports/prediction.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

// Writes what came nearest to fitting.
void export_too_large(const PlanOptions& options, const reports::PlanAnswer& answer,
                      const sim::NearestMiss& miss, const hwdb::Database& database) {
  export_run(run_of(answer, miss), options.target, options.export_folder, options.run, database);
  warn_of_memory(miss.needed, miss.available, "the plan that comes nearest");
}

int answer_one(const PlanOptions& options, const hwdb::Database& database) {
  if (options.space) check_can_be_written(*options.space);
  const reports::PlanAnswer answer = planned(options, options.run, database);
  print_answer(answer, options.output);
  if (options.space && answer.plan.complete)
    write_space(query_of(options.run, database), *options.space, part_in(options.part),
                options.question);
  if (answer.plan.plans.empty()) {
    if (!answer.plan.complete) throw Error("interrupted before anything was found that fits");
    const auto nearest = options.export_folder ? too_large(answer) : std::nullopt;
    if (nearest && options.force) {
      export_too_large(options, answer, *nearest, database);
      return 0;
    }
    const std::string way_out = what_would_fit(options, database);
    const std::string refusal = why_not_written(options, answer, database);
    say_why_not(reports::why_nothing_fits(answer.plan) + (refusal.empty() ? "" : "; " + refusal) +
                (way_out.empty() ? "" : "; it would fit " + way_out) +
                (nearest ? kForceWrites : ""));
    return 3;
  }
  if (!answer.plan.complete)
    std::cerr << "warning: interrupted: the best of what was searched until then\n";
  for (const std::string& warning : answer.plan.plans.front().warnings)
    std::cerr << "warning: " << warning << "\n";
  const std::string why_not =
      unmet(requirements_in(options.require.value_or("")), answer.plan.plans.front(), answer.job);
  if (!why_not.empty()) {
    say_why_not("the best plan does not do: " + why_not);
    return 3;
  }
  if (options.export_folder)
    export_run(reports::unpadded_run(answer.plan.plans.front()), options.target,
               options.export_folder, options.run, database);
  return 0;
}

int answer_many(const PlanOptions& options, const reports::PlanComparison& comparison) {
  const Part part = part_in(options.part);
  if (comparison.plans.empty() && part.is_all())
    throw Error("interrupted before anything was found that fits");
  write_result(marked(render(comparison, format_of(options.output), style_of(options.output)), part,
                      options.question),
               options.output);
  for (const reports::ComparedPlan& plan : comparison.plans) {
    if (!plan.answer.plan.plans.empty()) continue;
    std::cerr << "warning:";  // CSV has no row for it
    for (std::size_t i = 0; i < plan.values.size(); ++i)
      std::cerr << " " << comparison.keys[i] << " " << plan.values[i];
    std::cerr << ": " << reports::why_nothing_fits(plan.answer.plan) << "\n";
  }
  if (reports::best_of(comparison) || !part.is_all()) return 0;
  say_why_not(options.deadline ? "none of the questions has a plan that ends in time"
                               : "none of the questions has a plan that fits");
  return 3;
}

void add_export_options(CLI::App& c, PlanOptions& o) {
  add_option(c, "--export", o.export_folder, "DIR",
             "folder for the launch files of the best plan; default none; example: --export "
             "launch");
  add_target_option(c, o.target, "default slurm on GPUs, else that of the framework");
  c.add_flag("--force", o.force,
             "with --export, where nothing fits: write what comes nearest, with a warning");
  for (const char* option : {"--to", "--force"}) c.get_option(option)->needs("--export");
  set_group(c, "Search", {"--export", "--to", "--force"});
}

int run_plan(PlanOptions options) {
  format_of(options.output);
  requirements_in(options.require.value_or(""));
  if (options.target) {
    options.target = hwdb::target_of_release(*options.target);
    hwdb::framework_of_target(*options.target);
  }
  check_goals(options);
  const hwdb::Database database = open_database(options.database);
  if (const auto many = several_answers(options, database)) {
    if (options.export_folder || options.space || options.require)
      throw Error(std::string(options.export_folder ? "--export"
                              : options.space       ? "--space"
                                                    : "--require") +
                  ": one question, with one model and one number of devices, is expected");
    if (options.part) require_csv(format_of(options.output));
    return answer_many(options, *many);
  }
  if (options.part && !options.space)
    throw Error("--part: lists that ask several questions, or --space FILE, are expected");
  return answer_one(one_question(options), database);
}

}  // namespace

void add_plan(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "plan", "the best strategies for a model on a number of devices, ranked");
  const auto options = std::make_shared<PlanOptions>();
  add_search_options(*command, options->run);
  add_ranking_options(*command, *options);
  add_goals(*command, *options);
  command->add_flag("--pareto", options->pareto,
                    "also the Pareto front, plans that are slower but smaller: takes some times "
                    "as long");
  set_group(*command, "Search", {"--pareto"});
  add_option(*command, "--space", options->space, "FILE",
             "CSV file of every strategy that breaks no rule, with its memory and, where it "
             "fits, its step time: a million take some seconds and 200 MB; default none; "
             "example: --space space.csv");
  add_part_option(*command, options->part, "the questions, or of the strategies of --space",
                  "--gpus 8,16 --format csv --part 1/2");
  set_group(*command, "Search", {"--space", "--part"});
  add_export_options(*command, *options);
  add_job_options(*command, options->job);
  add_require_option(*command, options->require);
  command->add_flag("--verbose", options->verbose, "also what failed and what was assumed");
  add_output_options(*command, options->output);
  add_database_option(*command, options->database);
  command->footer(
      "Exit status: 0 planned, 1 error, 2 usage, 3 nothing fits, or the best plan is not\n"
      "what --require asks for.\n"
      "Lists and ranges: 1,2,4 or 1-4 (1 2 3 4) or 1-16*2 (1 2 4 8 16) or 8-32+8 (8 16 24 32).\n"
      "Lists of --model, --gpus, --hardware, --system, --framework, --precision, --optimizer, "
      "--seq-len\n"
      "or --global-batch ask several questions: a row for each.\n"
      "Examples: llmsim plan --model llama-70b --gpus 256\n"
      "          llmsim plan --model llama-8b --gpus 8,16 --hardware h100,mi300x --objective cost\n"
      "          llmsim plan --model llama-8b --fit --tokens 1T --deadline 60");
  // Checked here and not by required(), which would hide a misspelt option behind the one that it
  // was meant for.
  command->callback([options, command, &status] {
    require_question(*options);
    options->question = question_of(*command);
    status = run_plan(*options);
  });
}

}  // namespace llmsim::cli
