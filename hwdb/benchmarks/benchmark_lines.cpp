#include "hwdb/benchmarks/benchmark_lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

constexpr std::size_t kMostLines = 2'000'000;
constexpr std::size_t kFirstLines = 200;  // in which a program says what it is
constexpr std::size_t kShown = 40;
constexpr std::size_t kLongestUnit = 8;
constexpr std::size_t kMostFields = 4096;

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// "[1,0]<stdout>:" of mpirun --tag-output, "12: " of srun --label.
std::string_view without_label(std::string_view line) {
  constexpr std::string_view kTag = "<stdout>:";
  if (line.starts_with('[')) {
    const std::size_t tag = line.find(kTag);
    if (tag != std::string_view::npos) return line.substr(tag + kTag.size());
  }
  const auto end = std::find_if_not(line.begin(), line.end(), is_digit);
  const auto digits = static_cast<std::size_t>(end - line.begin());
  return digits > 0 && line.substr(digits).starts_with(": ") ? line.substr(digits + 2) : line;
}

}  // namespace

BenchmarkText::BenchmarkText(const std::string& text, std::string file)
    : text_(&text), file_(std::move(file)) {
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // a mark of UTF-8
  while (!rest.empty()) {
    const std::size_t end = rest.find_first_of("\r\n");
    if (lines_.size() == kMostLines)
      throw Error(file_ + ": more than two million lines; a shorter file is expected");
    lines_.push_back(without_label(rest.substr(0, end)));
    if (end == std::string_view::npos) return;
    const std::size_t length = rest.substr(end).starts_with("\r\n") ? 2 : 1;
    rest.remove_prefix(end + length);
  }
}

bool BenchmarkText::begins_with(std::string_view words) const {
  const std::size_t first = std::min(lines_.size(), kFirstLines);
  return std::any_of(lines_.begin(), lines_.begin() + static_cast<std::ptrdiff_t>(first),
                     [&](std::string_view line) { return line.find(words) != line.npos; });
}

std::string BenchmarkText::place(std::size_t line) const {
  return file_ + ":" + std::to_string(line + 1) + ": ";
}

void BenchmarkText::refuse(std::size_t line, const std::string& why) const {
  throw Error(place(line) + why);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

TextWords words_of(std::string_view line) {
  TextWords words;
  for (line = trimmed(line); !line.empty() && words.size() < kMostFields; line = trimmed(line)) {
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

TextWords comma_fields(std::string_view line) {
  TextWords fields;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= line.size() && fields.size() < kMostFields; ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    if (i < line.size() && (line[i] != ',' || quoted)) continue;
    std::string_view field = trimmed(line.substr(begin, i - begin));
    if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
      field = field.substr(1, field.size() - 2);
    fields.push_back(field);
    begin = i + 1;
  }
  return fields;
}

std::string shown_text(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kShown)) shown += c >= ' ' && c <= '~' ? c : '?';
  return text.size() > kShown ? shown + "..." : shown;
}

std::optional<double> number_in(std::string_view word) {
  double value = 0.0;
  const char* const end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || at != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> number_with_unit(std::string_view field) {
  field = trimmed(field);
  if (field.starts_with('(')) field.remove_prefix(1);
  double value = 0.0;
  const auto [at, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  const std::string_view unit = field.substr(static_cast<std::size_t>(at - field.data()));
  const bool is_unit = unit.size() <= kLongestUnit &&
                       std::none_of(unit.begin(), unit.end(),
                                    [](char c) { return is_digit(c) || c == '.' || c == '-'; });
  return is_unit ? std::optional(value) : std::nullopt;
}

double checked(const BenchmarkText& text, std::size_t line, double value, const ValueRange& range) {
  if (!(value >= range.least && value <= range.most))
    text.refuse(line, fmt::format("{} = {:g}: {:g} to {:g}{}{} is expected", range.name, value,
                                  range.least, range.most, *range.unit ? " " : "", range.unit));
  return value;
}

double value_of(const BenchmarkText& text, std::size_t line, std::string_view word,
                const ValueRange& range) {
  const auto value = number_in(word);
  if (!value)
    text.refuse(line, fmt::format("{} = {}: a number of {:g} to {:g}{}{} is expected", range.name,
                                  shown_text(word), range.least, range.most, *range.unit ? " " : "",
                                  range.unit));
  return checked(text, line, *value, range);
}

}  // namespace llmsim::hwdb
