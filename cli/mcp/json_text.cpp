#include "cli/mcp/json_text.h"

#include "sim/base/error.h"

namespace llmsim::cli::mcp {
namespace {

constexpr int kMostLevels = 100;

// The most brackets that are open at once, outside of strings; whether they match is the parser's
// business.
int depth_of(std::string_view text) {
  int depth = 0, most = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{'))
      most = std::max(most, ++depth);
    else if (!quoted && (c == ']' || c == '}'))
      --depth;
  }
  return most;
}

}  // namespace

Json json_in(std::string_view text) {
  if (depth_of(text) > kMostLevels)
    throw Error("objects and lists lie in one another more than " + std::to_string(kMostLevels) +
                " deep");
  try {
    return Json::parse(text);
  } catch (const Json::exception&) {
    throw Error("malformed JSON");
  }
}

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace llmsim::cli::mcp
