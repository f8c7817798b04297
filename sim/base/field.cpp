#include "sim/base/field.h"

#include <algorithm>

#include "sim/base/number_text.h"

namespace llmsim::sim {
namespace {

// The shortest text that reads back as the same number.
std::string number_text(double number) {
  constexpr double kExact = 1e15;
  if (number == std::floor(number) && std::abs(number) < kExact)
    return std::to_string(static_cast<std::int64_t>(number));
  return shortest_text(number);
}

struct TextOf {
  std::string operator()(bool on) const { return on ? "true" : "false"; }
  std::string operator()(std::int64_t count) const { return std::to_string(count); }
  std::string operator()(double number) const { return number_text(number); }
  std::string operator()(const std::string& word) const { return word; }
  std::string operator()(const Words& words) const { return joined(words, "+"); }
  std::string operator()(const std::vector<int>& counts) const {
    Words texts;
    for (const int count : counts) texts.push_back(std::to_string(count));
    return joined(texts, ",");
  }
};

}  // namespace

std::string text_of(const FieldValue& value) { return std::visit(TextOf{}, value); }

std::optional<double> number_of(const FieldValue& value) {
  if (const double* const number = std::get_if<double>(&value)) return *number;
  if (const std::int64_t* const count = std::get_if<std::int64_t>(&value))
    return static_cast<double>(*count);
  return std::nullopt;
}

bool in_range(const FieldValue& value, double least, double most) {
  const auto lies = [=](double number) { return number >= least && number <= most; };
  if (const auto* const counts = std::get_if<std::vector<int>>(&value))
    return std::all_of(counts->begin(), counts->end(), lies);
  const std::optional<double> number = number_of(value);
  return !number || lies(*number);
}

std::string expected_values(FieldKind kind, const Words& words, double least, double most) {
  const std::string range = std::isfinite(most)
                                ? " from " + number_text(least) + " to " + number_text(most)
                                : " of at least " + number_text(least);
  switch (kind) {
    case FieldKind::Switch: return "true or false";
    case FieldKind::Count: return "an integer" + range;
    case FieldKind::Number: return "a number" + range;
    case FieldKind::Counts: return "a list of integers" + range;
    case FieldKind::Word: return words.empty() ? "a text" : alternatives(words);
    case FieldKind::Names:
      return words.empty() ? "a list of texts" : "some of " + joined(words, ", ");
  }
  return "";
}

}  // namespace llmsim::sim
