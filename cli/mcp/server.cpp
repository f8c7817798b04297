#include "cli/mcp/server.h"

#include <algorithm>
#include <array>
#include <exception>

#include "sim/base/error.h"

namespace llmsim::cli::mcp {
namespace {

// The newest first.
constexpr std::array kVersions{"2025-06-18", "2025-03-26", "2024-11-05"};

// Codes of JSON-RPC 2.0, section 5.1.
constexpr int kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601,
              kInvalidParams = -32602, kInternalError = -32603;

// A request that cannot be carried out.
struct Refusal {
  int code;
  std::string message;
};

Json error_answer(const Json& id, const Refusal& refusal) {
  return {{"jsonrpc", "2.0"},
          {"id", id},
          {"error", {{"code", refusal.code}, {"message", Error::printable(refusal.message)}}}};
}

// The client's version where it is known, else the newest, which the client may turn down.
Json initialized(const Server& server, const Json& params) {
  const auto asked = params.find("protocolVersion");
  if (asked == params.end() || !asked->is_string())
    throw Refusal{kInvalidParams, "protocolVersion is missing"};
  const auto known = std::ranges::find(kVersions, asked->get<std::string>());
  return {{"protocolVersion", known == kVersions.end() ? kVersions.front() : *known},
          {"capabilities", {{"tools", {{"listChanged", false}}}}},
          {"serverInfo", {{"name", "llmsim"}, {"title", "llmsim"}, {"version", server.version}}},
          {"instructions", server.instructions}};
}

// All tools are on one page.
Json listed(const Server& server, const Json& params) {
  if (params.contains("cursor")) throw Refusal{kInvalidParams, "cursor: there is one page"};
  return {{"tools", server.tools}};
}

Json called(const Server& server, const Json& params) {
  const auto name = params.find("name");
  if (name == params.end() || !name->is_string())
    throw Refusal{kInvalidParams, "the name of a tool is missing"};
  const auto has_name = [&](const Json& tool) { return tool["name"] == *name; };
  if (std::ranges::none_of(server.tools, has_name))
    throw Refusal{kInvalidParams, "unknown tool: " + name->get<std::string>()};
  const Json arguments = params.value("arguments", Json::object());
  if (!arguments.is_object()) throw Refusal{kInvalidParams, "arguments: an object is expected"};
  const ToolAnswer answer = server.call(name->get<std::string>(), arguments);
  Json result{{"content", Json::array({{{"type", "text"}, {"text", answer.text}}})},
              {"isError", answer.is_error}};
  if (!answer.structured.is_null()) result["structuredContent"] = answer.structured;
  return result;
}

Json result_of(const Server& server, const std::string& method, const Json& params) {
  if (method == "initialize") return initialized(server, params);
  if (method == "ping") return Json::object();
  if (method == "tools/list") return listed(server, params);
  if (method == "tools/call") return called(server, params);
  throw Refusal{kMethodNotFound, "no such method: " + method};
}

bool is_id(const Json& id) { return id.is_string() || id.is_number_integer(); }

// The answer to one message; null where there is none.
Json answer_to_one(const Server& server, const Json& message) {
  if (!message.is_object() || message.value("jsonrpc", Json()) != "2.0")
    return error_answer(nullptr, {kInvalidRequest, "a JSON-RPC 2.0 request is expected"});
  const bool has_id = message.contains("id");
  const Json id = has_id && is_id(message["id"]) ? message["id"] : Json();
  const bool answers = message.contains("result") || message.contains("error");
  if (!message.contains("method") && answers) return nullptr;
  const auto method = message.find("method");
  if (method == message.end() || !method->is_string() || (has_id && id.is_null()))
    return error_answer(id, {kInvalidRequest, "a method and an id are expected"});
  if (!has_id) return nullptr;  // a notification: nothing changes
  try {
    const Json params = message.value("params", Json::object());
    if (!params.is_object()) throw Refusal{kInvalidParams, "params: an object is expected"};
    return {{"jsonrpc", "2.0"},
            {"id", id},
            {"result", result_of(server, method->get<std::string>(), params)}};
  } catch (const Refusal& refusal) {
    return error_answer(id, refusal);
  } catch (const std::exception& error) {  // of a library: a fault of this program
    return error_answer(id, {kInternalError, error.what()});
  }
}

// Of a batch those that there are; null where there are none.
Json answer_to_all(const Server& server, const Json& batch) {
  if (batch.empty()) return answer_to_one(server, nullptr);
  Json answers = Json::array();
  for (const Json& message : batch) {
    const Json answer = answer_to_one(server, message);
    if (!answer.is_null()) answers.push_back(answer);
  }
  return answers.empty() ? Json() : answers;
}

// A line without its end, as far as it can be read; what is too long is passed over.
struct Line {
  std::string text;
  bool too_long = false;
};

std::optional<Line> next_line(std::istream& in) {
  constexpr int kEnd = std::char_traits<char>::eof();
  Line line;
  std::streambuf& buffer = *in.rdbuf();
  int c = buffer.sbumpc();
  if (c == kEnd) return std::nullopt;
  for (; c != kEnd && c != '\n'; c = buffer.sbumpc()) {
    line.too_long = line.too_long || line.text.size() >= kLongestMessage;
    if (!line.too_long) line.text += static_cast<char>(c);
  }
  return line;
}

bool is_blank(const std::string& text) {
  return text.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace

std::optional<std::string> answer_to(const Server& server, std::string_view line) {
  Json answer;
  try {
    const Json message = json_in(line);
    answer = message.is_array() ? answer_to_all(server, message) : answer_to_one(server, message);
  } catch (const Error& error) {
    answer = error_answer(nullptr, {kParseError, error.what()});
  }
  return answer.is_null() ? std::nullopt : std::optional(line_of(answer));
}

std::string too_long_answer() {
  return line_of(
      error_answer(nullptr, {kInvalidRequest, "a message of at most 16 MiB is expected"}));
}

void serve(const Server& server, std::istream& in, std::ostream& out) {
  while (const std::optional<Line> line = next_line(in)) {
    if (!line->too_long && is_blank(line->text)) continue;
    const auto answer =
        line->too_long ? std::optional(too_long_answer()) : answer_to(server, line->text);
    if (answer && !(out << *answer << "\n" << std::flush)) return;
  }
}

}  // namespace llmsim::cli::mcp
