#include "cli/misspelling.h"

#include <cctype>

#include "hwdb/text/spelling.h"

namespace llmsim::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

std::optional<std::string> unknown_command(const CLI::App& command, const std::string& word) {
  std::string all;
  std::vector<std::string> names;
  for (const CLI::App* one : commands_of(command)) {
    names.push_back(one->get_name());
    all += (all.empty() ? "" : ", ") + one->get_name();
  }
  const std::string group = command.get_parent() ? command.get_name() + " " : "";
  const auto near = hwdb::nearest(word, names);
  return "unknown command '" + group + word + "'" +
         (near ? "; did you mean " + group + *near + "? The" : "; the") + " commands are " + all;
}

const CLI::App* command_named(const CLI::App& command, const std::string& name) {
  for (const CLI::App* one : commands_of(command)) {
    if (one->get_name() == name) return one;
  }
  return nullptr;
}

std::string unknown_option(const CLI::App& command, const std::string& name) {
  std::vector<std::string> names;  // without dashes, which all have in common
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& known : option->get_lnames()) names.push_back(known);
  }
  const auto near = hwdb::nearest(name.substr(name.find_first_not_of('-')), names);
  return "unknown option " + name +
         (near ? "; did you mean --" + *near + "?"
               : "; " + command.get_name() + " --help lists all");
}

bool is_long(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }
bool is_short(const std::string& word) {
  return word.size() > 1 && word[0] == '-' &&
         std::isalpha(static_cast<unsigned char>(word[1])) != 0;
}

// "--tp" of "--tp=8", "-o" of "-oplan.json".
std::string option_name(const std::string& word) {
  return is_long(word) ? word.substr(0, word.find('=')) : word.substr(0, 2);
}

// Whether the option's value is the next argument.
bool takes_next(const CLI::Option& option, const std::string& word) {
  const bool attached = word.size() > option_name(word).size();
  return !attached && option.get_items_expected_min() > 0 && option.get_type_size_min() > 0;
}

}  // namespace

std::optional<std::string> misspelling(const CLI::App& program,
                                       const std::vector<std::string>& arguments) {
  const CLI::App* command = &program;
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& word = arguments[i];
    if (is_long(word) || is_short(word)) {
      const CLI::Option* option = command->get_option_no_throw(option_name(word));
      if (!option) return unknown_option(*command, option_name(word));
      if (takes_next(*option, word)) ++i;
    } else if (!commands_of(*command).empty()) {
      const CLI::App* named = command_named(*command, word);
      if (!named) return unknown_command(*command, word);
      command = named;
    }
  }
  return std::nullopt;
}

}  // namespace llmsim::cli
