#include "calibrate/spreads.h"

#include <cmath>

#include <gtest/gtest.h>

namespace llmsim::calibrate {
namespace {

// Runs of group `group` on framework `framework`.
void add(MeasuredRuns& runs, std::size_t group, const std::string& framework, int count) {
  while (runs.groups.size() <= group)
    runs.groups.push_back(std::string(1, static_cast<char>('a' + runs.groups.size())));
  MeasuredRun run;
  run.group = group;
  run.run.framework.id = framework;
  for (int i = 0; i < count; ++i) runs.runs.push_back(run);
}

// Group a on framework s: 0.1 faster and 0.3 slower.  Group b on framework t: 0.5 slower.  Errors
// are of predicted over measured.
const std::vector<double> kErrors = {0.1, -0.3, -0.5};

MeasuredRuns two_groups() {
  MeasuredRuns runs;
  add(runs, 0, "s", 2);
  add(runs, 1, "t", 1);
  return runs;
}

// slower: (0.3^2 / 2 + 0.5^2) / (1/2 + 1) = 0.295 / 1.5; faster: 0.1.
TEST(Spreads, EachSideIsARootMeanSquareInWhichAStudyCountsOnce) {
  const Spreads result = spreads(two_groups(), kErrors);
  EXPECT_NEAR(result.all.slower, std::sqrt(0.295 / 1.5), 1e-12);
  EXPECT_NEAR(result.all.faster, 0.1, 1e-12);
  EXPECT_NEAR(result.all.groups_slower, 1.5, 1e-12);
  EXPECT_NEAR(result.all.groups_faster, 0.5, 1e-12);
}

// Framework t, slower: (4 * 0.295 / 1.5 + 0.5^2) / (4 + 1); nothing was faster, so that side is
// that of all.
TEST(Spreads, AFrameworkHasFourStudiesOfAllFrameworksBehindIt) {
  const Spreads result = spreads(two_groups(), kErrors);
  EXPECT_NEAR(result.of("t").slower, std::sqrt((4.0 * 0.295 / 1.5 + 0.25) / 5.0), 1e-12);
  EXPECT_NEAR(result.of("t").faster, 0.1, 1e-12);
  EXPECT_NEAR(result.of("t").groups_slower, 5.0, 1e-12);
  EXPECT_EQ(result.of("unheard of").slower, result.all.slower);
}

// Without its own group b, framework t is unknown: all = group a, 0.3 slower and 0.1 faster.
TEST(Spreads, TheIntervalOfALeftOutRunDoesNotKnowItsOwnStudy) {
  const auto intervals = left_out_intervals(two_groups(), kErrors);
  ASSERT_EQ(intervals.size(), 3u);
  EXPECT_NEAR(intervals[2].second, 1.645 * 0.3 * student_factor(0.5), 1e-12);
  EXPECT_NEAR(intervals[2].first, -1.645 * 0.1 * student_factor(0.5), 1e-12);
}

// Quantiles of Student's distribution at 95 %: 2.132 with 4 degrees of freedom, 1.812 with 10,
// 1.708 with 25.
TEST(Spreads, FewStudiesReachFurtherThanTheirSpread) {
  EXPECT_NEAR(1.645 * student_factor(4.0), 2.132, 3e-3);
  EXPECT_NEAR(1.645 * student_factor(10.0), 1.812, 1e-3);
  EXPECT_NEAR(1.645 * student_factor(25.0), 1.708, 1e-3);
  EXPECT_EQ(student_factor(0.5), student_factor(4.0));
}

TEST(Spreads, RowsNameTheStudiesAndGrowMoreCertainWithThem) {
  const std::vector<hwdb::Coefficient> rows =
      spread_rows(two_groups(), spreads(two_groups(), kErrors));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[3].id, "t");
  EXPECT_EQ(rows[3].key, "spread_slower");
  // Five studies' worth.
  EXPECT_NEAR(*rows[3].standard_error, rows[3].value / std::sqrt(10.0), 1e-12);
  EXPECT_NEAR(rows[3].value, spreads(two_groups(), kErrors).of("t").slower * student_factor(5.0),
              1e-12);
  EXPECT_EQ(rows[3].fitted_from, "left-out step times of 1 group: b");
}

}  // namespace
}  // namespace llmsim::calibrate
