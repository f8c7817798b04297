// Words of a shell script: where each one ends, and what it expands to.
//
// Private to hwdb.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "hwdb/text/read_budget.h"

namespace llmsim::hwdb {

using ShellWords = std::vector<std::string>;
using ShellVariables = std::map<std::string, ShellWords>;

// A word with its quotes, or an operator: a newline, ; | & || && ( ).
struct ShellToken {
  std::string text;
  bool is_operator = false;
};

// The end of the letters, digits and underscores from `at` on.
std::size_t end_of_name(const std::string& text, std::size_t at);

// Without comments, redirections and documents ("<<EOF").  Throws Error for quotes and brackets
// without an end, TooLarge where the text costs more than the budget has left.
std::vector<ShellToken> tokens_of(const std::string& text, ReadBudget& budget);

ShellWords split_words(const std::string& text);  // at blanks

// The expansion of a word: none, one or several words.  A variable that is not set stays "$NAME",
// and so does a sum that no 64-bit integer holds.  Throws TooLarge as tokens_of().
ShellWords expanded_word(const std::string& raw, const ShellVariables& variables,
                         ReadBudget& budget);

}  // namespace llmsim::hwdb
