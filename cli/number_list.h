// Numbers on the command line: one, a list, or a range; and lists of words.
//
//   8           one number
//   1,2,4       a list
//   1-4         1 2 3 4
//   1-16*2      1 2 4 8 16    (each twice the one before)
//   8-32+8      8 16 24 32
//
// Lists may mix all forms: "1,2,8-32+8".  "8k" is 8,192 and "4M" 4,194,304.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace llmsim::cli {

// What an option accepts, both ends included.
struct NumberRange {
  std::int64_t least = 1;
  std::int64_t most = 1;
};

// The numbers in `text`, ascending and without repetition.  Throws Error naming `option`, the text
// and the valid range, also for lists of more than 4096 numbers.
std::vector<int> numbers_in(const std::string& option, const std::string& text, NumberRange range);

// The same for an option that takes one number only.
std::int64_t number_in(const std::string& option, const std::string& text, NumberRange range);

// The numbers in `text` as texts.
std::vector<std::string> number_texts_in(const std::string& option, const std::string& text,
                                         NumberRange range);

// "a,b" as "a" and "b"; nothing stands behind a last comma.
std::vector<std::string> words_in(const std::string& text);

// The same; throws Error naming `option` for an empty word.
std::vector<std::string> names_in(const std::string& option, const std::string& text);

// Checks an option that is no whole number: finite, and in the range.  (CLI::Range takes nan for a
// number in every range.)
CLI::Validator finite_range(double least, double most);

}  // namespace llmsim::cli
