// A text as numbered lines, and the words and numbers of a line.
//
// Private to hwdb.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmsim::hwdb {

// Words refer to the text, which must outlive them.
using TextWords = std::vector<std::string_view>;

class BenchmarkText {
 public:
  // Lines end with a line feed, or with the carriage return of a line that is written anew.  What
  // launchers put in front ("[1,0]<stdout>:", "0: ") is no part of a line.  Throws Error for more
  // than two million lines.
  BenchmarkText(const std::string& text, std::string file);

  const std::string& text() const { return *text_; }
  const std::string& file() const { return file_; }
  const TextWords& lines() const { return lines_; }

  // Whether one of the first lines has these words.
  bool begins_with(std::string_view words) const;

  // "FILE:12: "; lines count from 0 here and from 1 there.
  std::string place(std::size_t line) const;
  [[noreturn]] void refuse(std::size_t line, const std::string& why) const;

 private:
  const std::string* text_;
  std::string file_;
  TextWords lines_;
};

std::string_view trimmed(std::string_view text);
// The first 4096 words of a line: no table has as many.
TextWords words_of(std::string_view line);
// As many fields between commas, trimmed; in double quotes a comma is a part of its field.
TextWords comma_fields(std::string_view line);
// A text of a file as a message shows it: printable, and not long.
std::string shown_text(std::string_view text);

// A number that is the whole word; none for another word and for one that is not finite.
std::optional<double> number_in(std::string_view word);
// The same with a unit behind it and a bracket in front: "1980 MHz", "(2100Mhz)", "98 %".
std::optional<double> number_with_unit(std::string_view field);

// A value with the range in which it can be meant.
struct ValueRange {
  const char* name;
  double least, most;
  const char* unit;
};

// The number of a word.  Throws Error naming file, line and range for a word that is none or lies
// outside of it.
double value_of(const BenchmarkText& text, std::size_t line, std::string_view word,
                const ValueRange& range);

// The same of a number that is known already.
double checked(const BenchmarkText& text, std::size_t line, double value, const ValueRange& range);

}  // namespace llmsim::hwdb
