#include "hwdb/text/read_budget.h"

#include <string>

namespace llmsim::hwdb {

std::optional<std::size_t> too_deep_at(std::string_view json) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{'))
      ++depth;
    else if (!quoted && (c == ']' || c == '}'))
      --depth;
    if (depth > kMostLevels) return i;
  }
  return std::nullopt;
}

std::string too_deep_text() {
  return "objects and lists lie in one another more than " + std::to_string(kMostLevels) + " deep";
}

namespace {

constexpr std::size_t kMostMiBStoodFor = 8;
constexpr std::size_t kOfAnyPiece = 32;  // what holds even an empty one

}  // namespace

void ReadBudget::spend(std::size_t bytes) {
  spent_ += bytes + kOfAnyPiece;
  if (spent_ > kMostMiBStoodFor << 20)
    throw TooLarge("stands for more than " + std::to_string(kMostMiBStoodFor) +
                   " MiB of text, when its variables, references and aliases are followed");
}

ReadBudget::Level ReadBudget::deeper() {
  if (++levels_ > kMostLevels) {
    --levels_;
    throw TooLarge("brackets, maps or lists lie in one another more than " +
                   std::to_string(kMostLevels) + " deep");
  }
  return Level(*this);
}

}  // namespace llmsim::hwdb
