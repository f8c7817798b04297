#include "reports/text_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <sstream>

namespace llmsim::reports {
namespace {

Sheet sheet() {
  return {.headers = {"id", "peak rate", "source"},
          .right_aligned = {false, true, false},
          .rows = {{"a100", "312", "one two three four five"}, {"h100", "989", "six"}}};
}

TEST(TextLayout, IsOneLineARowWhereItFits) {
  EXPECT_EQ(laid_out(sheet(), 100, "", ""),
            "id    peak rate  source\n"
            "a100        312  one two three four five\n"
            "h100        989  six\n");
}

// 4 and 9 columns and two gaps leave 17 of 34 for the source.
TEST(TextLayout, FoldsTheWidestTextFirst) {
  EXPECT_EQ(laid_out(sheet(), 34, "", ""),
            "id    peak rate  source\n"
            "a100        312  one two three\n"
            "                 four five\n"
            "h100        989  six\n");
}

// Two numbers beside the ids do not fit into 24.
TEST(TextLayout, PartsATableOfTooManyColumns) {
  const Sheet numbers{.headers = {"id", "first", "second"},
                      .right_aligned = {false, true, true},
                      .rows = {{"a100", "1234567890", "2345678901"}}};
  EXPECT_EQ(laid_out(numbers, 24, "", ""),
            "id         first\n"
            "a100  1234567890\n"
            "\n"
            "id        second\n"
            "a100  2345678901\n");
}

TEST(TextLayout, FoldsWordsThatAreTooLongAndLosesNothing) {
  EXPECT_EQ(folded("abcdefgh ij", 3), (std::vector<std::string>{"abc", "def", "gh", "ij"}));
  EXPECT_EQ(folded("a b c", 3), (std::vector<std::string>{"a b", "c"}));
  EXPECT_EQ(folded("\u00e4\u00f6\u00fc", 2), (std::vector<std::string>{"\u00e4\u00f6", "\u00fc"}));
}

// Whatever its texts, a table of short numbers stays within its width, with every character of
// its cells.
TEST(TextLayout, StaysWithinItsWidth) {
  std::mt19937 random(1);
  const auto below = [&](unsigned count) { return static_cast<unsigned>(random() % count); };
  for (int i = 0; i < 300; ++i) {
    Sheet any;
    const unsigned columns = 1 + below(14), rows = below(4);
    for (unsigned c = 0; c < columns; ++c) {
      any.headers.push_back("head er");
      any.right_aligned.push_back(c > 0 && below(2) == 0);
    }
    std::size_t letters = 0;
    for (unsigned r = 0; r < rows; ++r) {
      std::vector<std::string> row;
      for (unsigned c = 0; c < columns; ++c) {
        row.emplace_back(any.right_aligned[c] ? below(12) : below(90), 'x');
        if (!any.right_aligned[c] && row.back().size() > 30) row.back()[below(30)] = ' ';
        if (c > 0) letters += static_cast<std::size_t>(std::ranges::count(row.back(), 'x'));
      }
      any.rows.push_back(row);
    }
    std::istringstream lines(laid_out(any, 80, "", ""));
    std::size_t found = 0;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 80u) << line;
      found += static_cast<std::size_t>(std::ranges::count(line, 'x'));
    }
    EXPECT_GE(found, letters);
  }
}

}  // namespace
}  // namespace llmsim::reports
