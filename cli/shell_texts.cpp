#include "cli/shell_texts.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "cli/output.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

// Calls `visit` with each command and its words: "", "plan", "calibrate site".
void for_each_command(const CLI::App& app, const std::string& words,
                      const std::function<void(const CLI::App&, const std::string&)>& visit) {
  visit(app, words);
  for (const CLI::App* command : app.get_subcommands({}))
    for_each_command(*command, words + (words.empty() ? "" : " ") + command->get_name(), visit);
}

// "--tp", "--no-flash": every spelling that begins with two dashes.
std::vector<std::string> spellings(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

constexpr const char* kBashHead =
    R"bash(_llmsim_names() { llmsim "$@" --format csv | tail -n +2 | cut -d, -f1; }
_llmsim() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= i
  local known="llmsim"
  case $before in
    --model) known="models" ;;
    --hardware) known="hardware" ;;
  esac
  if [[ $known != llmsim ]]; then
    COMPREPLY=($(compgen -W "$(_llmsim_names $known list)" -- "$word"))
    return
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command ${COMP_WORDS[i]}" in
)bash";

// "calibrate site" after "calibrate".
std::string bash_step(const CLI::App& command, const std::string& words) {
  const auto space = words.rfind(' ');
  const std::string parent = space == std::string::npos ? "" : words.substr(0, space);
  return "      \"" + parent + " " + command.get_name() + "\") command=\"" + words + "\" ;;\n";
}

std::string bash_words(const CLI::App& command, const std::string& words) {
  return "    \"" + words + "\") options=\"" + sim::joined(spellings(command), " ") +
         "\" commands=\"" + sim::joined(names_of_commands(command), " ") + "\" ;;\n";
}

std::string bash(const CLI::App& program) {
  std::string commands, words;
  for_each_command(program, "", [&](const CLI::App& command, const std::string& name) {
    if (!name.empty()) commands += bash_step(command, name);
    words += bash_words(command, name);
  });
  return std::string(kBashHead) + commands +
         "    esac\n  done\n  local options= commands=\n  case $command in\n" + words +
         "  esac\n"
         "  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
         "  elif [[ $commands ]]; then COMPREPLY=($(compgen -W \"$commands\" -- \"$word\"))\n"
         "  elif [[ $before == compare ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$(_llmsim_names compare --list)\" -- \"$word\") $(compgen "
         "-f -- "
         "\"$word\"))\n"
         "  else COMPREPLY=($(compgen -f -- \"$word\")); fi\n"
         "}\n"
         "complete -F _llmsim llmsim\n";
}

// zsh runs completions of bash.
std::string zsh(const CLI::App& program) {
  return "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" +
         bash(program);
}

// In single quotes, as fish takes them.
std::string fish_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text)
    quoted += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return quoted + "'";
}

std::string fish_condition(const std::string& command) {
  if (command.empty()) return "__fish_use_subcommand";
  std::string condition;
  for (std::size_t from = 0; from <= command.size();) {
    const std::size_t to = std::min(command.find(' ', from), command.size());
    condition += (condition.empty() ? "" : "; and ") +
                 ("__fish_seen_subcommand_from " + command.substr(from, to - from));
    from = to + 1;
  }
  return condition;
}

std::string fish(const CLI::App& program) {
  std::string text;
  for_each_command(program, "", [&](const CLI::App& command, const std::string& name) {
    const std::string begin = "complete -c llmsim -n " + fish_quoted(fish_condition(name));
    for (const CLI::App* sub : command.get_subcommands({}))
      text +=
          begin + " -f -a " + sub->get_name() + " -d " + fish_quoted(sub->get_description()) + "\n";
    for (const CLI::Option* option : command.get_options())
      for (const std::string& spelling : option->get_lnames())
        text += begin + " -l " + spelling + (option->get_expected_max() > 0 ? " -r" : "") + " -d " +
                fish_quoted(option->get_description()) + "\n";
  });
  return text +
         "complete -c llmsim -l model -x -a '(llmsim models list --format csv | cut -d, -f1)'\n"
         "complete -c llmsim -n '__fish_seen_subcommand_from compare' -a '(llmsim compare --list "
         "--format csv | cut -d, -f1)'\n"
         "complete -c llmsim -l hardware -x -a '(llmsim hardware list --format csv | cut -d, "
         "-f1)'\n";
}

// Backslashes and leading dots mean something to man.
std::string roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else if (c == '\n')
      escaped += "\n.br\n";
    else
      escaped += c;
  }
  return escaped.starts_with(".") || escaped.starts_with("'") ? "\\&" + escaped : escaped;
}

// Its spellings; a flag's are followed by the value they set in braces.
std::string names_of(const CLI::Option& option) {
  std::string names = option.get_name(false, true);
  for (std::size_t begin; (begin = names.find('{')) != std::string::npos;)
    names.erase(begin, names.find('}', begin) - begin + 1);
  return names;
}

std::string roff_options(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    const std::string type = option->get_expected_max() > 0 ? option->get_type_name() : "";
    text += ".TP\n\\fB" + roff(names_of(*option)) + "\\fR" +
            (type.empty() ? "" : " \\fI" + roff(type) + "\\fR") + "\n" +
            roff(option->get_description()) + "\n";
  }
  return text;
}

}  // namespace

std::string completion(const CLI::App& program, const std::string& shell) {
  if (shell == "bash") return bash(program);
  if (shell == "zsh") return zsh(program);
  if (shell == "fish") return fish(program);
  throw Error("completion " + shell + ": bash, zsh or fish is expected");
}

std::string manual_page(const CLI::App& program, const std::string& version) {
  std::string text = ".TH LLMSIM 1 \"\" \"llmsim " + version + "\"\n.SH NAME\nllmsim \\- " +
                     roff(program.get_description()) +
                     "\n.SH SYNOPSIS\n\\fBllmsim\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n";
  for_each_command(program, "", [&](const CLI::App& command, const std::string& name) {
    if (name.empty()) return;
    text += ".SH " + roff("llmsim " + name) + "\n" + roff(command.get_description()) + "\n" +
            roff_options(command);
    if (!command.get_footer().empty()) text += ".PP\n" + roff(command.get_footer()) + "\n";
  });
  return text;
}

void add_shell_texts(CLI::App& program, const std::string& version, int& status) {
  CLI::App* complete = program.add_subcommand("completion", "a completion script for a shell");
  const auto shell = std::make_shared<std::string>();
  complete->add_option("SHELL", *shell, "bash, zsh or fish; example: bash")->required();
  complete->footer("Example: llmsim completion bash");
  complete->callback([&program, &status, shell] {
    write_result(completion(program, *shell), {});
    status = 0;
  });
  CLI::App* manual = program.add_subcommand("man", "the manual page, for man -l -");
  manual->footer("Example: llmsim man");
  manual->callback([&program, &status, version] {
    write_result(manual_page(program, version), {});
    status = 0;
  });
}

}  // namespace llmsim::cli
