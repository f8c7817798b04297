#include "hwdb/detail_words.h"

namespace llmsim::hwdb {

std::optional<std::string> word_after(const std::string& text, const std::string& name) {
  const std::string key = name + "=";
  std::size_t found = text.find(key);
  while (found != std::string::npos && found > 0 && text[found - 1] != ' ' && text[found - 1] != ';')
    found = text.find(key, found + 1);
  if (found == std::string::npos) return std::nullopt;
  const std::size_t start = found + key.size();
  return text.substr(start, text.find_first_of("; ,", start) - start);
}

std::optional<bool> switch_after(const std::string& text, const std::string& name) {
  const std::optional<std::string> word = word_after(text, name);
  if (word == "true") return true;
  return word == "false" ? std::optional(false) : std::nullopt;
}

}  // namespace llmsim::hwdb
