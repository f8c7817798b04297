#include "reports/text_layout.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace llmsim::reports {
namespace {

using Widths = std::vector<std::size_t>;
using Columns = std::vector<std::size_t>;  // of a sheet, by index

constexpr std::size_t kGap = 2, kLeastText = 16;

// Of the words of a text.
std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find(' ', from), text.size());
    longest = std::max(longest, width_of(text.substr(from, to - from)));
    from = to + 1;
  }
  return longest;
}

// Where the first `count` characters of UTF-8 text end.
std::size_t end_of(const std::string& text, std::size_t count) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((text[at] & 0xC0) != 0x80 && count-- == 0) break;
  }
  return at;
}

// To what a column can be folded: numbers stay whole, texts have place for most words.
std::size_t least_width(const Sheet& sheet, std::size_t column) {
  std::size_t least = longest_word(sheet.headers[column]);
  for (const auto& row : sheet.rows) {
    const std::string& text = row[column];
    least = std::max(least, sheet.right_aligned[column] ? width_of(text)
                                                        : std::min(longest_word(text), kLeastText));
  }
  return least;
}

std::size_t total(std::span<const std::size_t> widths) {
  return std::accumulate(widths.begin(), widths.end(), (widths.size() - 1) * kGap);
}

// As wide as they want to be, but for the widest, which are as wide as one another, so that all fit
// where that is possible.
Widths fitting(const Widths& wanted, const Widths& least, std::size_t width) {
  const auto widths_under = [&](std::size_t cap) {
    Widths widths;
    for (std::size_t c = 0; c < wanted.size(); ++c)
      widths.push_back(std::max(std::min(wanted[c], cap), std::min(least[c], wanted[c])));
    return widths;
  };
  std::size_t cap = std::ranges::max(wanted);
  while (cap > 0 && total(widths_under(cap)) > width) --cap;
  return widths_under(cap);
}

// Cells one beside the other, and below what is left of the folded ones.
std::string lines_of(const std::vector<std::string>& cells, const Widths& widths,
                     const std::vector<bool>& right, const std::string& on,
                     const std::string& off) {
  std::vector<std::vector<std::string>> parts;
  std::size_t height = 0;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    parts.push_back(width_of(cells[c]) <= widths[c] ? std::vector{cells[c]}
                                                    : folded(cells[c], widths[c]));
    height = std::max(height, parts.back().size());
  }
  std::string text;
  for (std::size_t line = 0; line < height; ++line) {
    std::string out;
    for (std::size_t c = 0; c < cells.size(); ++c)
      out += (c ? std::string(kGap, ' ') : "") +
             padded(line < parts[c].size() ? parts[c][line] : "", widths[c], right[c]);
    out.erase(out.find_last_not_of(' ') + 1);
    text += on + out + off + "\n";
  }
  return text;
}

// Some columns of a sheet.
Sheet part_of(const Sheet& sheet, const Columns& columns) {
  Sheet part;
  part.rows.resize(sheet.rows.size());
  for (const std::size_t c : columns) {
    part.headers.push_back(sheet.headers[c]);
    part.right_aligned.push_back(sheet.right_aligned[c]);
    for (std::size_t r = 0; r < sheet.rows.size(); ++r) part.rows[r].push_back(sheet.rows[r][c]);
  }
  return part;
}

// The columns of each of the tables into which a sheet is parted.
std::vector<Columns> tables_of(const Widths& least, std::size_t width) {
  std::vector<Columns> tables{{0}};
  std::size_t used = least[0];
  for (std::size_t c = 1; c < least.size(); ++c) {
    if (used + kGap + least[c] > width && tables.back().size() > 1) {
      tables.push_back({0});
      used = least[0];
    }
    tables.back().push_back(c);
    used += kGap + least[c];
  }
  return tables;
}

std::string one_table(const Sheet& sheet, const Widths& widths, const std::string& on,
                      const std::string& off) {
  std::string out = lines_of(sheet.headers, widths, sheet.right_aligned, on, off);
  if (out == on + off + "\n") out.clear();
  for (const auto& row : sheet.rows) out += lines_of(row, widths, sheet.right_aligned, "", "");
  return out;
}

}  // namespace

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::vector<std::size_t> widths_of(const Sheet& sheet) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < sheet.headers.size(); ++c) {
    std::size_t width = width_of(sheet.headers[c]);
    for (const auto& row : sheet.rows) width = std::max(width, width_of(row[c]));
    widths.push_back(width);
  }
  return widths;
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

std::vector<std::string> folded(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find(' ', from), text.size());
    std::string word = text.substr(from, to - from);
    if (!line.empty() && width_of(line) + 1 + width_of(word) > width)
      lines.push_back(std::exchange(line, ""));
    while (width_of(word) > width) {
      const std::size_t end = end_of(word, width);
      lines.push_back(word.substr(0, end));
      word.erase(0, end);
    }
    line += (line.empty() ? "" : " ") + word;
    from = to + 1;
  }
  lines.push_back(line);
  return lines;
}

std::string laid_out(const Sheet& sheet, std::size_t width, const std::string& on,
                     const std::string& off) {
  const Widths wanted = widths_of(sheet);
  if (wanted.empty() || total(wanted) <= width) return one_table(sheet, wanted, on, off);
  Widths least;
  for (std::size_t c = 0; c < wanted.size(); ++c)
    least.push_back(std::min(width, least_width(sheet, c)));
  std::string out;
  for (const Columns& columns : tables_of(least, width)) {
    Widths wanted_here, least_here;
    for (const std::size_t c : columns)
      wanted_here.push_back(wanted[c]), least_here.push_back(least[c]);
    out += (out.empty() ? "" : "\n") +
           one_table(part_of(sheet, columns), fitting(wanted_here, least_here, width), on, off);
  }
  return out;
}

}  // namespace llmsim::reports
