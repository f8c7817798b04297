#include <algorithm>
#include <chrono>
#include <future>
#include <iostream>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/help_format.h"
#include "cli/mcp/server.h"
#include "cli/mcp/tools.h"
#include "cli/own_process.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

using mcp::Json;
using mcp::ToolAnswer;

struct McpOptions {
  bool allow_files = false;
  double time_limit = 120.0;
};

constexpr int kNo = 3;  // exit status of an answer that is no
constexpr int kMillisecondsOfSecond = 1000;

// An object; rows of a table stand in one.
Json structured(const std::string& text) {
  Json answer = mcp::json_in(text);
  return answer.is_object() ? answer : Json{{"rows", std::move(answer)}};
}

ToolAnswer failure(const ProcessOutcome& outcome, const McpOptions& options) {
  if (!outcome.ended)
    return {.text = "stopped: no answer within " + std::to_string(std::lround(options.time_limit)) +
                    " s; a smaller question is expected",
            .is_error = true};
  const std::string messages = messages_of(outcome);
  return {.text = messages.empty() ? "the program ended without an answer" : messages,
          .is_error = true};
}

bool answers(const ProcessOutcome& outcome) {
  return outcome.ended && (outcome.status == 0 || outcome.status == kNo) && !outcome.out.empty();
}

// For people and for programs, at the same time.
ToolAnswer asked(const mcp::Question& question, const McpOptions& options) {
  const auto limit =
      std::chrono::milliseconds(std::llround(options.time_limit * kMillisecondsOfSecond));
  const auto run = [&](const char* format) {
    std::vector<std::string> words = question.words;
    words.push_back(std::string("--format=") + format);
    return run_self({.arguments = words, .input = question.input, .limit = limit});
  };
  auto for_programs = std::async(std::launch::async, run, "json");
  const ProcessOutcome screen = run("table"), json = for_programs.get();
  for (const ProcessOutcome* outcome : {&screen, &json})
    if (!answers(*outcome)) return failure(*outcome, options);
  const std::string messages = messages_of(screen);
  return {.text = screen.out + (messages.empty() ? "" : "\n" + messages + "\n"),
          .structured = structured(json.out)};
}

mcp::Server server_of(const CLI::App& program, const std::string& version,
                      const McpOptions& options) {
  mcp::ReadableFiles files;
  if (!options.allow_files) files.below = std::filesystem::current_path();
  return {.version = version,
          .instructions = mcp::instructions(),
          .tools = mcp::tool_list(program),
          .call = [&program, &options, files](const std::string& tool, const Json& arguments) {
            try {
              return asked(mcp::question_of(program, tool, arguments, files), options);
            } catch (const Error& error) {
              return ToolAnswer{.text = error.what(), .is_error = true};
            }
          }};
}

}  // namespace

void add_mcp(CLI::App& program, const std::string& version, int& status) {
  CLI::App* command = program.add_subcommand(
      "mcp",
      "a server of the Model Context Protocol: tools for agents, on standard input and "
      "output");
  const auto options = std::make_shared<McpOptions>();
  command->add_flag("--allow-files", options->allow_files,
                    "tools may read any file that they name; default: below the working directory");
  constexpr double kLeast = 1.0, kMost = 86400.0;
  add_option(*command, "--time-limit", options->time_limit, "SECONDS",
             "after which a call is stopped, 1 to 86400; default 120; example: --time-limit 30")
      ->check(CLI::Range(kLeast, kMost));
  command->footer(
      "One JSON-RPC message a line; ends at the end of standard input.  Tools: plan, predict,\n"
      "compare, explain, models, hardware; they write no files.  For an agent's configuration:\n"
      "  {\"mcpServers\": {\"llmsim\": {\"command\": \"llmsim\", \"args\": [\"mcp\"]}}}");
  command->callback([&program, &status, options, version] {
    mcp::serve(server_of(program, version, *options), std::cin, std::cout);
    status = 0;
  });
}

}  // namespace llmsim::cli
