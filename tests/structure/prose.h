// What a reader of a header stumbles over, found by rules: false uses of words, layout that a tool
// has broken, and words that only this project would understand.
#pragma once

#include <string>
#include <vector>

namespace llmsim::structure {

struct Complaint {
  int line = 0;      // from 1
  std::string what;  // the rule, with the words that break it
  bool operator==(const Complaint&) const = default;
};

// Words that a replacement by script has put in the wrong place: an outer product, an elementwise
// product and the product of a mesh are no GEMMs.
std::vector<Complaint> false_gemms(const std::string& text);

// The last line of a comment that has a single word although the line before it is full: what is
// left where a comment was broken into lines by a tool.
std::vector<Complaint> orphans(const std::string& text);

// Comments inside of a declaration or an initialiser, where the formatter puts them anywhere.
std::vector<Complaint> comments_in_declarations(const std::string& text);

// Private words in comments, and private identifiers; each is named with the word of the field.
std::vector<Complaint> private_words(const std::string& text);

// Lines of more than 100 columns.
std::vector<Complaint> long_lines(const std::string& text);

}  // namespace llmsim::structure
