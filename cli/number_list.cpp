#include "cli/number_list.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/number_text.h"

namespace llmsim::cli {
namespace {

constexpr std::size_t kMostNumbers = 4096;

// Parts of one item: first, last and how to step from one to the other.
struct Item {
  std::int64_t first = 0;
  std::int64_t last = 0;
  bool multiplies = false;
  std::int64_t step = 1;
};

[[noreturn]] void refuse_number(const std::string& option, const std::string& text,
                                NumberRange range, const std::string& what) {
  throw Error(option + " = " + text + ": " + what + " from " + std::to_string(range.least) +
              " to " + std::to_string(range.most) + " is expected");
}

// What a number ends with: "8k" is 8,192, "4M" 4,194,304.
std::int64_t size_of_suffix(std::string_view text) {
  if (text.size() < 2) return 1;
  switch (text.back()) {
    case 'k':
    case 'K': return std::int64_t{1} << 10;
    case 'M': return std::int64_t{1} << 20;
    default: return 1;
  }
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 42;  // with a suffix
  const std::int64_t size = size_of_suffix(text);
  if (size > 1) text.remove_suffix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (size > 1 && (value > kMost || value < -kMost)) return std::nullopt;
  return value * size;
}

// One number, or a range "A-B", "A-B*K" or "A-B+K", whose dash is not the sign of A.
std::optional<Item> item_in(std::string_view text) {
  if (const std::optional<std::int64_t> one = whole_number(text))
    return Item{.first = *one, .last = *one};
  const std::size_t dash = text.find('-', 1);
  if (dash == std::string_view::npos) return std::nullopt;
  const std::size_t sign = text.find_first_of("*+", dash);
  const std::optional<std::int64_t> first = whole_number(text.substr(0, dash));
  const std::optional<std::int64_t> last =
      whole_number(text.substr(dash + 1, sign == text.npos ? sign : sign - dash - 1));
  const std::optional<std::int64_t> step =
      sign == text.npos ? 1 : whole_number(text.substr(sign + 1));
  if (!first || !last || !step) return std::nullopt;
  return Item{.first = *first,
              .last = *last,
              .multiplies = sign != text.npos && text[sign] == '*',
              .step = *step};
}

}  // namespace

std::vector<int> numbers_in(const std::string& option, const std::string& text, NumberRange range) {
  std::vector<int> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::optional<Item> item = item_in(std::string_view(text).substr(begin, comma - begin));
    begin = comma + 1;
    if (!item || item->first > item->last || item->step < (item->multiplies ? 2 : 1))
      refuse_number(option, text, range,
                    "a list such as 1,2,4 or a range such as 1-16*2 of whole numbers");
    if (item->first < range.least || item->last > range.most)
      refuse_number(option, text, range, "every number");
    for (std::int64_t value = item->first; value <= item->last;) {
      if (numbers.size() == kMostNumbers) {
        throw Error(option + " = " + text + ": at most " + std::to_string(kMostNumbers) +
                    " numbers are taken");
      }
      numbers.push_back(static_cast<int>(value));
      const bool leaves =
          item->multiplies ? value > item->last / item->step : item->step > item->last - value;
      if (leaves) break;
      value = item->multiplies ? value * item->step : value + item->step;
    }
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::int64_t number_in(const std::string& option, const std::string& text, NumberRange range) {
  const std::optional<std::int64_t> value = whole_number(text);
  if (!value || *value < range.least || *value > range.most)
    refuse_number(option, text, range, "one whole number");
  return *value;
}

std::vector<std::string> number_texts_in(const std::string& option, const std::string& text,
                                         NumberRange range) {
  std::vector<std::string> texts;
  for (const int number : numbers_in(option, text, range)) texts.push_back(std::to_string(number));
  return texts;
}

std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

std::vector<std::string> names_in(const std::string& option, const std::string& text) {
  std::vector<std::string> names = words_in(text);
  if (std::ranges::count(names, "") > 0)
    throw Error(option + " = " + text + ": an empty name in the list");
  return names;
}

CLI::Validator finite_range(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    const std::optional<double> value = sim::number_from(text);
    const bool right = value && *value >= least && *value <= most;
    return right ? ""
                 : fmt::format("{}: a number from {:g} to {:g} is expected", text, least, most);
  };
  return {check, ""};  // the help says it in its text
}

}  // namespace llmsim::cli
