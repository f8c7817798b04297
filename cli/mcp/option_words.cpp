#include "cli/mcp/option_words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::cli::mcp {
namespace {

namespace fs = std::filesystem;

// What tools do not do: they write no files, and they answer in one form from one database.
constexpr std::array kForbidden{"output", "format", "export", "to",      "force",
                                "space",  "db",     "help",   "help-all"};

std::string dashed(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string underscored(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool is_forbidden(const CLI::Option& option) {
  return std::ranges::any_of(
      kForbidden, [&](const char* name) { return is_one_of(option.get_lnames(), name); });
}

bool is_switch(const CLI::Option& option) { return option.get_expected_max() == 0; }

// How a switch says no: "no-flash"; empty where it cannot.
std::string negative_of(const CLI::Option& option) {
  return option.get_fnames().empty() ? "" : option.get_fnames().front();
}

// Which files a value may name: all of it, or each part of a list.
bool names_files(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const bool is_file = type.find("FILE") != std::string::npos ||
                       type.find("DIR") != std::string::npos ||
                       type.find("PATH") != std::string::npos;
  return is_file || is_one_of(option.get_lnames(), "model");
}

void check_files(const CLI::Option& option, const std::string& name, const std::string& value,
                 const ReadableFiles& files) {
  if (!names_files(option)) return;
  check_readable(name, value, files);
  for (std::size_t from = 0; from <= value.size();) {
    const std::size_t to = std::min(value.find(',', from), value.size());
    check_readable(name, value.substr(from, to - from), files);
    from = to + 1;
  }
}

// A name that the command has, with its value; those of switches have none.
std::string checked_word(const CLI::App& command, const std::string& name,
                         const std::optional<std::string>& value, const ReadableFiles& files) {
  const CLI::Option& option = option_of(command, name);
  const std::string word = "--" + dashed(name);
  if (is_switch(option)) {
    if (value) throw Error(name + " = " + *value + ": a switch has no value");
    return word;
  }
  if (!value) throw Error(name + ": a value is expected");
  check_files(option, name, *value, files);
  return word + "=" + *value;
}

// The example of an option's help where it is that option and a value alone: "llama-70b" of
// "...; example: --model llama-70b".
std::optional<std::string> example_of(const CLI::Option& option) {
  const std::string help = option.get_description();
  for (const std::string& name : option.get_lnames()) {
    const std::string before = "; example: --" + name + " ";
    const std::size_t at = help.find(before);
    if (at == std::string::npos) continue;
    const std::string value = help.substr(at + before.size());
    if (value.find(' ') == std::string::npos) return value;
  }
  return std::nullopt;
}

// The help without the example.
std::string meaning_of(const CLI::Option& option) {
  const std::string help = option.get_description();
  return help.substr(0, help.find("; example: "));
}

}  // namespace

void check_readable(const std::string& name, const std::string& path, const ReadableFiles& files) {
  if (!files.below) return;
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(*files.below, error);
  const fs::path whole = fs::weakly_canonical(*files.below / path, error);
  const auto [end, unused] =
      std::mismatch(folder.begin(), folder.end(), whole.begin(), whole.end());
  if (error || end != folder.end())
    throw Error(name + " = " + Error::printable(path) + ": " + files.expected);
}

const CLI::Option& option_of(const CLI::App& command, const std::string& name) {
  const CLI::Option* const option = command.get_option_no_throw("--" + dashed(name));
  if (option && is_forbidden(*option))
    throw Error(name + ": tools write no files and have one form of answer");
  if (option) return *option;
  std::vector<std::string> names;
  for (const CLI::Option* known : command.get_options())
    for (const std::string& spelling : known->get_lnames())
      if (!is_forbidden(*known)) names.push_back(underscored(spelling));
  throw Error(Error::printable(name) + ": unknown argument" +
              hwdb::did_you_mean(underscored(name), names));
}

std::string value_text(const std::string& name, const Json& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float() && std::abs(value.get<double>()) < kExact &&
      value.get<double>() == std::floor(value.get<double>()))
    return std::to_string(value.get<std::int64_t>());
  if (value.is_number()) return value.dump();
  if (!value.is_array() || value.empty())
    throw Error(name + " = " + line_of(value) + ": a text, a number or a list is expected");
  std::string list;
  for (const Json& part : value) {
    if (part.is_array()) throw Error(name + ": a list of texts or numbers is expected");
    list += (list.empty() ? "" : ",") + value_text(name, part);
  }
  return list;
}

std::optional<std::string> word_of(const CLI::App& command, const std::string& name,
                                   const Json& value, const ReadableFiles& files) {
  const CLI::Option& option = option_of(command, name);
  if (value.is_null()) return std::nullopt;
  if (!is_switch(option)) return checked_word(command, name, value_text(name, value), files);
  if (!value.is_boolean())
    throw Error(name + " = " + line_of(value) + ": true or false is expected");
  if (value.get<bool>()) return checked_word(command, name, std::nullopt, files);
  const std::string negative = negative_of(option);
  return negative.empty() ? std::nullopt : std::optional("--" + negative);
}

std::vector<std::string> words_of(const CLI::App& command, const Json& words,
                                  const ReadableFiles& files) {
  const auto is_text = [](const Json& word) { return word.is_string(); };
  if (!words.is_array() || !std::ranges::all_of(words, is_text))
    throw Error("options: a list of words is expected, such as [\"--tp\", \"4\"]");
  std::vector<std::string> checked;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i].get<std::string>();
    if (!word.starts_with("--"))
      throw Error("options: " + Error::printable(word) + ": an option is expected, such as --tp");
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::optional<std::string> value;
    if (equals != std::string::npos)
      value = word.substr(equals + 1);
    else if (!is_switch(option_of(command, name)) && i + 1 < words.size())
      value = words[++i].get<std::string>();
    checked.push_back(checked_word(command, name, value, files));
  }
  return checked;
}

Json argument_schema(const CLI::Option& option) {
  if (is_switch(option)) return {{"type", "boolean"}, {"description", meaning_of(option)}};
  const std::string unit = option.get_type_name();
  const std::optional<std::string> example = example_of(option);
  Json schema{{"type", {"string", "number", "array"}},
              {"items", {{"type", {"string", "number"}}}},
              {"description", (example ? meaning_of(option) : option.get_description()) +
                                  (unit.empty() ? "" : " (" + unit + ")")}};
  if (example) schema["examples"] = Json::array({*example});
  return schema;
}

}  // namespace llmsim::cli::mcp
