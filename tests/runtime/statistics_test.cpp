#include "runtime/measure/statistics.h"

#include <gtest/gtest.h>

#include "runtime/measure/results.h"

namespace llmsim::runtime {
namespace {

using sim::Seconds;

TEST(Statistics, MedianAndSpreadByHand) {
  // Deviations from 4: 3, 2, 0, 1, 96; their median is 2.
  const Timing timing =
      summary({Seconds(1.0), Seconds(2.0), Seconds(4.0), Seconds(5.0), Seconds(100.0)});
  EXPECT_EQ(timing.median, Seconds(4.0));
  EXPECT_EQ(timing.mean, Seconds(112.0 / 5.0));
  EXPECT_NEAR(timing.spread, 1.4826 * 2.0 / 4.0, 1e-12);
  EXPECT_EQ(timing.repeats, 5);
}

TEST(Statistics, TheMedianOfAnEvenNumberIsInTheMiddle) {
  EXPECT_EQ(summary({Seconds(3.0), Seconds(1.0), Seconds(2.0), Seconds(10.0)}).median,
            Seconds(2.5));
}

TEST(Statistics, FewTimesHaveTheirWholeRangeAsInterval) {
  // n/2 -+ 0.98 sqrt(3) reaches past both ends.
  EXPECT_NEAR(summary({Seconds(2.0), Seconds(3.0), Seconds(4.0)}).half_width,
              0.5 * (4.0 - 2.0) / 3.0, 1e-12);
}

TEST(Statistics, SteadyWorkIsRepeatedAsOftenAsItMustBe) {
  int calls = 0;
  const Timing timing = repeated([&] { return ++calls, Seconds(0.5); },
                                 {.warm_up = 2, .least = 4, .budget = Seconds(100.0)});
  EXPECT_EQ(timing.repeats, 4);
  EXPECT_EQ(calls, 6);
}

TEST(Statistics, RestlessWorkIsRepeatedUntilTheBudgetIsSpent) {
  int calls = 0;
  const auto restless = [&] { return Seconds(++calls % 2 == 0 ? 1.0 : 3.0); };
  // One warm-up of 3 s, then 1, 3, 1, 3, 1, 3, 1: 16 s are first reached with the seventh.
  const Timing timing =
      repeated(restless, {.warm_up = 1, .least = 3, .precision = 0.01, .budget = Seconds(16.0)});
  EXPECT_EQ(timing.repeats, 7);
}

TEST(Statistics, WarmUpDoesNotCount) {
  int calls = 0;
  const auto cold_first = [&] { return Seconds(++calls == 1 ? 100.0 : 1.0); };
  EXPECT_EQ(repeated(cold_first, {.warm_up = 1, .least = 3}).median, Seconds(1.0));
}

TEST(Progress, TellsTheTimeThatIsLeft) {
  EXPECT_EQ(progress_text(0.5, 67.0), "[############............]  50 %, 1:07 left");
  EXPECT_EQ(progress_text(0.0, 1.0), "[........................]   0 %");
}

}  // namespace
}  // namespace llmsim::runtime
