#include "cli/mcp/server.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>
#include <string>

namespace llmsim::cli::mcp {
namespace {

// One tool, which says what it was asked.
Server echo() {
  return {.version = "1.2.3",
          .instructions = "ask",
          .tools = Json::array({{{"name", "echo"}, {"inputSchema", {{"type", "object"}}}}}),
          .call = [](const std::string& name, const Json& arguments) -> ToolAnswer {
            if (arguments.contains("fault")) throw std::runtime_error("of a library");
            if (arguments.empty()) return {.text = "nothing to say", .is_error = true};
            return {.text = name, .structured = arguments};
          }};
}

Json answer(const std::string& line) {
  const auto text = answer_to(echo(), line);
  return text ? Json::parse(*text) : Json();
}

// A request with the id 1.
Json asked(const std::string& method, const std::string& params = "{}") {
  return answer(R"({"jsonrpc": "2.0", "id": 1, "method": ")" + method + R"(", "params": )" +
                params + "}");
}

int code(const Json& answer) { return answer["error"]["code"]; }

TEST(Server, TakesTheVersionOfTheClientOrOffersTheNewest) {
  for (const std::string version : {"2024-11-05", "2025-03-26", "2025-06-18"}) {
    const Json result =
        asked("initialize", R"({"protocolVersion": ")" + version + R"(", "capabilities": {}})");
    EXPECT_EQ(result["result"]["protocolVersion"], version);
  }
  const Json result = asked("initialize", R"({"protocolVersion": "1999-01-01"})")["result"];
  EXPECT_EQ(result["protocolVersion"], "2025-06-18");
  EXPECT_EQ(result["serverInfo"]["name"], "llmsim");
  EXPECT_EQ(result["serverInfo"]["version"], "1.2.3");
  EXPECT_EQ(result["instructions"], "ask");
  EXPECT_TRUE(result["capabilities"].contains("tools"));
  EXPECT_EQ(code(asked("initialize")), -32602);
}

TEST(Server, AnswersHaveTheIdOfTheRequest) {
  EXPECT_EQ(asked("ping"), Json::parse(R"({"jsonrpc": "2.0", "id": 1, "result": {}})"));
  EXPECT_EQ(answer(R"({"jsonrpc": "2.0", "id": "a", "method": "ping"})")["id"], "a");
}

TEST(Server, NotificationsAndAnswersOfTheClientAreNotAnswered) {
  for (const char* line :
       {R"({"jsonrpc": "2.0", "method": "notifications/initialized"})",
        R"({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo"}})",
        R"({"jsonrpc": "2.0", "id": 7, "result": {}})"})
    EXPECT_TRUE(answer(line).is_null()) << line;
}

TEST(Server, ErrorsHaveTheCodesOfJsonRpc) {
  EXPECT_EQ(code(answer("{")), -32700);
  EXPECT_EQ(code(answer(std::string(200, '[') + std::string(200, ']'))), -32700);
  EXPECT_EQ(code(answer("\"\xff\"")), -32700);  // no UTF-8
  EXPECT_TRUE(answer("{")["id"].is_null());
  for (const char* line :
       {"3", "[]", R"({"id": 1, "method": "ping"})",
        R"({"jsonrpc": "1.0", "id": 1, "method": "ping"})", R"({"jsonrpc": "2.0", "id": 1})",
        R"({"jsonrpc": "2.0", "id": 1, "method": 2})",
        R"({"jsonrpc": "2.0", "id": null, "method": "ping"})",
        R"({"jsonrpc": "2.0", "id": {}, "method": "ping"})"})
    EXPECT_EQ(code(answer(line)), -32600) << line;
  EXPECT_EQ(code(asked("resources/list")), -32601);
  EXPECT_EQ(code(asked("ping", "[1]")), -32602);
  EXPECT_EQ(code(asked("tools/list", R"({"cursor": "x"})")), -32602);
  EXPECT_EQ(code(asked("tools/call")), -32602);
  EXPECT_EQ(code(asked("tools/call", R"({"name": "shell"})")), -32602);
  EXPECT_EQ(code(asked("tools/call", R"({"name": "echo", "arguments": 3})")), -32602);
  EXPECT_EQ(code(asked("tools/call", R"({"name": "echo", "arguments": {"fault": 1}})")), -32603);
}

TEST(Server, ToolsAnswerInTextAndInStructure) {
  EXPECT_EQ(asked("tools/list")["result"]["tools"], echo().tools);
  const Json result = asked("tools/call", R"({"name": "echo", "arguments": {"tp": 4}})")["result"];
  EXPECT_EQ(result["content"], Json::parse(R"([{"type": "text", "text": "echo"}])"));
  EXPECT_EQ(result["structuredContent"], Json::parse(R"({"tp": 4})"));
  EXPECT_EQ(result["isError"], false);
  const Json error = asked("tools/call", R"({"name": "echo"})")["result"];
  EXPECT_EQ(error["isError"], true);
  EXPECT_FALSE(error.contains("structuredContent"));
}

TEST(Server, ABatchIsAnsweredInItsOrderWithoutNotifications) {
  const Json answers = answer(
      R"([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "method": "x"}, 3])");
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0]["id"], 1);
  EXPECT_EQ(code(answers[1]), -32600);
  EXPECT_TRUE(answer(R"([{"jsonrpc": "2.0", "method": "x"}])").is_null());
}

std::string served(const std::string& lines) {
  std::istringstream in(lines);
  std::ostringstream out;
  serve(echo(), in, out);
  return out.str();
}

TEST(Serve, AnswersALineEachUntilTheInputEnds) {
  const std::string ping = R"({"jsonrpc": "2.0", "id": 1, "method": "ping"})",
                    pong = R"({"jsonrpc":"2.0","id":1,"result":{}})";
  EXPECT_EQ(served(ping + "\n\r\n  \n" + ping), pong + "\n" + pong + "\n");
  EXPECT_EQ(served(""), "");
}

TEST(Serve, PassesOverWhatIsTooLong) {
  const std::string ping = R"({"jsonrpc": "2.0", "id": 1, "method": "ping"})";
  const std::string answers = served(std::string(kLongestMessage + 1, ' ') + ping + "\n" + ping);
  const std::size_t end = answers.find('\n');
  EXPECT_EQ(answers.substr(0, end), too_long_answer());
  EXPECT_EQ(code(Json::parse(too_long_answer())), -32600);
  EXPECT_EQ(Json::parse(answers.substr(end))["id"], 1);
  const std::string longest = std::string(kLongestMessage - ping.size(), ' ') + ping;
  EXPECT_EQ(Json::parse(served(longest))["id"], 1);
}

}  // namespace
}  // namespace llmsim::cli::mcp
