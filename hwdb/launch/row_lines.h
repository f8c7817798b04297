// Lines of a file of rows (row_text.h), and what they are parted at.
//
// Private to hwdb.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwdb/launch/launch_table.h"

namespace llmsim::hwdb {

struct Line {
  int number;
  std::string text;
};

// What stands at the margin, with the lines that are indented below it.
struct Block {
  std::vector<Line> head, body;
};

struct Arrow {
  const char* sign;
  Direction direction;
};

// The blocks of a text without its comments, each line with those in which it goes on.
std::vector<Block> blocks_of(std::string_view text);

// The arrow of a line; null where there is none.
const Arrow* arrow_in(const std::string& text);

// What stands before and behind the arrow.
std::pair<std::string, std::string> sides_of(const std::string& text);

std::string trimmed(const std::string& text);

// What stands before and behind the first `sign`; all and nothing where there is none.
std::pair<std::string, std::string> parted(const std::string& text, const std::string& sign);

// Parts of a list, at separators that stand outside of quotes.
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace llmsim::hwdb
