// The tools of `llmsim mcp`: questions to the program, each answered by a command.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/mcp/json_text.h"
#include "cli/mcp/option_words.h"

namespace llmsim::cli::mcp {

// A command line without the form of the answer, and what stands on its standard input.
struct Question {
  std::vector<std::string> words;
  std::string input{};
};

// What tools/list answers: plan, predict, compare, explain, models, hardware.  `program` has the
// commands and their options, from which arguments are described.
Json tool_list(const CLI::App& program);

// The question that a call asks.  Requires a tool of the list.  Throws Error for arguments that it
// does not have, or that may not be used.
Question question_of(const CLI::App& program, const std::string& tool, const Json& arguments,
                     const ReadableFiles& files);

// For an agent: when to ask what, and how to read the answers.
std::string instructions();

}  // namespace llmsim::cli::mcp
