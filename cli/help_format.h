// How help texts are laid out.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>
#include <initializer_list>
#include <string>

namespace llmsim::cli {

// Lines of at most 100 columns, or of $COLUMNS; descriptions go on under themselves.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter();
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_description(const CLI::App* command) const override;
};

// Puts options under a heading of their command's help.  Requires that the command has them.
void set_group(CLI::App& command, const std::string& group,
               std::initializer_list<const char*> options);

}  // namespace llmsim::cli
