// The coefficients behind an answer as a table: value with its standard error, what it rests on, and its source.
#pragma once

#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/run.h"

namespace llmsim::reports {

// Sources are long and repeat: for people the rows name them by number and the notes list them.
Table evidence_table(const std::string& title, const std::vector<sim::Fact>& facts);

}  // namespace llmsim::reports
