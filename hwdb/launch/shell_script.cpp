#include "hwdb/launch/shell_script.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "hwdb/launch/shell_words.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

constexpr int kMostDevices = 1 << 24;

struct Branch {
  bool holds = true;  // this part of it is executed
  bool taken = true;  // one part has been
};

struct Script {
  ShellVariables variables{};
  std::vector<Branch> branches{};
  std::vector<ShellWords> commands{};
  int depth = 0;  // of lists of commands in words of others
  ReadBudget budget{};

  bool runs() const {
    return std::all_of(branches.begin(), branches.end(), [](const Branch& b) { return b.holds; });
  }

  ShellWords expanded(const std::string& raw) { return expanded_word(raw, variables, budget); }
};

using Tokens = std::vector<ShellToken>;

ShellWords expanded_words(Tokens::const_iterator from, Tokens::const_iterator to, Script& script) {
  ShellWords words;
  for (auto token = from; token != to; ++token) {
    if (token->is_operator) continue;
    for (std::string& word : script.expanded(token->text)) words.push_back(std::move(word));
  }
  return words;
}

bool test_holds(const ShellWords& words) {
  const auto number = [](const std::string& text) { return std::strtod(text.c_str(), nullptr); };
  if (words.size() == 2 && words[0] == "-n") return !words[1].starts_with("$") && !words[1].empty();
  if (words.size() == 2 && words[0] == "-z") return words[1].starts_with("$") || words[1].empty();
  if (words.size() != 3) return false;
  const std::string& op = words[1];
  if (op == "==" || op == "=") return words[0] == words[2];
  if (op == "!=") return words[0] != words[2];
  if (op == "-eq") return number(words[0]) == number(words[2]);
  if (op == "-ne") return number(words[0]) != number(words[2]);
  if (op == "-gt") return number(words[0]) > number(words[2]);
  if (op == "-ge") return number(words[0]) >= number(words[2]);
  if (op == "-lt") return number(words[0]) < number(words[2]);
  if (op == "-le") return number(words[0]) <= number(words[2]);
  return false;
}

// "[[ a == b ]] || [ c -gt d ]", from left to right.
bool condition_holds(const Tokens& tokens, Script& script) {
  bool holds = false, is_or = true;
  ShellWords test;
  for (std::size_t i = 0; i <= tokens.size(); ++i) {
    const bool ends = i == tokens.size() || tokens[i].text == "&&" || tokens[i].text == "||";
    if (!ends) {
      const std::string& text = tokens[i].text;
      if (text == "[" || text == "[[" || text == "]" || text == "]]" || tokens[i].is_operator)
        continue;
      test.push_back(sim::joined(script.expanded(text), " "));
      continue;
    }
    holds = is_or ? holds || test_holds(test) : holds && test_holds(test);
    is_or = i < tokens.size() && tokens[i].text == "||";
    test.clear();
  }
  return holds;
}

void execute_all(const std::string& text, Script& script);

// A word that is itself a list of commands, as of "bash -c"; whether it is.
bool execute_inner(const std::string& word, Script& script) {
  constexpr int kDeepest = 4;
  const auto has = [&](const char* part) { return word.find(part) != std::string::npos; };
  if (script.depth == kDeepest || !(has(" && ") || has("; ") || has("\n"))) return false;
  ++script.depth;
  execute_all(word, script);
  --script.depth;
  return true;
}

// The name of "NAME=..." or "NAME+=...".
std::optional<std::string> assigned_name(const std::string& word) {
  const std::size_t end = end_of_name(word, 0);
  const std::string rest = word.substr(end, 2);
  if (end == 0 || !(rest.starts_with("=") || rest == "+=")) return std::nullopt;
  return word.substr(0, end);
}

// "NAME=VALUE", "NAME+=VALUE", "NAME=(...)" at `at`; where the rest of the statement begins.
Tokens::const_iterator assign(Tokens::const_iterator at, Tokens::const_iterator end,
                              Script& script) {
  const std::string name = *assigned_name(at->text);
  const bool adds = at->text[name.size()] == '+';
  const std::string raw = at->text.substr(name.size() + (adds ? 2 : 1));
  ++at;
  if (raw.empty() && at != end && at->is_operator && at->text == "(") {
    ShellWords list = expanded_words(at, end, script);
    ShellWords& value = script.variables[name];
    if (!adds) value.clear();
    std::move(list.begin(), list.end(), std::back_inserter(value));
    return end;
  }
  std::string text = sim::joined(script.expanded(raw), " ");
  if (adds && script.variables.contains(name))
    text = sim::joined(script.variables[name], " ") + text;
  if (!execute_inner(text, script)) {
    script.budget.spend(text.size());
    script.commands.push_back(split_words(text));
  }
  script.variables[name] = {std::move(text)};
  return at;
}

// "${NAME:=value}" sets a variable wherever it stands.
void assign_default(const std::string& word, Script& script) {
  const std::size_t open = word.find("${");
  const std::size_t equals = word.find('=', open == std::string::npos ? word.size() : open);
  const std::size_t close = word.rfind('}');
  if (equals >= close || close == std::string::npos) return;
  std::string name = word.substr(open + 2, equals - open - 2);
  if (name.ends_with(':')) name.pop_back();
  const bool is_name = !name.empty() && end_of_name(name, 0) == name.size();
  if (is_name && !script.variables.contains(name))
    script.variables[name] = script.expanded(word.substr(equals + 1, close - equals - 1));
}

