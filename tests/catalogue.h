// Models of the catalogue for the tests of sim, which knows none itself.
#pragma once

#include "hwdb/models/catalogue.h"

namespace llmsim::sim {

using hwdb::catalogue;
using hwdb::find_model;

}  // namespace llmsim::sim
