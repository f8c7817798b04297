#include "cli/commands.h"

#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "calibrate/backtest.h"
#include "cli/help_format.h"
#include "cli/output.h"
#include "cli/plan_answer.h"
#include "cli/plan_goals.h"
#include "cli/plan_questions.h"
#include "cli/progress.h"
#include "cli/run_changes.h"
#include "cli/run_request.h"
#include "hwdb/runs/run_resolver.h"
#include "reports/page/page.h"
#include "reports/prediction.h"
#include "reports/validation.h"
#include "sim/base/error.h"
#include "sim/predict.h"

namespace llmsim::cli {
namespace {

struct ReportOptions {
  PlanOptions plan;
  bool scaling = true, validation = false;
  std::string format = "html";
  std::string file;  // empty: standard output
};

enum class PageFormat { Html, Json };

PageFormat page_format(const std::string& name) {
  if (name == "html") return PageFormat::Html;
  if (name == "json") return PageFormat::Json;
  throw Error("--format = " + name + ": html or json is expected");
}

void write_page(const std::string& text, const ReportOptions& options) {
  write_result(text, {.format = options.format, .file = options.file});
}

// The same question on another number of devices: the same sequences a step, nothing beside it.
sim::Plan plan_on(PlanOptions options, int num_devices, int global_batch,
                  const hwdb::Database& database) {
  options.run.gpus = std::to_string(num_devices);
  options.run.global_batch = std::to_string(global_batch);
  options.run.global_batch_tokens.reset();
  options.top = "1";
  options.pareto = options.sensitivity = options.risk = false;
  options.job = {.price = options.job.price};
  return planned(options, options.run, database).plan;
}

// On a quarter of the devices to four times as many, until Ctrl-C.
std::vector<reports::ScaledPlan> scaling_of(const PlanOptions& options,
                                            const sim::Prediction& winner,
                                            const hwdb::Database& database) {
  const int devices = winner.run.cluster.num_devices;
  const int batch = winner.run.strategy.global_batch;
  bool complete = true;
  std::vector<reports::ScaledPlan> scaling;
  const auto add = [&](int number) {
    if (!complete) return;
    sim::Plan plan = plan_on(options, number, batch, database);
    complete = plan.complete;
    if (!complete) return;
    scaling.push_back({number, {}});
    if (!plan.plans.empty()) scaling.back().plan = std::move(plan.plans.front());
  };
  for (const int part : {4, 2})
    if (devices % part == 0) add(devices / part);
  scaling.push_back({devices, winner});
  for (const int times : {2, 4})
    if (devices <= (1 << 20) / times) add(devices * times);
  return scaling;
}

std::string page_of(const ReportOptions& options, const reports::PlanAnswer& answer) {
  return page_format(options.format) == PageFormat::Html
             ? reports::page(answer)
             : reports::render(answer, reports::Format::Json);
}

int report_one(const ReportOptions& options, const PlanOptions& plan,
               const hwdb::Database& database) {
  reports::PlanAnswer answer = planned(plan, plan.run, database);
  const bool fits = !answer.plan.plans.empty();
  if (!fits && !answer.plan.complete)
    throw Error("interrupted before anything was found that fits");
  if (fits) {
    const sim::Prediction& winner = answer.plan.plans.front();
    answer.step = reports::step_detail(winner);
    if (options.scaling && answer.plan.complete)
      answer.scaling = scaling_of(plan, winner, database);
  }
  write_page(page_of(options, answer), options);
  if (!answer.plan.complete)
    std::cerr << "warning: interrupted: the best of what was searched until then\n";
  if (fits) return 0;
  say_why_not(reports::why_nothing_fits(answer.plan));
  return 3;
}

// The step is drawn of the best of them.
int report_several(const ReportOptions& options, reports::PlanComparison comparison) {
  if (comparison.plans.empty()) throw Error("interrupted before anything was found that fits");
  const reports::ComparedPlan* const best = reports::best_of(comparison);
  if (best) {
    reports::PlanAnswer& answer =
        comparison.plans[static_cast<std::size_t>(best - comparison.plans.data())].answer;
    answer.step = reports::step_detail(answer.plan.plans.front());
  }
  write_page(page_format(options.format) == PageFormat::Html
                 ? reports::page(comparison)
                 : reports::render(comparison, reports::Format::Json),
             options);
  if (best) return 0;
  say_why_not("none of the questions has a plan that answers it");
  return 3;
}

int report_plan(const ReportOptions& options) {
  check_goals(options.plan);
  const hwdb::Database database = open_database(options.plan.database);
  if (auto several = several_answers(options.plan, database))
    return report_several(options, std::move(*several));
  return report_one(options, one_question(options.plan), database);
}

int report_run(const ReportOptions& options) {
  const PageFormat format = page_format(options.format);
  const hwdb::Database database = open_database(options.plan.database);
  const sim::Run asked = request_of(options.plan.run, database).run;
  std::optional<WaitingLine> line(predicting(asked));
  const sim::Prediction prediction = sim::predict(asked);
  const reports::Provenance provenance{.database = name_of(database)};
  reports::PredictionExtras extras{.job = job_of(options.plan.job, prediction, database)};
  const bool simulated = prediction.step_time > sim::Seconds(0.0);
  if (simulated) extras.step = reports::step_detail(prediction);
  if (simulated && prediction.feasible())
    extras.assumed_switches =
        sim::switch_worths(prediction.run, reports::assumed_strategy_fields(prediction.run));
  if (simulated && !prediction.feasible())
    extras.changes = fitting_changes(options.plan.run, prediction, database);
  line.reset();
  write_page(format == PageFormat::Html
                 ? reports::page(prediction, provenance, extras)
                 : reports::render(prediction, provenance, reports::Format::Json, {}, extras),
             options);
  if (prediction.feasible()) return 0;
  say_why_not(prediction.infeasible->message);
  return 3;
}

// Every published run that ships with the program.
int report_validation(const ReportOptions& options) {
  const PageFormat format = page_format(options.format);
  const std::vector<hwdb::RunFile> files = read_run_files({});
  const hwdb::Database database = open_database(options.plan.database);
  hwdb::RunResolver resolver(database);
  const calibrate::Backtest backtest = backtest_of(files, calibrate::Scope::All, resolver);
  write_page(
      format == PageFormat::Html ? reports::page(backtest) : reports::validation_json(backtest),
      options);
  return 0;
}

// A run record says all that a question asks; its job and the site where it runs stand beside it.
void exclude_question(const std::vector<CLI::Option*>& options, CLI::Option& run,
                      CLI::Option& validation) {
  for (CLI::Option* option : options) {
    if (option->check_name("--help") || option->check_name("--help-all")) continue;
    validation.excludes(option);
    if (option->get_group() != "Job" && !option->check_name("--site")) run.excludes(option);
  }
}

}  // namespace

void add_report(CLI::App& program, int& status) {
  CLI::App* command = program.add_subcommand(
      "report", "a plan or one run as a page: one HTML file, to be read, shown and printed");
  const auto options = std::make_shared<ReportOptions>();
  PlanOptions& plan = options->plan;
  plan.pareto = plan.for_others = true;
  add_search_options(*command, plan.run);
  add_ranking_options(*command, plan);
  add_goals(*command, plan);
  add_job_options(*command, plan.job);
  const std::vector<CLI::Option*> of_question = command->get_options();
  CLI::Option* const run = add_option(*command, "--run", plan.run.run_file, "FILE",
                                      "a run record: the page of this one run, nothing is "
                                      "searched; default none; example: --run run.json");
  CLI::Option* const validation =
      command->add_flag("--validation", options->validation,
                        "predicted against measured, for every published run that ships with the "
                        "program, instead of a question; example: --validation");
  validation->excludes(run);
  exclude_question(of_question, *run, *validation);
  command->add_flag("--scaling,!--no-scaling", options->scaling,
                    "also the best plans on 1/4 to 4 times the devices with the same batch, a "
                    "search each, where there is one question; default on; example: --no-scaling");
  add_option(*command, "--format", options->format, "NAME",
             "html, or json: what is in the page; default html; example: --format json");
  add_option(*command, "-o", options->file, "FILE",
             "file to write; default standard output; example: -o plan.html");
  add_database_option(*command, plan.database);
  command->footer(
      "Exit status: 0 written, 1 error, 2 usage, 3 nothing fits, or the run does not.\n"
      "Lists ask several questions, as in plan: the page opens with the best answer.\n"
      "The page needs neither network nor server: open the file in a browser.\n"
      "Example: llmsim report --model llama-8b --gpus 16 --tokens 1T -o plan.html");
  command->callback([options, &status] {
    const auto missing = reports::missing_pages();
    if (page_format(options->format) == PageFormat::Html && missing) {
      say_why_not(*missing);
      status = kUsage;
    } else if (options->validation) {
      status = report_validation(*options);
    } else if (options->plan.run.run_file.empty()) {
      require_question(options->plan);
      status = report_plan(*options);
    } else {
      status = report_run(*options);
    }
  });
}

}  // namespace llmsim::cli
