// The rows of a database as one JSON text, for a program that has no SQLite: the planner in a page.
#pragma once

#include <string>

#include "hwdb/store/database.h"

namespace llmsim::hwdb {

// Every row that resolving runs and their jobs asks for, as the queries of `database` give it: all
// hardware under all its names, all coefficients, and the measurements of the subjects below.  What
// a user's row hides is not in it.
//
//   {"path", "version",
//    "accelerator", "system": {"rows": [[id, name, origin, record]], "ids": {name: id}},
//    "coefficients": [[scope, id, key, value, standard_error, evidence, source, fitted_from, origin]],
//    "measurements": [[subject, accelerator, evidence, source, origin, record]]}
//
// hwdb/web/row_database.h reads it.
std::string rows_text(const Database& database);

}  // namespace llmsim::hwdb
