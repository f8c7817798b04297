#include "hwdb/launch/command_line.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "hwdb/launch/config_text.h"
#include "hwdb/launch/shell_script.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using Command = std::vector<std::string>;

std::size_t place_of_program(const Command& command) {
  const auto program = std::find_if(command.begin(), command.end(), [](const std::string& word) {
    return word.ends_with(".py") && word.find("pretrain") != std::string::npos;
  });
  return static_cast<std::size_t>(program - command.begin());
}

bool is_option(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

// Of the commands that start a program the last one with options.
Command training_command(const std::vector<Command>& commands) {
  Command found, all;
  for (const Command& command : commands) {
    const bool has_options = std::any_of(command.begin(), command.end(), is_option);
    if (has_options && place_of_program(command) < command.size()) found = command;
    all.insert(all.end(), command.begin(), command.end());
  }
  return found.empty() ? all : found;
}

LaunchValues options_in(Command::const_iterator from, Command::const_iterator to) {
  LaunchValues values;
  std::string key;
  for (auto word = from; word != to; ++word) {
    if (is_option(*word)) {
      const std::size_t equals = word->find('=');
      key = word->substr(0, equals);
      values[key] = equals == std::string::npos ? "" : word->substr(equals + 1);
    } else if (!key.empty()) {
      std::string& value = values[key];
      value += (value.empty() ? "" : " ") + *word;
    }
  }
  for (auto& [name, value] : values) {
    if (value.empty()) value = "true";
  }
  return values;
}

int number_of_option(const LaunchValues& options, const std::string& name) {
  std::string dashed = name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  for (const std::string& key : {"--" + name, "--" + dashed}) {
    const auto found = options.find(key);
    if (found != options.end()) return std::atoi(found->second.c_str());
  }
  return 0;
}

// The key of "++model.seq_length=4096"; empty for other words.
std::string override_key(const std::string& word) {
  const std::size_t begin = word.find_first_not_of('+'), equals = word.find('=');
  if (equals == std::string::npos || begin >= equals) return "";
  const std::string key = word.substr(begin, equals - begin);
  const bool plain = std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.';
  });
  return plain ? key : "";
}

// Of the command with the most overrides.
LaunchText overrides_in(const std::vector<Command>& commands) {
  LaunchText read;
  for (const Command& command : commands) {
    LaunchValues values;
    for (const std::string& word : command) {
      const std::string key = override_key(word);
      if (!key.empty()) values[key] = word.substr(word.find('=') + 1);
      if (word.ends_with(".yml") || word.ends_with(".yaml"))
        values.emplace("base_config", word.substr(word.rfind('/') + 1));
    }
    if (values.size() <= read.values.size()) continue;
    read.values = std::move(values);
    const LaunchValues launcher = options_in(command.begin(), command.end());
    const int devices =
        number_of_option(launcher, "nnodes") * number_of_option(launcher, "nproc_per_node");
    if (devices > 0) read.num_devices = devices;
  }
  return read;
}

// A list without its brackets, as YAML's are read.
std::string plain_value(std::string value) {
  if (value == "True" || value == "False") value.front() = value == "True" ? 't' : 'f';
  if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  return value;
}

// That of "NAME=8" in a script; `fallback` where there is none.
int assigned_number(const std::string& text, const std::string& name, int fallback) {
  const std::size_t at = text.find(name + "=");
  const int number = at == std::string::npos ? 0 : std::atoi(text.c_str() + at + name.size() + 1);
  return number > 0 ? number : fallback;
}

}  // namespace

LaunchText parsed_overrides(const std::string& text, const std::string& path) {
  LaunchText read =
      path.ends_with(".sh") ? overrides_in(commands_of_script(text)) : parsed_yaml(text, path);
  for (auto& [key, value] : read.values) value = plain_value(value);
  std::erase_if(read.values, [](const auto& entry) { return entry.second == "null"; });
  return read;
}

LaunchText parsed_arguments(const std::string& text, const std::string& path) {
  if (!path.ends_with(".sh")) return parsed_yaml(text, path);
  LaunchText read;
  for (const Command& command : commands_of_script(text)) {
    const auto begin = std::find_if(command.begin(), command.end(), is_option);
    const auto last = std::find_if(command.rbegin(), command.rend(),
                                   [](const std::string& word) { return word.ends_with(".py"); });
    const LaunchValues options = options_in(std::max(begin, last.base()), command.end());
    if (options.empty() || options.size() < read.values.size()) continue;
    read = {};
    for (const auto& [name, value] : options) {
      std::string key = name.substr(2);
      std::replace(key.begin(), key.end(), '-', '_');
      read.values[key] = value;
    }
    if (begin != command.begin() && begin != command.end()) read.program = *std::prev(begin);
  }
  for (auto& [key, value] : read.values) value = plain_value(value);
  const int ranks = assigned_number(text, "NPROC_PER_NODE", 0);
  if (ranks > 0) read.num_devices = ranks * assigned_number(text, "NNODES", 1);
  return read;
}

LaunchText parsed_command_line(const std::string& text, const std::string& path) {
  std::vector<Command> commands;
  try {
    commands = commands_of_script(text);
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
  const Command command = training_command(commands);
  const std::size_t at = place_of_program(command);
  const bool has_program = at < command.size();
  const auto program = command.begin() + static_cast<std::ptrdiff_t>(has_program ? at : 0);
  LaunchText read{.values = options_in(program, command.end())};
  const LaunchValues launcher = options_in(command.begin(), program);
  const int devices =
      number_of_option(launcher, "nnodes") * number_of_option(launcher, "nproc_per_node");
  if (devices > 0) read.num_devices = devices;
  if (has_program) read.program = program->substr(program->rfind('/') + 1);
  return read;
}

std::string shell_quoted(const std::string& value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string("-_./=+,: ").find(static_cast<char>(c)) != std::string::npos;
  });
  return plain ? value : "'" + value + "'";
}

}  // namespace llmsim::hwdb
