#include "cli/help_format.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "cli/output.h"
#include "hwdb/text/spelling.h"
#include "reports/result_text.h"

namespace llmsim::cli {

namespace {

constexpr std::size_t kColumns = 100, kLeastColumns = 60, kNames = 30;

std::size_t columns() { return std::max(kLeastColumns, given_columns().value_or(kColumns)); }

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

std::vector<const CLI::App*> commands_of(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

std::optional<std::string> unknown_command(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* one : commands_of(command)) names.push_back(one->get_name());
  const std::string group = command.get_parent() ? command.get_name() + " " : "";
  const auto near = hwdb::nearest(word, names);
  return "unknown command '" + group + word + "'" +
         (near ? "; did you mean " + group + *near + "? The" : "; the") + " commands are " +
         sim::joined(names, ", ");
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

// More than these fill a screen.
constexpr std::size_t kMostExplained = 24;

// What most questions name.
constexpr std::array kUsual{"model", "gpus", "hardware",    "framework", "seq-len",  "global-batch",
                            "tp",    "pp",   "micro-batch", "sharding",  "recompute"};

bool is_usual(const CLI::Option* option) {
  return option->get_positional() || option->get_group() == "Options" ||
         std::ranges::any_of(kUsual, [&](const char* name) { return option->check_lname(name); });
}

// "--tp", "-o,--output", "--[no-]compile"
std::string short_name(const CLI::Option* option) {
  std::string name = option->get_single_name();
  if (option->get_positional()) return name;
  const bool both = option->check_lname("no-" + name);
  return "--" + (both ? "[no-]" + name : name);
}

// "--tp LIST"
std::string usual_name(const CLI::Option* option) {
  const std::string letter =
      option->get_snames().empty() ? "" : "-" + option->get_snames().front() + ",";
  const std::string name =
      option->get_positional() ? option->get_single_name() : letter + short_name(option);
  const bool takes_value = option->get_items_expected_max() > 0;
  return name + (takes_value ? " " + option->get_type_name() : "");
}

// What it is, without its default and its example.
std::string first_clause(const CLI::Option* option) {
  const std::string text = option->get_description();
  int depth = 0;
  std::size_t end = 0;
  for (; end < text.size() && (depth > 0 || (text[end] != ';' && text[end] != ':')); ++end)
    depth += (text[end] == '(') - (text[end] == ')');
  return text.substr(0, end);
}

// The usual options, and by group the names of the others.
std::string usual_options(const CLI::App& command) {
  std::string usual = "\nOptions:\n", others;
  for (const std::string& group : command.get_groups()) {
    std::string names;
    for (const CLI::Option* option :
         command.get_options([&](const CLI::Option* one) { return one->get_group() == group; })) {
      if (is_usual(option))
        usual += entry(usual_name(option), first_clause(option));
      else
        names += (names.empty() ? "" : " ") + short_name(option);
    }
    if (!names.empty()) others += entry(group, names);
  }
  return usual + "\nOthers, which --help-all explains, with defaults, units and examples:\n" +
         others;
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

std::string HelpFormatter::make_help(const CLI::App* command, std::string name,
                                     CLI::AppFormatMode mode) const {
  if (mode != CLI::AppFormatMode::Normal || command->get_options().size() <= kMostExplained)
    return Formatter::make_help(command, name, mode);
  return make_description(command) +
         make_usage(command, command->get_parent()->get_name() + " " + command->get_name()) +
         usual_options(*command) + "\n" + make_footer(command);
}

void set_group(CLI::App& command, const std::string& group,
               std::initializer_list<const char*> options) {
  for (const char* name : options) command.get_option(name)->group(group);
}

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
