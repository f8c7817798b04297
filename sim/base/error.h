// The one exception of the project: input that the user can fix.
#pragma once

#include <stdexcept>
#include <string>

namespace llmsim {

// Thrown for a file, name, option or value that the user can correct.  The message is one line that names the field, its
// value and what would be right: "tp = 3 does not divide num_heads = 64".  Caught once, in main.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

}  // namespace llmsim
