// Data files of blocks: a line at the margin and the lines that are indented below it.
//
// A line that begins with "#" is a comment, and so is what stands behind " # ".  A line that ends
// with a comma or a backslash goes on in the next.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace llmsim::hwdb {

struct Line {
  int number;
  std::string text;  // without blanks at its ends
};

struct Block {
  Line head;
  std::vector<Line> body;
};

// Throws Error "FILE: line N: ..." for a text that begins with an indented line.
std::vector<Block> blocks_of(std::string_view text, const std::string& file);

// What stands before and behind the first `sign`; all and nothing where there is none.
std::pair<std::string, std::string> parted(const std::string& text, const std::string& sign);

// Parts of a list, at separators that stand outside of quotes.
std::vector<std::string> split(const std::string& text, char separator);

// What stands in quotes; other words as they are.
std::string unquoted(const std::string& word);

// Does something about a line, whose place an Error then names: "FILE: line N: ...".
template <class Work>
void at_line(const std::string& file, const Line& line, Work work) {
  try {
    work();
  } catch (const Error& error) {
    throw Error(file + ": line " + std::to_string(line.number) + ": " + error.what());
  }
}

}  // namespace llmsim::hwdb
