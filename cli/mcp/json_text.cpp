#include "cli/mcp/json_text.h"

#include "hwdb/text/read_budget.h"
#include "sim/base/error.h"

namespace llmsim::cli::mcp {
Json json_in(std::string_view text) {
  if (hwdb::too_deep_at(text)) throw Error(hwdb::too_deep_text());
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
