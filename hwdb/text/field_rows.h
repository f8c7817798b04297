// Rows of plain values: a JSON object with "about" and one list of objects.
#pragma once

#include <string>
#include <vector>

#include "sim/base/field.h"

namespace llmsim::hwdb {

// The rows of `list`, each by key.  Throws Error for other JSON, and for values that no field has.
std::vector<sim::PartialRecord> field_rows(const std::string& text, const char* list,
                                           const std::string& file);

}  // namespace llmsim::hwdb
