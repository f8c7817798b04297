#include "cli/listed_options.h"

#include <filesystem>
#include <sstream>

#include "cli/number_list.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

constexpr NumberRange kAnyNumber{1, 1 << 24};

std::string* given(std::optional<std::string>& text) { return text ? &*text : nullptr; }

std::string* field(RunOptions& options, const char* key) {
  const auto found = options.strategy.find(key);
  return found == options.strategy.end() ? nullptr : &found->second;
}

// In the order in which questions differ; the last one fastest.
constexpr ListedOption kListed[] = {
    {"model", [](RunOptions& o) { return &o.model; }},
    {"system", [](RunOptions& o) { return given(o.system); }},
    {"hardware", [](RunOptions& o) { return given(o.hardware); }},
    {"framework", [](RunOptions& o) { return given(o.framework); }},
    {"precision", [](RunOptions& o) { return field(o, "precision"); }},
    {"optimizer", [](RunOptions& o) { return field(o, "optimizer"); }},
    {"lora", [](RunOptions& o) { return given(o.lora); }, true},
    {"seq_len", [](RunOptions& o) { return given(o.seq_len); }, true},
    {"document_len", [](RunOptions& o) { return given(o.document_len); }, true},
    {"global_batch", [](RunOptions& o) { return given(o.global_batch); }, true},
    {"gpus", [](RunOptions& o) { return given(o.gpus); }, true},
};

}  // namespace

std::span<const ListedOption> listed_options() { return kListed; }

std::string option_of(const ListedOption& listed) {
  std::string option = std::string("--") + listed.key;
  for (char& c : option) c = c == '_' ? '-' : c;
  return option;
}

std::vector<std::string> values_of(const ListedOption& listed, const std::string& text) {
  const bool is_list = text.find_first_of(listed.numbers ? ",-*+" : ",") != std::string::npos;
  if (!is_list || std::filesystem::exists(text)) return {text};
  std::vector<std::string> values;
  if (listed.numbers) {
    for (const int number : numbers_in(option_of(listed), text, kAnyNumber))
      values.push_back(std::to_string(number));
    return values;
  }
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    if (part.empty()) throw Error(option_of(listed) + " = " + text + ": an empty name in the list");
    values.push_back(part);
  }
  return values;
}

}  // namespace llmsim::cli
