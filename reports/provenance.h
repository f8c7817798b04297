// Where the values behind an answer come from.
#pragma once

#include <string>
#include <vector>

#include "reports/table.h"
#include "sim/run.h"

namespace llmsim::reports {

struct Provenance {
  std::string database;  // path and version of the facts
};

// "data_sheet", "measured", "fitted", "assumed", "given".
const char* name_of(sim::Evidence evidence);

// How many values rest on what: "12 data_sheet, 30 measured, 4 assumed".
std::string coefficients_of(const sim::Run& run);

// The sources of all values, each once, in the order of the facts.
std::vector<std::string> sources_of(const sim::Run& run);

// The facts that were assumed because nobody said otherwise: keys "assumed.<path>".
std::vector<sim::Fact> assumptions_of(const sim::Run& run);

// The fields of the strategy among them (sim/strategy/strategy.h).
std::vector<std::string> assumed_strategy_fields(const sim::Run& run);

// The coefficients behind an answer as a table: value with its standard error, what it rests on,
// and its source.

// Sources are long and repeat: for people the rows name them by number and the notes list them.
Table evidence_table(const std::string& title, const std::vector<sim::Fact>& facts);

}  // namespace llmsim::reports
