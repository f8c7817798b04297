// Text made of words.
#pragma once

#include <string>
#include <vector>

namespace llmsim::sim {

// "a, b, c" with ", " between the words.
inline std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

}  // namespace llmsim::sim
