// Arguments of a tool as words of a command line: names of options with underscores, and a list of
// further words.  Only options that read, and paths that may be read, become words.
#pragma once

#include <CLI/App.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/mcp/json_text.h"

namespace llmsim::cli::mcp {

// Which files tools may name.
struct ReadableFiles {
  std::optional<std::filesystem::path> below;  // this folder; none: any file
  // What a refusal says of other files.
  std::string expected =
      "a file below the working directory is expected; llmsim mcp --allow-files lets tools read "
      "any";
};

// Throws Error "NAME = PATH: ..." for a path that is not below the folder, by symbolic links too.
void check_readable(const std::string& name, const std::string& path, const ReadableFiles& files);

// The option of a command that an argument names: "micro_batch" is --micro-batch.  Throws Error for
// an unknown one, naming the nearest, and for options that write files, choose the form of the
// answer or the database.
const CLI::Option& option_of(const CLI::App& command, const std::string& name);

// "--micro-batch=2", "--no-flash"; none where a switch is left as it is (null).  Commas join a
// list.  Throws Error as option_of and check_readable do, and for a value of another kind.
std::optional<std::string> word_of(const CLI::App& command, const std::string& name,
                                   const Json& value, const ReadableFiles& files);

// The same for words as people type them: {"--tp", "4", "--pp=2", "--flash"}.
std::vector<std::string> words_of(const CLI::App& command, const Json& words,
                                  const ReadableFiles& files);

// The text of a value: "8", "0.5", "bf16", "1,2,4".  Throws Error "NAME = ...: ... is expected".
std::string value_text(const std::string& name, const Json& value);

// The JSON Schema of an argument, from what the help says: meaning, unit, default, example.
Json argument_schema(const CLI::Option& option);

}  // namespace llmsim::cli::mcp
