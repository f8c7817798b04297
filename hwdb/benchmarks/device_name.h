// Accelerators of the database by the names that drivers give them.
//
// A name is cut into words: "NVIDIA H100 80GB HBM3" has h100, 80gb and hbm3.  A record may be meant
// where each word with a digit of its id stands in the name; sizes of memory are compared as
// numbers, to 10 %.  Cards for PCIe and bridges are meant where the name has their word (pcie,
// nvl), boards (sxm) where it has not.  Of several those stay that have each further word of the
// name, in their order, as far as any has it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwdb/store/database.h"

namespace llmsim::hwdb {

// Ids of the records that may be meant: one where the name is clear, none where it is not known.
std::vector<std::string> accelerators_named(const Database& database, const std::string& name);

}  // namespace llmsim::hwdb
