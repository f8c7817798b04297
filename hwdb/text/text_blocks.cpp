#include "hwdb/text/text_blocks.h"

#include <sstream>

namespace llmsim::hwdb {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
}

std::string without_comment(const std::string& line) {
  const std::string words = trimmed(line.substr(0, (" " + line).find(" # ")));
  return words.starts_with('#') ? "" : words;
}

bool goes_on(const std::string& line) { return line.ends_with(',') || line.ends_with('\\'); }

}  // namespace

std::vector<Block> blocks_of(std::string_view text, const std::string& file) {
  std::vector<Block> blocks;
  std::istringstream stream{std::string(text)};
  Line* open = nullptr;
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::string words = without_comment(line);
    if (words.empty()) continue;
    if (open && goes_on(open->text)) {
      if (open->text.back() == '\\') open->text.pop_back();
      open->text += " " + words;
      continue;
    }
    const bool indented = line.front() == ' ';
    if (indented && blocks.empty())
      throw Error(file + ": line " + std::to_string(number) +
                  ": nothing stands above it at the margin");
    if (indented)
      blocks.back().body.push_back({number, words});
    else
      blocks.push_back({{number, words}, {}});
    open = indented ? &blocks.back().body.back() : &blocks.back().head;
  }
  return blocks;
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

std::string unquoted(const std::string& word) {
  const bool quoted = word.size() > 1 && word.front() == '"' && word.back() == '"';
  return quoted ? word.substr(1, word.size() - 2) : word;
}

}  // namespace llmsim::hwdb
