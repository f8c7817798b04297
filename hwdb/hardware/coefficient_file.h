// The text of facts/coefficients.json: rows of coefficients as JSON, and fits put in their place.
#pragma once

#include <string>
#include <vector>

#include "hwdb/store/database.h"

namespace llmsim::hwdb {

// {"coefficients": [...]} with these rows.
std::string coefficients_json(const std::vector<Coefficient>& rows);

// `text` with each row of the same scope, id and key replaced.  New rows stand after the last
// row of their id, else of their scope, else at the end.  Earlier rows whose fitted_from begins
// with `fit` and that no row of `rows` replaces are dropped: a fit replaces all of its own
// earlier results.  Everything else stays where it is.  Throws Error where `text`, named
// `file`, holds no such list.
std::string with_fitted_rows(const std::string& text, const std::string& file,
                             const std::vector<Coefficient>& rows, const std::string& fit);

}  // namespace llmsim::hwdb
