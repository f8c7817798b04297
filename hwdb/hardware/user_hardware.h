// One's own devices and clusters, from one JSON file:
//
//   {"accelerators": [...], "systems": [...], "coefficients": [...]}
//
// Every list may be missing; the records have the form of the shipped fact files (hwdb/README.md
// has a complete example).
#pragma once

#include <string>
#include <vector>

#include "hwdb/store/database.h"

namespace llmsim::hwdb {

struct AddedHardware {
  std::vector<std::string> accelerators;  // ids
  std::vector<std::string> systems;
  int num_coefficients = 0;
};

// Checks the document and stores all of it as the user's rows, or nothing.  `file` names it
// in messages.  Throws Error for malformed JSON, unknown keys, missing ids and sources,
// absurd values, references to unknown hardware, and for an id or alias that exists already
// unless `replace` is set.
AddedHardware add_hardware(Database& database, const std::string& text, const std::string& file,
                           bool replace);

}  // namespace llmsim::hwdb
