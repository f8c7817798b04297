#include "calibrate/logged_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace llmsim::calibrate {
namespace {

bool decimal_digit(char c) { return c >= '0' && c <= '9'; }
bool ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether a comma at `at` separates thousands: three digits follow it, and no fourth.
bool separates_thousands(std::string_view text, std::size_t at) {
  if (at == 0 || !decimal_digit(text[at - 1]) || at + 3 >= text.size()) return false;
  const bool three =
      decimal_digit(text[at + 1]) && decimal_digit(text[at + 2]) && decimal_digit(text[at + 3]);
  return three && (at + 4 == text.size() || !decimal_digit(text[at + 4]));
}

constexpr std::size_t kLongestNumber = 48;

// Digits, point and exponent, without separators of thousands; `length` is that in `text`.
struct Digits {
  std::string text;
  std::size_t length = 0;
  int decimals = 0;
};

Digits digits_at(std::string_view text) {
  Digits digits;
  bool point = false;
  for (std::size_t i = 0; i < std::min(text.size(), kLongestNumber); ++i) {
    const char c = text[i];
    if (c == ',' && !point && separates_thousands(text, i)) continue;
    if (c == '.' && point) break;
    if (c != '.' && !decimal_digit(c)) break;
    if (point) ++digits.decimals;
    point = point || c == '.';
    digits.text += c;
    digits.length = i + 1;
  }
  return digits;
}

// "e-05": appends it and counts its decimals.
void add_exponent(std::string_view text, Digits& digits) {
  std::string_view rest = text.substr(digits.length);
  if (rest.empty() || (rest[0] != 'e' && rest[0] != 'E')) return;
  std::size_t i = 1;
  const bool negative = i < rest.size() && rest[i] == '-';
  if (i < rest.size() && (rest[i] == '-' || rest[i] == '+')) ++i;
  const std::size_t begin = i;
  while (i < rest.size() && i < begin + 3 && decimal_digit(rest[i])) ++i;
  if (i == begin) return;
  const int exponent = std::stoi(std::string(rest.substr(begin, i - begin)));
  digits.text += (negative ? "e-" : "e+") + std::to_string(exponent);
  digits.decimals += negative ? exponent : -exponent;
  digits.length += i;
}

// What the letters behind a number multiply it by; the unit of the field where they say nothing.
double unit_behind(std::string_view text, double unit) {
  const bool blank = text.starts_with(' ');
  const std::string_view suffix = text.substr(blank ? 1 : 0);
  if (suffix.empty()) return unit;
  if (suffix[0] == '%') return 0.01;
  constexpr std::string_view kBinary = "KMGT";
  const std::size_t power = kBinary.find(suffix[0]);
  if (power != std::string_view::npos && suffix.substr(1).starts_with("iB"))
    return std::pow(1024.0, static_cast<double>(power) + 1.0);
  if (blank || (suffix.size() > 1 && (ascii_letter(suffix[1]) || decimal_digit(suffix[1]))))
    return unit;
  switch (suffix[0]) {
    case 'K': return unit * 1e3;
    case 'M': return unit * 1e6;
    case 'B':
    case 'G': return unit * 1e9;
    case 'T': return unit * 1e12;
    default: return unit;
  }
}

}  // namespace

std::optional<Reading> reading_at(std::string_view text, double unit) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  Digits digits = digits_at(text);
  add_exponent(text, digits);
  double value = 0.0;
  const char* const end = digits.text.data() + digits.text.size();
  const auto [stop, error] = std::from_chars(digits.text.data(), end, value);
  if (digits.text.empty() || error != std::errc() || stop != end) return std::nullopt;
  const double size = unit_behind(text.substr(digits.length), unit);
  const Reading reading{.value = (negative ? -value : value) * size,
                        .rounding = 0.5 * std::pow(10.0, -digits.decimals) * size};
  if (!std::isfinite(reading.value) || !std::isfinite(reading.rounding)) return std::nullopt;
  return reading;
}

}  // namespace llmsim::calibrate
