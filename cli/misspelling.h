// Misspelt commands and options, found before anything is parsed: a parser would complain about the
// consequences of the wrong word.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

namespace llmsim::cli {

// "unknown option --tpp; did you mean --tp?" for the first of the arguments that names no command
// or option of the program where one must stand; none where there is no such argument.  `arguments`
// are those after the program's name.
std::optional<std::string> misspelling(const CLI::App& program,
                                       const std::vector<std::string>& arguments);

}  // namespace llmsim::cli
