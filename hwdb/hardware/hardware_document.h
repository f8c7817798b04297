// Hardware as a document that `hardware add` reads on another machine, and its removal.
#pragma once

#include <string>
#include <vector>

#include "hwdb/store/database.h"

namespace llmsim::hwdb {

// {"accelerators": [...], "systems": [...], "coefficients": [...]} (user_hardware.h) of the named
// accelerators and systems, shipped ones too: their records, the user's coefficients of them, and
// the user's accelerators that named systems have.  add_hardware() of it in another database
// gives the same hardware.  Throws Error for an unknown name.
std::string hardware_document(const Database& database, const std::vector<std::string>& names);

// {"coefficients": [...]}: the user's of one scope and id.
std::string coefficients_document(const Database& database, const std::string& scope,
                                  const std::string& id);

// Takes the user's accelerator or system, its aliases and coefficients away; a shipped one that it
// hid is there again.  Throws Error for what is shipped or unknown, and where another of the
// user's records refers to it.
void remove_hardware(Database& database, const std::string& name);

}  // namespace llmsim::hwdb
