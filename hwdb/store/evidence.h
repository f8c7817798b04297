// What a value rests on, in the words of the facts.
#pragma once

#include <optional>
#include <string_view>

#include "sim/run.h"

namespace llmsim::hwdb {

// "data_sheet", "measured", "fitted", "assumed", "given"; none for other words.
std::string_view name_of(sim::Evidence evidence);
std::optional<sim::Evidence> evidence_named(std::string_view name);

}  // namespace llmsim::hwdb
