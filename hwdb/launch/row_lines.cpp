#include "hwdb/launch/row_lines.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace llmsim::hwdb {
namespace {

constexpr Arrow kArrows[] = {
    {" <-> ", Direction::Both}, {" -> ", Direction::Read}, {" <- ", Direction::Write}};

// Whether what stands at the margin next belongs to another block.
bool is_whole(const Block& block) {
  const std::string& first = block.head.front().text;
  return !block.body.empty() || arrow_in(block.head.back().text) || first.starts_with("let ") ||
         first.starts_with("include ");
}

// A line without the comment that "#" begins: the first word, or one of its own.
std::string without_comment(const std::string& line) {
  const std::string words = trimmed(line.substr(0, (" " + line).find(" # ")));
  return words.starts_with('#') ? "" : words;
}

// Whether a line goes on in the next.
bool goes_on(const std::string& line) { return line.ends_with(',') || line.ends_with('\\'); }

}  // namespace

std::vector<Block> blocks_of(std::string_view text) {
  std::vector<Block> blocks;
  std::istringstream stream{std::string(text)};
  std::vector<Line>* open = nullptr;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::string words = without_comment(line);
    if (words.empty()) continue;
    if (open && goes_on(open->back().text)) {
      std::string& begin = open->back().text;
      if (begin.back() == '\\') begin.pop_back();
      begin += " " + words;
      continue;
    }
    const bool indented = line.front() == ' ' && !blocks.empty();
    if (!indented && (blocks.empty() || is_whole(blocks.back()))) blocks.emplace_back();
    open = indented ? &blocks.back().body : &blocks.back().head;
    open->push_back({number, words});
  }
  return blocks;
}

const Arrow* arrow_in(const std::string& text) {
  const std::string line = " " + text + " ";
  const auto* const found =
      std::find_if(std::begin(kArrows), std::end(kArrows),
                   [&](const Arrow& arrow) { return line.find(arrow.sign) != std::string::npos; });
  return found == std::end(kArrows) ? nullptr : found;
}

std::pair<std::string, std::string> sides_of(const std::string& text) {
  const Arrow* const arrow = arrow_in(text);
  return arrow ? parted(" " + text + " ", arrow->sign) : std::pair{text, std::string()};
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::pair<std::string, std::string> parted(const std::string& text, const std::string& sign) {
  const std::size_t at = text.find(sign);
  if (at == std::string::npos) return {trimmed(text), ""};
  return {trimmed(text.substr(0, at)), trimmed(text.substr(at + sign.size()))};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (c == separator && !quoted)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  for (std::string& part : parts) part = trimmed(part);
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

}  // namespace llmsim::hwdb
