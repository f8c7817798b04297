// Accelerators of the database by the names that drivers give them.
//
// A name is cut into words: "NVIDIA H100 80GB HBM3" has h100, 80gb and hbm3.  A record may be meant
// where each word with a digit of its id stands in the name (its memory size is compared as a
// number, to 10 %), and, of cards for PCIe and bridges (pcie, nvl), that word too.  Of several the
// ones stay that have each further word of the name, in their order, as far as any has it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/store/database.h"

namespace llmsim::hwdb {

// Ids of the records that may be meant: one where the name is clear, none where it is not known.
std::vector<std::string> accelerators_named(const Database& database, const std::string& name);

}  // namespace llmsim::hwdb
