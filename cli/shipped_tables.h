// The table files of cli/tables and the measured runs that they name, as they were when the program
// was built.  The program needs no files at run time.
#pragma once

#include <span>
#include <string_view>

namespace llmsim::cli {

struct ShippedText {
  std::string_view name;  // "gpt2-h100" for tables/gpt2-h100.toml
  std::string_view text;
};

std::span<const ShippedText> shipped_tables();  // in alphabetical order
std::span<const ShippedText> shipped_runs();    // files of tests/validation/runs

}  // namespace llmsim::cli
