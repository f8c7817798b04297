#include "sim/base/number_text.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

std::string of_the_library(double number) {
  std::array<char, 400> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

TEST(ShortestText, IsThatOfTheStandardLibrary) {
  for (const double number : {0.0, 1.0, -2.5, 0.1, 1.0 / 3.0, 1e5, 1.5e6, 123456.0, 1e15, 1e20,
                              3.35e12, 1e-5, 1e-300, 1.7976931348623157e308, 5e-324})
    EXPECT_EQ(shortest_text(number), of_the_library(number));
}

TEST(ShortestText, IsThatOfTheStandardLibraryForAnyBits) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const double number = std::bit_cast<double>(std::uint64_t{random()});
    if (!std::isfinite(number)) continue;
    EXPECT_EQ(shortest_text(number), of_the_library(number));
  }
}

TEST(NumberFrom, TakesTheWholeOfAText) {
  EXPECT_EQ(number_from("0.1"), 0.1);
  EXPECT_EQ(number_from("-1e+20"), -1e20);
  for (const char* text : {"", "1 GB", "1e", "one", "nan", "inf", "1e999"})
    EXPECT_EQ(number_from(text), std::nullopt) << text;
  EXPECT_EQ(number_from(std::string("1\0", 2)), std::nullopt);
}

TEST(NumberFrom, UndoesTheShortestText) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    const double number = std::bit_cast<double>(std::uint64_t{random()});
    if (std::isfinite(number)) {
      EXPECT_EQ(number_from(shortest_text(number)), number);
    }
  }
}

}  // namespace
}  // namespace llmsim::sim
