#include "hwdb/launch/command_line.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <utility>

#include "hwdb/launch/config_text.h"
#include "hwdb/launch/shell_script.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using Command = std::vector<std::string>;

std::vector<Command> commands_in(const std::string& text, const std::string& path,
                                 const ShellVariables& environment = {}) {
  try {
    return commands_of_script(text, environment);
  } catch (const TooLarge& error) {
    throw TooLarge(path + ": " + error.what());
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
}

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

// None where it is not there, 0 where it is no number.
std::optional<int> number_of_option(const LaunchValues& options, const std::string& name) {
  std::string dashed = name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  for (const std::string& key : {"--" + name, "--" + dashed})
    if (const auto* const text = value_in(options, key)) return launcher_count(*text);
  return std::nullopt;
}

std::optional<int> if_any(int devices) {
  return devices > 0 ? std::optional(devices) : std::nullopt;
}

// What the launcher before a program starts: torchrun's processes, on one node unless it says
// otherwise, or the tasks of Slurm.
std::optional<int> devices_of_launcher(const LaunchValues& launcher,
                                       const ShellVariables& environment) {
  if (const auto processes = number_of_option(launcher, "nproc_per_node"))
    return if_any(launcher_devices(number_of_option(launcher, "nnodes").value_or(1), *processes));
  const auto nodes = number_of_option(launcher, "nodes");
  const auto on_node = number_of_option(launcher, "ntasks_per_node");
  int devices = number_of_option(launcher, "ntasks")
                    .value_or(launcher_devices(nodes.value_or(0), on_node.value_or(0)));
  const auto set = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? 0 : launcher_count(found->second.front());
  };
  if (devices == 0) devices = launcher_devices(set("SLURM_NNODES"), set("SLURM_GPUS_PER_NODE"));
  if (devices == 0) devices = set("SLURM_NTASKS");
  return if_any(devices);
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
LaunchText overrides_in(const std::string& text, const std::string& path) {
  const ShellVariables environment = slurm_environment(text);
  LaunchText read;
  for (const Command& command : commands_in(text, path, environment)) {
    LaunchValues values;
    for (const std::string& word : command) {
      const std::string key = override_key(word);
      if (!key.empty()) values[key] = word.substr(word.find('=') + 1);
      if (word.ends_with(".yml") || word.ends_with(".yaml"))
        values.emplace("base_config", word.substr(word.rfind('/') + 1));
    }
    if (values.size() <= read.values.size()) continue;
    read.values = std::move(values);
    read.num_devices = devices_of_launcher(options_in(command.begin(), command.end()), environment);
  }
  return read;
}

// A list without its brackets, as YAML's are read.
std::string plain_value(std::string value) {
  if (value == "True" || value == "False") value.front() = value == "True" ? 't' : 'f';
  if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  return value;
}

// A switch that is off is not there; lists are written without brackets, by blanks.
void put_argument(std::string key, std::string value, LaunchValues& values) {
  std::replace(key.begin(), key.end(), '_', '-');
  if (!key.starts_with("--")) key = "--" + key;
  if (value == "False" || value == "false" || value == "null") return;
  value = plain_value(value);
  const bool names = std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isalpha(c) != 0 || c == '_' || c == ',' || c == ' ';
  });
  if (names) std::replace(value.begin(), value.end(), ',', ' ');
  values[key] = value;
}

bool is_yaml(const std::string& path) { return path.ends_with(".yaml") || path.ends_with(".yml"); }

LaunchText listed_arguments(const std::string& text, const std::string& path) {
  const std::string section = "MODEL_ARGS.";
  LaunchText read;
  for (const auto& [key, value] : parsed_yaml(text, path).values) {
    if (key.starts_with(section)) put_argument(key.substr(section.size()), value, read.values);
  }
  return read;
}

// Python names of arguments whose flags have others, by the values that flags have.
struct PythonName {
  const char *name, *flag;
  bool opposite;  // the flag switches off
};

constexpr PythonName kPythonNames[] = {
    {"fp8", "--fp8-format", false},
    {"fp4", "--fp4-format", false},
    {"gradient_accumulation_fusion", "--no-gradient-accumulation-fusion", true},
    {"add_bias_linear", "--disable-bias-linear", true}};

// What its own configuration adds to that of Megatron-LM.
constexpr std::pair<const char*, const char*> kOfPrimus[] = {
    {"bf16", "true"},
    {"use_distributed_optimizer", "true"},
    {"hidden_dropout", "0.0"},
    {"attention_dropout", "0.0"},
    {"overlap_grad_reduce", "false"},
    {"moe_token_dispatcher_type", "alltoall"}};

// An experiment of Primus: the program of its first module, with the model and what it overrides.
struct PrimusModule {
  std::string program, model;
  LaunchValues overrides;
};

