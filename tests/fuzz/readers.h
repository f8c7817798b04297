// What reads bytes that strangers wrote, each as one function of a text.
//
// fuzz.cpp gives them what libFuzzer makes up, replay_test.cpp what it once found.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace llmsim::fuzz {

struct Reader {
  std::string name;  // of the folder with its texts, corpus/NAME
  void (*read)(const std::string& text);
};

const std::vector<Reader>& readers();

// What is wrong with how a text was read: an exception of a library, or a message that no person
// should see (control characters, a library's own words).  None where it was read or refused well.
std::optional<std::string> fault_of(const Reader& reader, const std::string& text);

}  // namespace llmsim::fuzz
