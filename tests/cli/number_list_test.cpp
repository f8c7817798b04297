#include "cli/number_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

using List = std::vector<int>;
constexpr NumberRange k64{.least = 1, .most = 64};

List numbers(const std::string& text) { return numbers_in("--tp", text, k64); }

TEST(NumbersIn, ReadsListsAndRanges) {
  EXPECT_EQ(numbers("8"), (List{8}));
  EXPECT_EQ(numbers("1,2,4"), (List{1, 2, 4}));
  EXPECT_EQ(numbers("3-5"), (List{3, 4, 5}));
  EXPECT_EQ(numbers("1-16*2"), (List{1, 2, 4, 8, 16}));
  EXPECT_EQ(numbers("1-15*2"), (List{1, 2, 4, 8}));
  EXPECT_EQ(numbers("8-32+8"), (List{8, 16, 24, 32}));
  EXPECT_EQ(numbers("4-4"), (List{4}));
}

TEST(NumbersIn, SortsAndDropsRepetitions) { EXPECT_EQ(numbers("4,1-4*2,2"), (List{1, 2, 4})); }

TEST(NumbersIn, NamesOptionTextAndRange) {
  try {
    numbers("1,x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "--tp = 1,x: a list such as 1,2,4 or a range such as 1-16*2 of whole numbers from "
                 "1 to 64 is expected");
  }
}

TEST(NumbersIn, RefusesWhatIsNoList) {
  for (const char* text : {"",
                           ",",
                           "1,",
                           ",1",
                           "0",
                           "-1",
                           "65",
                           "1-65",
                           "5-3",
                           "1-8*1",
                           "1-8*0",
                           "1-8+0",
                           "1-8*-2",
                           "1--8",
                           "1-",
                           "-",
                           "1.5",
                           "1e3",
                           " 1",
                           "0x10",
                           "1-8*",
                           "1-8*2*2",
                           "99999999999999999999",
                           "+3",
                           "1;2"}) {
    EXPECT_THROW(numbers(text), Error) << text;
  }
}

TEST(NumbersIn, RefusesTooLongLists) {
  EXPECT_EQ(numbers_in("--dp", "1-4096", {.least = 1, .most = 1 << 20}).size(), 4096u);
  EXPECT_THROW(numbers_in("--dp", "1-4097", {.least = 1, .most = 1 << 20}), Error);
}

TEST(NumbersIn, DoesNotOverflowAtTheLargestNumber) {
  constexpr int most = 2147483647;
  EXPECT_EQ(numbers_in("--n", "2147483646-2147483647", {.least = 1, .most = most}),
            (List{most - 1, most}));
  EXPECT_EQ(numbers_in("--n", "1-2147483647*2147483647", {.least = 1, .most = most}),
            (List{1, most}));
}

// Any text of the characters that matter gives either an Error or an ascending list within the
// range.
TEST(NumbersIn, HoldsItsPromiseForRandomText) {
  std::mt19937 random(7);
  const std::string alphabet = "0123456789,,--*+x ";
  std::size_t accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    std::string text(random() % 8, '0');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    try {
      const List list = numbers(text);
      ++accepted;
      ASSERT_FALSE(list.empty()) << text;
      ASSERT_TRUE(std::is_sorted(list.begin(), list.end(), std::less_equal<>())) << text;
      ASSERT_GE(list.front(), k64.least) << text;
      ASSERT_LE(list.back(), k64.most) << text;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(accepted, 1000u);
}

TEST(NumberIn, TakesOneNumberOfTheRange) {
  EXPECT_EQ(number_in("--gpus", "256", {.least = 1, .most = 1 << 20}), 256);
  for (const char* text : {"0", "-1", "1e12", "1000000000000", "1,2", "", "256 ", "2.0"}) {
    EXPECT_THROW(number_in("--gpus", text, {.least = 1, .most = 1 << 20}), Error) << text;
  }
}

}  // namespace
}  // namespace llmsim::cli
