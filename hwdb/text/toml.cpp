#include "hwdb/text/toml.h"

#include <algorithm>

#include "hwdb/text/read_budget.h"

namespace llmsim::hwdb {
namespace {

// Behind a string or a comment that begins at `at`.
std::size_t end_of_text(const std::string& text, std::size_t at) {
  const char open = text[at];
  if (open == '#') return std::min(text.find('\n', at), text.size());
  const std::string three(3, open);
  const bool is_long = text.compare(at, 3, three) == 0;
  for (std::size_t i = at + (is_long ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && open == '"')
      ++i;
    else if (is_long ? text.compare(i, 3, three) == 0 : text[i] == open || text[i] == '\n')
      return i + (is_long ? 3 : 1);
  }
  return text.size();
}

// "a.b.c" makes a table for each part of a key, as brackets do.
void check_levels(const std::string& text) {
  int brackets = 0, parts = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'' || c == '#') {
      at = end_of_text(text, at);
      continue;
    }
    if (c == '[' || c == '{') ++brackets;
    if (c == ']' || c == '}') brackets = std::max(0, brackets - 1);
    if (c == '.')
      ++parts;
    else if (c == '\n' || c == '=' || c == ',' || c == '[' || c == '{')
      parts = 0;
    if (brackets > kMostLevels || parts > kMostLevels)
      throw TooLarge("tables or lists lie in one another more than " + std::to_string(kMostLevels) +
                     " deep");
    ++at;
  }
}

}  // namespace

toml::table parse_toml(const std::string& text) {
  check_levels(text);
  return toml::parse(text);
}

}  // namespace llmsim::hwdb
