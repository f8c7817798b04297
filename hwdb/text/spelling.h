// How names are compared, and suggestions for misspelled ones: "did you mean".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmsim::hwdb {

// The form in which names are compared: lower case, '_' for '-' and ' '.
std::string folded(std::string_view name);

// Insertions, deletions and substitutions of one character that turn `a` into `b` (Levenshtein).
int edit_distance(std::string_view a, std::string_view b);

// How far a candidate is from what was typed: the edit distance, or less than 0 for one that goes
// on as a name of three letters or more begins, the shortest of them least.
int misspelling(std::string_view name, std::string_view candidate);

// The candidate that is the smallest misspelling(), the first of equals; none where even
// that one differs in more than half of the longer word.
std::optional<std::string> nearest(std::string_view name,
                                   const std::vector<std::string>& candidates);

// "; did you mean llama-7b, llama-13b?", or nothing where nothing is near.
std::string did_you_mean(const std::vector<std::string>& near);

// "; did you mean hidden_size?", or nothing where no candidate is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace llmsim::hwdb
