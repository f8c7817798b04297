// The rows of a database as one JSON text, for a program that has no SQLite: the planner in a page.
#pragma once

#include <string>

#include "hwdb/store/database.h"

namespace llmsim::hwdb {

// Every row that is needed to resolve runs and their jobs, as the queries of `database` return it:
// all hardware under all its names, all coefficients, and the measurements of the subjects below.
// Shipped rows that a user's row hides are left out.
//
//   {"path", "version",
//    "accelerator", "system": {"rows": [[id, name, origin, record]], "ids": {name: id}},
//    "coefficients": [[scope, id, key, value, standard_error, evidence, source, fitted_from,
//                      origin]],
//    "measurements": [[subject, accelerator, evidence, source, origin, record]]}
//
// "path" is the name of the file alone: a page goes to others.  hwdb/web/row_database.h reads it.
std::string rows_text(const Database& database);

}  // namespace llmsim::hwdb
