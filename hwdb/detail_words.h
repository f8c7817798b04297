// Settings that a run's record states in its free words: "megatron-core; etp=1; overlap_param_gather=false".
//
// Private to hwdb.
#pragma once

#include <optional>
#include <string>

namespace llmsim::hwdb {

// What stands behind `name=`, up to the next blank, comma or semicolon.  A longer name that ends with it is another one.
std::optional<std::string> word_after(const std::string& text, const std::string& name);

// The same where it is "true" or "false"; none for any other word.
std::optional<bool> switch_after(const std::string& text, const std::string& name);

}  // namespace llmsim::hwdb