PrimusModule primus_module(const std::string& text, const std::string& path) {
  const std::string overrides = "overrides.";
  PrimusModule read;
  for (const auto& [key, value] : parsed_yaml(text, path).values) {
    if (!key.starts_with("modules.")) continue;
    const std::string name = key.substr(std::min(key.find('.', 8), key.size() - 1) + 1);
    if (name == "framework") read.program = value;
    if (name == "model") read.model = value;
    if (name.starts_with(overrides)) read.overrides[name.substr(overrides.size())] = value;
  }
  return read;
}

// One whose program is configured by keys of its own.
LaunchText primus_of(const std::string& text, const std::string& path, const char* program) {
  PrimusModule module = primus_module(text, path);
  if (module.program != program) throw Error(path + ": no experiment with " + program);
  LaunchText read{.values = std::move(module.overrides)};
  read.values["primus.model"] = module.model;
  for (auto& [key, value] : read.values)
    if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  return read;
}

// That of "NAME=8" in a script; `fallback` where there is none.
int assigned_number(const std::string& text, const std::string& name, int fallback) {
  const std::size_t at = text.find(name + "=");
  const int number =
      at == std::string::npos ? 0 : launcher_count(text.substr(at + name.size() + 1, 16));
  return number > 0 ? number : fallback;
}

}  // namespace

LaunchText parsed_overrides(const std::string& text, const std::string& path) {
  LaunchText read = path.ends_with(".sh") ? overrides_in(text, path) : parsed_yaml(text, path);
  for (auto& [key, value] : read.values) value = plain_value(value);
  std::erase_if(read.values, [](const auto& entry) { return entry.second == "null"; });
  return read;
}

LaunchText parsed_primus(const std::string& text, const std::string& path) {
  PrimusModule module = primus_module(text, path);
  if (module.program != "megatron") throw Error(path + ": no experiment with Megatron-LM");
  LaunchText read{.values = {{"program", module.program}, {"primus.model", module.model}}};
  LaunchValues& overrides = module.overrides;
  for (const auto& [name, value] : kOfPrimus) overrides.emplace(name, value);
  const auto deepep = overrides.extract("use_turbo_deepep");
  if (!deepep.empty() && deepep.mapped() == "true") {
    overrides["moe_token_dispatcher_type"] = "flex";
    overrides["moe_flex_dispatcher_backend"] = "deepep";
  }
  for (const auto& argument : overrides) {
    const std::string &name = argument.first, &value = argument.second;
    const auto* const known = std::find_if(std::begin(kPythonNames), std::end(kPythonNames),
                                           [&](const PythonName& one) { return name == one.name; });
    const bool is_one = name == "sequence_parallel" && value == "1";
    if (known == std::end(kPythonNames))
      put_argument(name, is_one ? "true" : value, read.values);
    else if (!known->opposite)
      put_argument(known->flag, value, read.values);
    else if (value == "false")
      put_argument(known->flag, "true", read.values);
  }
  return read;
}

LaunchText parsed_titan(const std::string& text, const std::string& path) {
  return is_yaml(path) ? primus_of(text, path, "torchtitan") : parsed_toml(text, path);
}

LaunchText parsed_maxtext(const std::string& text, const std::string& path) {
  const bool is_primus = is_yaml(path) && text.find("framework: maxtext") != std::string::npos;
  return is_primus ? primus_of(text, path, "maxtext") : parsed_overrides(text, path);
}

LaunchText parsed_nemo1(const std::string& text, const std::string& path) {
  LaunchText read = parsed_overrides(text, path);
  const auto count = [&](const char* key) {
    const auto* const value = value_in(read.values, key);
    return value ? launcher_count(*value) : 0;
  };
  const int devices = launcher_devices(count("trainer.num_nodes"), count("trainer.devices"));
  if (devices > 0) read.num_devices = devices;
  return read;
}

LaunchText parsed_arguments(const std::string& text, const std::string& path) {
  if (!path.ends_with(".sh")) return parsed_yaml(text, path);
  LaunchText read;
  for (const Command& command : commands_in(text, path)) {
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
  read.num_devices = if_any(launcher_devices(assigned_number(text, "NNODES", 1), ranks));
  return read;
}

LaunchText parsed_command_line(const std::string& text, const std::string& path) {
  if (is_yaml(path)) return listed_arguments(text, path);
  const ShellVariables environment = slurm_environment(text);
  const Command command = training_command(commands_in(text, path, environment));
  const std::size_t at = place_of_program(command);
  const bool has_program = at < command.size();
  const auto program = command.begin() + static_cast<std::ptrdiff_t>(has_program ? at : 0);
  LaunchText read{.values = options_in(program, command.end())};
  read.num_devices = devices_of_launcher(options_in(command.begin(), program), environment);
  if (has_program) read.program = program->substr(program->rfind('/') + 1);
  return read;
}

}  // namespace llmsim::hwdb
