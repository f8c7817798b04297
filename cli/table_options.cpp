#include "cli/table_options.h"

#include <CLI/CLI.hpp>
#include <map>
#include <vector>

#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

// A command with the options of a run and nothing else.
struct OptionReader {
  explicit OptionReader(TableOptionsOf kind) {
    command.set_help_flag();
    if (kind == TableOptionsOf::Search)
      add_search_options(command, run);
    else
      add_run_options(command, run);
  }

  const CLI::Option* option(const std::string& key) const {
    return command.get_option_no_throw("--" + key);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const CLI::Option* known : command.get_options())
      names.insert(names.end(), known->get_lnames().begin(), known->get_lnames().end());
    return names;
  }

  CLI::App command;
  RunOptions run;
};

std::string place(const std::string& file, const hwdb::TableOption& option) {
  return file + ": line " + std::to_string(option.line) + ": ";
}

[[noreturn]] void refuse_key(const std::string& file, const hwdb::TableOption& option,
                             const OptionReader& reader) {
  throw hwdb::UnknownKey(place(file, option) + "unknown option " + option.key.substr(0, 60) +
                         hwdb::did_you_mean(option.key, reader.names()));
}

}  // namespace

void check_options(const hwdb::TableOptions& options, TableOptionsOf kind,
                   const std::string& file) {
  const OptionReader known(kind);
  for (const hwdb::TableOption& option : options) {
    if (option.key.empty() || !known.option(option.key)) refuse_key(file, option, known);
    if (option.value.empty())
      throw Error(place(file, option) + option.key + ": a value is expected");
    try {
      run_options({option}, kind);
    } catch (const std::exception& error) {
      throw Error(place(file, option) + error.what());
    }
  }
}

RunOptions run_options(const hwdb::TableOptions& options, TableOptionsOf kind) {
  OptionReader reader(kind);
  std::map<const CLI::Option*, std::string> values;  // by option: names can be aliases
  for (const hwdb::TableOption& option : options)
    values[reader.option(option.key)] = "--" + option.key + "=" + option.value;
  std::vector<std::string> arguments;
  for (const auto& [option, argument] : values) arguments.push_back(argument);
  reader.command.parse(arguments);
  return reader.run;
}

}  // namespace llmsim::cli
