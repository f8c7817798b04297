#include "cli/help_format.h"

#include <algorithm>
#include <cstdlib>

#include "reports/result_text.h"

namespace llmsim::cli {
namespace {

constexpr std::size_t kColumns = 100, kLeastColumns = 60, kNames = 30;

std::size_t columns() {
  const char* const asked = std::getenv("COLUMNS");
  const long number = asked ? std::strtol(asked, nullptr, 10) : 0;
  return number > 0 ? std::max<std::size_t>(kLeastColumns, static_cast<std::size_t>(number))
                    : kColumns;
}

// "  NAME      description", which begins a line of its own beside a long name.
std::string entry(const std::string& name, const std::string& description) {
  std::string text = "  " + name;
  if (description.empty()) return text + "\n";
  const std::string indent(kNames, ' ');
  if (text.size() >= kNames)
    text += "\n" + indent;
  else
    text.append(kNames - text.size(), ' ');
  bool first = true;
  for (const std::string& line : reports::wrapped(description, columns() - kNames)) {
    text += (first ? "" : indent) + line + "\n";
    first = false;
  }
  return text;
}

}  // namespace

HelpFormatter::HelpFormatter() { column_width(kNames); }

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  const std::string off = "{false}";  // of the names by which a flag is put off
  std::string name = make_option_name(option, is_positional);
  for (std::size_t at = name.find(off); at != std::string::npos; at = name.find(off))
    name.erase(at, off.size());
  // The description says what an option goes without and what it needs.
  std::string facts = make_option_opts(option);
  facts.erase(std::min(facts.find(" Excludes:"), facts.size()));
  facts.erase(std::min(facts.find(" Needs:"), facts.size()));
  return entry(name + facts, make_option_desc(option));
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

std::string HelpFormatter::make_description(const CLI::App* command) const {
  std::string text;
  for (const std::string& line : reports::wrapped(command->get_description(), columns()))
    text += line + "\n";
  return text;
}

void set_group(CLI::App& command, const std::string& group,
               std::initializer_list<const char*> options) {
  for (const char* name : options) command.get_option(name)->group(group);
}

}  // namespace llmsim::cli
