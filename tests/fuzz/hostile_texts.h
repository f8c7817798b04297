// Texts that break readers: what stands for far more than it says, and odd values where others are
// expected.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace llmsim::fuzz {

// {what it is, text}: brackets without an end, aliases of aliases, variables that double.  None is
// longer than 4 MiB.
std::vector<std::pair<std::string, std::string>> hostile_texts();

// `text` with one word, number or quoted string of it replaced, for each of its words and each odd
// value: a zero, a huge number, a bracket, a text with a line feed.  Whatever the format is.
std::vector<std::string> with_odd_values(const std::string& text);

}  // namespace llmsim::fuzz
