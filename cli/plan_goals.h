// Questions whose answer is several plans side by side.
#pragma once

#include "cli/plan_answer.h"
#include "cli/plan_questions.h"
#include "hwdb/database.h"
#include "reports/plan_comparison.h"

namespace llmsim::cli {

// The answers to all questions; where the smallest cluster is asked for, of each group of questions
// that differ in the number of devices only up to the first that answers.  An interruption ends
// them.
reports::PlanComparison compared(const PlanOptions& options, const PlanQuestions& questions,
                                 const hwdb::Database& database);

// The largest value of options.largest with which something fits, and what was tried on the way,
// ascending:
//
//   model         of the catalogue, by parameters
//   seq-len       1024 tokens, doubled as long as something fits, then in eighths between the last
//                 two
//   micro-batch   1, doubled as long as something fits
//
// Throws Error for another key.
reports::PlanComparison largest(const PlanOptions& options, const hwdb::Database& database);

}  // namespace llmsim::cli
