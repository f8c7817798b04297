// The Model Context Protocol: programs and agents ask for tools and call them.
//
// JSON-RPC 2.0, one message a line, protocol versions 2024-11-05, 2025-03-26 (whose batches are
// answered too) and 2025-06-18.  Source: modelcontextprotocol.io, specification of these dates.
#pragma once

#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/mcp/json_text.h"

namespace llmsim::cli::mcp {

// What tools/call answers.
struct ToolAnswer {
  std::string text;       // for people: one screen
  Json structured{};      // the same for programs, an object; null: none
  bool is_error = false;  // the text says what is wrong and what would be right
};

struct Server {
  std::string version;       // of the program
  std::string instructions;  // for an agent: what the tools are for
  Json tools;                // list of {name, title, description, inputSchema, annotations}
  // Of a tool that is in the list.  Errors are answers.
  std::function<ToolAnswer(const std::string& name, const Json& arguments)> call;
};

// The longest message that is read, in bytes.
inline constexpr std::size_t kLongestMessage = std::size_t{16} << 20;

// The answer to the message on a line; none for notifications and for answers.
std::optional<std::string> answer_to(const Server& server, std::string_view line);

// The same for a message that is too long to be read.
std::string too_long_answer();

// Answers all messages of `in`, one after the other, until it ends or `out` fails.
void serve(const Server& server, std::istream& in, std::ostream& out);

}  // namespace llmsim::cli::mcp
