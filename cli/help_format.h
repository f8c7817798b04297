// Help on the command line: how its texts are laid out, and which words are misspelt.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>

namespace llmsim::cli {

// Lines of at most 100 columns, or of $COLUMNS; descriptions go on under themselves.  A command
// with more options than a screen has lines explains the usual ones with --help, names the others
// by group, and explains all with --help-all.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_description(const CLI::App* command) const override;
  std::string make_help(const CLI::App* command, std::string name,
                        CLI::AppFormatMode mode) const override;
};

// An option and the name of its value: "--jobs N".
template <class Value>
CLI::Option* add_option(CLI::App& command, const char* name, Value& value, const char* type,
                        const std::string& help) {
  return command.add_option(name, value, help)->type_name(type);
}

// Puts options under a heading of their command's help.  Requires that the command has them.
void set_group(CLI::App& command, const std::string& group,
               std::initializer_list<const char*> options);

// Misspelt commands and options, found before anything is parsed: a parser would complain about the
// consequences of the wrong word.  It is "unknown option --tpp; did you mean --tp?" for the first
// of the arguments that names no command or option of the program where one must stand; none where
// there is no such argument.  `arguments` are those after the program's name.
std::optional<std::string> misspelling(const CLI::App& program,
                                       const std::vector<std::string>& arguments);

}  // namespace llmsim::cli
