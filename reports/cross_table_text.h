// A cross table for people: a text in each cell.
//
// Private to reports.
#pragma once

#include <vector>

#include "reports/cross_table.h"
#include "reports/table.h"

namespace llmsim::reports {

// The table; where its cells are plans that do not say their layouts, those in a second one.
// `wraps`: notes end at 96 columns.
std::vector<Table> tables_of(const CrossTable& table, bool wraps);

}  // namespace llmsim::reports
