// The table files of cli/tables and the measured runs that they name, as they were when the program
// was built.
#pragma once

#include "hwdb/text/shipped_text.h"

namespace llmsim::cli {

using hwdb::ShippedText;

std::span<const ShippedText> shipped_tables();  // "gpt2-h100", ... in alphabetical order
std::span<const ShippedText> shipped_runs();    // files of tests/validation/runs

}  // namespace llmsim::cli
