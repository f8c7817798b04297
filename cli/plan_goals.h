// Questions whose answer is several plans side by side.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "cli/plan_answer.h"
#include "cli/plan_questions.h"
#include "hwdb/store/database.h"
#include "reports/plan_comparison.h"

namespace llmsim::cli {

// --fit, --largest and --deadline.
void add_goals(CLI::App& command, PlanOptions& options);

// Usage errors come first: nothing is searched for a question that cannot be answered.  The first
// throws Error, the second CLI::RequiredError.
void check_goals(const PlanOptions& options);
void require_question(const PlanOptions& options);

// The answers where lists ask several questions or a goal tries several; none where there is one
// question, which one_question() has without its lists.
std::optional<reports::PlanComparison> several_answers(PlanOptions options,
                                                       const hwdb::Database& database);
PlanOptions one_question(PlanOptions options);

// The answers to all questions; where the smallest cluster is asked for, of each group
// of questions that differ in the number of devices only up to the first that answers.
// An interruption ends them.
reports::PlanComparison compared(const PlanOptions& options, const PlanQuestions& questions,
                                 const hwdb::Database& database);

// The largest value of options.largest with which something fits, and what was tried
// on the way, ascending:
//
//   model         of the catalogue, by parameters
//   seq-len       1024 tokens, doubled as long as something fits, then in eighths between the last
//                 two
//   micro-batch   1, doubled as long as something fits
//
// Throws Error for another key.
reports::PlanComparison largest(const PlanOptions& options, const hwdb::Database& database);

// What makes room where nothing fits: "with --offload optimizer, on 16 devices (--gpus 16)", the
// first that is enough of 2 to 64 times as many; empty where neither does.  Plans each.
std::string what_would_fit(const PlanOptions& options, const hwdb::Database& database);

}  // namespace llmsim::cli
