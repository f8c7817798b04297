#include "sim/run.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace llmsim::sim {

std::string text_of(const SettingValue& value) {
  if (const bool* const on = std::get_if<bool>(&value)) return *on ? "true" : "false";
  if (const std::string* const word = std::get_if<std::string>(&value)) return *word;
  const double number = std::get<double>(value);
  constexpr double kExact = 1e15;
  if (number == std::floor(number) && std::abs(number) < kExact) return std::to_string(static_cast<std::int64_t>(number));
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

int trained_vocab_size(const Run& run) {
  return padded_vocab_size(run.model.vocab_size, run.framework.vocab_multiple, run.strategy.tensor_parallel);
}

}  // namespace llmsim::sim
