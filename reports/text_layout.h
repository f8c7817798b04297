// A table as lines of text that a terminal shows whole.  Private to reports.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/sheet.h"

namespace llmsim::reports {

// Characters, not bytes, of UTF-8 text.
std::size_t width_of(const std::string& text);

// The widest text of each column, its header among them.
std::vector<std::size_t> widths_of(const Sheet& sheet);

// `text` in a column so wide.
std::string padded(const std::string& text, std::size_t width, bool right);

// Lines of at most `width` characters, parted at spaces, and inside of words that are longer.
std::vector<std::string> folded(const std::string& text, std::size_t width);

// Headers, then rows, with two spaces between columns, in lines of at most `width` characters.
// What does not fit continues below: first the widest texts are folded, then headers, and columns
// for which there is still no place follow in a table of their own, behind the first column again.
// `on` and `off` stand around headers.
std::string laid_out(const Sheet& sheet, std::size_t width, const std::string& on,
                     const std::string& off);

}  // namespace llmsim::reports
