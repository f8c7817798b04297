#include "hwdb/text/quoting.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "hwdb/text/json_reader.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

std::string replaced(const std::string& text, std::string_view from, const std::string& to) {
  std::string all;
  std::size_t begin = 0;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, begin)) {
    all += text.substr(begin, at - begin) + to;
    begin = at + from.size();
  }
  return all + text.substr(begin);
}

// With JSON's escapes, which both languages have, in double quotes.  Neither takes DEL as it is.
std::string escaped(const std::string& text) {
  using nlohmann::json;
  return replaced(json(text).dump(-1, ' ', false, json::error_handler_t::replace), "\x7f",
                  "\\u007f");
}

}  // namespace

std::string shell_quoted(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c < 0x80 && std::isalnum(c) != 0) ||
           std::string_view("-_./=+,:").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return plain ? text : "'" + replaced(text, "'", "'\\''") + "'";
}

std::string toml_quoted(const std::string& text) { return escaped(text); }

std::string yaml_quoted(const std::string& text) {
  const bool holds =
      Error::printable(text) == text && escaped(text).find("\xef\xbf\xbd") == std::string::npos;
  return holds ? "'" + replaced(text, "'", "''") + "'" : escaped(text);
}

std::string comment_text(const std::string& text) {
  // U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069; U+2028 and U+2029 end lines of YAML.
  static constexpr std::array<std::string_view, 13> kTurns{
      "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xaa", "\xe2\x80\xab", "\xe2\x80\xac",
      "\xe2\x80\xad", "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa7", "\xe2\x81\xa8",
      "\xe2\x81\xa9", "\xe2\x80\xa8", "\xe2\x80\xa9"};
  std::string plain = Error::printable(text);
  for (const std::string_view turn : kTurns) plain = replaced(plain, turn, "?");
  return plain;
}

}  // namespace llmsim::hwdb
