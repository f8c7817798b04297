// The planner inside of a page: the questions of `llmsim report` in WebAssembly, without files,
// threads and SQLite.
//
// A call is a question: texts in, a text out.  Built by itself, with Emscripten (CMakeLists.txt).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "cli/job_options.h"
#include "cli/plan_answer.h"
#include "cli/run_options.h"
#include "cli/strategy_options.h"
#include "hwdb/web/row_database.h"
#include "reports/step_detail.h"

namespace llmsim::cli {
namespace {

PlanOptions options_of(const std::string& arguments) {
  PlanOptions options;
  options.pareto = true;
  CLI::App command;
  add_search_options(command, options.run);
  add_ranking_options(command, options);
  add_job_options(command, options.job);
  std::vector<std::string> words = split(arguments, '\n');
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  command.parse(words);
  return options;
}

std::string answer_of(const std::string& rows, const std::string& arguments) {
  const hwdb::Database database = hwdb::row_database(rows);
  const PlanOptions options = options_of(arguments);
  reports::PlanAnswer answer = planned(options, options.run, database);
  if (!answer.plan.plans.empty()) answer.step = reports::step_detail(answer.plan.plans.front());
  return reports::render(answer, reports::Format::Json);
}

// What went wrong in place of an answer, which begins with a brace.
std::string answer_or_reason(const std::string& rows, const std::string& arguments) {
  try {
    return answer_of(rows, arguments);
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace
}  // namespace llmsim::cli

// What `llmsim report ARGUMENTS... --no-scaling --format json` prints, or one line that says what is
// wrong.  `rows`: of the database (hwdb/store/database_rows.h); `arguments`: a word on each line.  All
// texts are of the module's malloc, and the caller's to free.
extern "C" __attribute__((export_name("llmsim_plan"))) char* llmsim_plan(const char* rows,
                                                                         const char* arguments) {
  const std::string answer = llmsim::cli::answer_or_reason(rows, arguments);
  char* const text = static_cast<char*>(std::malloc(answer.size() + 1));
  return text ? std::strcpy(text, answer.c_str()) : nullptr;
}