// Words before a command that change nothing here.
bool is_prefix(const std::string& word) {
  return word == "export" || word == "local" || word == "declare" || word == "then" ||
         word == "do" || word == "else";
}

void execute(const Tokens& statement, Script& script) {
  for (const ShellToken& token : statement) assign_default(token.text, script);
  // "NAME=VALUE COMMAND" runs the command too.
  auto at = statement.begin();
  while (at != statement.end() && (is_prefix(at->text) || assigned_name(at->text)))
    at = is_prefix(at->text) ? at + 1 : assign(at, statement.end(), script);
  if (at == statement.end()) return;
  ShellWords words;
  for (const std::string& word : expanded_words(at, statement.end(), script)) {
    if (execute_inner(word, script)) continue;
    for (std::string& part : split_words(word)) words.push_back(std::move(part));
  }
  script.commands.push_back(std::move(words));
}

// "if", "elif", "else" and "fi"; false for any other statement.
bool branches(const Tokens& statement, Script& script) {
  const std::string& word = statement.front().text;
  if (word != "if" && word != "elif" && word != "else" && word != "fi") return false;
  const Tokens rest(statement.begin() + 1, statement.end());
  if (word == "if") {
    if (script.branches.size() == kMostLevels)
      throw TooLarge("conditions lie in one another more than " + std::to_string(kMostLevels) +
                     " deep");
    const bool holds = condition_holds(rest, script);
    script.branches.push_back({holds, holds});
    return true;
  }
  if (script.branches.empty()) return false;
  Branch& branch = script.branches.back();
  if (word == "elif") branch.holds = !branch.taken && condition_holds(rest, script);
  if (word == "else") branch.holds = !branch.taken;
  if (word == "elif" || word == "else") branch.taken = branch.taken || branch.holds;
  if (word == "fi") script.branches.pop_back();
  return word == "elif" || word == "fi" || (word == "else" && rest.empty());
}

// "#SBATCH --nodes=4", "#SBATCH -N 4".
std::map<std::string, std::string> slurm_options(const std::string& script) {
  std::map<std::string, std::string> options;
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    const ShellWords words = split_words(line);
    if (words.size() < 2 || words[0] != "#SBATCH") continue;
    const std::string& option = words[1];
    const std::size_t equals = option.find('=');
    const std::string name = option.substr(0, equals);
    options[name.substr(std::min(name.find_first_not_of('-'), name.size()))] =
        equals != std::string::npos ? option.substr(equals + 1)
        : words.size() > 2          ? words[2]
                                    : "";
  }
  return options;
}

void execute_all(const std::string& text, Script& script) {
  Tokens statement;
  int depth = 0;
  for (const ShellToken& token : tokens_of(text + "\n", script.budget)) {
    if (token.is_operator && token.text == "(") ++depth;
    if (token.is_operator && token.text == ")") depth = std::max(0, depth - 1);
    const bool tests = !statement.empty() &&
                       (statement.front().text == "if" || statement.front().text == "elif") &&
                       (token.text == "&&" || token.text == "||");
    const bool ends =
        token.is_operator && depth == 0 && !tests && token.text != "(" && token.text != ")";
    if (!ends) {
      if (token.text != "\n") statement.push_back(token);
      if (token.is_operator || token.text != "else") continue;
    }
    if (!statement.empty() && !branches(statement, script) && script.runs())
      execute(statement, script);
    statement.clear();
  }
}

}  // namespace

std::vector<ShellWords> commands_of_script(const std::string& text,
                                           const ShellVariables& environment) {
  Script script{.variables = environment};
  execute_all(text, script);
  return script.commands;
}

int launcher_count(const std::string& text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number > 0 && number <= kMostDevices ? number : 0;
}

int launcher_devices(int nodes, int on_node) {
  const std::int64_t devices = std::int64_t{nodes} * on_node;
  return devices <= kMostDevices ? static_cast<int>(devices) : 0;
}

ShellVariables slurm_environment(const std::string& script) {
  const std::map<std::string, std::string> options = slurm_options(script);
  const auto number = [&](std::initializer_list<const char*> names) -> int {
    for (const char* name : names) {
      const auto found = options.find(name);
      if (found == options.end()) continue;
      const std::size_t colon = found->second.rfind(':');  // of "gpu:a100:4"
      return launcher_count(found->second.substr(colon == std::string::npos ? 0 : colon + 1));
    }
    return 0;
  };
  const int nodes = number({"nodes", "N"}), on_node = number({"ntasks-per-node"});
  const int stated = number({"ntasks", "n"});
  const int tasks = stated > 0 ? stated : launcher_devices(nodes, on_node);
  int gpus = number({"gpus-per-node", "gres"});
  if (gpus == 0) gpus = launcher_devices(number({"gpus-per-task"}), std::max(1, on_node));
  if (gpus == 0 && nodes > 0) gpus = number({"gpus", "G"}) / nodes;
  ShellVariables set;
  const auto put = [&](const char* name, int value) {
    if (value > 0) set[name] = {std::to_string(value)};
  };
  put("SLURM_NNODES", nodes), put("SLURM_JOB_NUM_NODES", nodes);
  put("SLURM_NTASKS", tasks), put("SLURM_NPROCS", tasks);
  put("SLURM_NTASKS_PER_NODE", on_node), put("SLURM_TASKS_PER_NODE", on_node);
  put("SLURM_GPUS_PER_NODE", gpus), put("SLURM_GPUS_ON_NODE", gpus);
  return set;
}

}  // namespace llmsim::hwdb
