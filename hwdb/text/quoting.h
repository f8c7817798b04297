// Texts that may come from anyone, as they stand in a file of another language: read there, each is
// the same text again, and never a command, a key or a line of its own.
//
// Private to hwdb and cli.
#pragma once

#include <string>

namespace llmsim::hwdb {

// One word of a shell (POSIX): bare where no character of it means anything, else in single quotes.
std::string shell_quoted(const std::string& text);

// A string of TOML, a basic one, and of YAML: in single quotes, or in double ones where it has
// characters that those cannot hold.
std::string toml_quoted(const std::string& text);
std::string yaml_quoted(const std::string& text);

// A part of a comment that ends with its line, of a shell, TOML, YAML or Python: control
// characters and what turns the direction of writing stand as "?" or blanks.
std::string comment_text(const std::string& text);

}  // namespace llmsim::hwdb
