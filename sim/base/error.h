// The one exception of the project, input that the user can fix, and the words of its messages.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace llmsim {

// Thrown for a file, name, option or value that the user can correct.  The message is one line that
// names the field, its value and what would be right: "tp = 3 does not divide num_heads = 64".
// Caught once, in main.
//
// Names and values in it may come from anyone's file: what would move a terminal's cursor or colour
// it (C0 and C1 control characters, DEL) stands as "?", a line feed or tab as a blank.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(printable(message)) {}

  static std::string printable(std::string text);
};

}  // namespace llmsim

namespace llmsim::sim {

// "a, b, c" with ", " between the words.
inline std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

// "a, b or c".
inline std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

}  // namespace llmsim::sim
