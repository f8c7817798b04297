#include "reports/step_detail.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/reports/sample_prediction.h"

namespace llmsim::reports {
namespace {

sim::Prediction of_terms(std::vector<sim::TimeTerm> terms) {
  sim::Prediction prediction = sample_prediction();
  prediction.breakdown = std::move(terms);
  prediction.step_time = sim::Seconds(10.0);
  return prediction;
}

TEST(StepParts, JoinTermsOfAKindLongestFirst) {
  const auto parts = step_parts(of_terms({{"forward_gemm", sim::Seconds(2.0)},
                                          {"backward_gemm", sim::Seconds(4.0)},
                                          {"contention", sim::Seconds(0.5)},
                                          {"gradient_reduce_exposed", sim::Seconds(1.0)},
                                          {"offload_exposed", sim::Seconds(2.5)},
                                          {"straggler", sim::Seconds(0.0)}}));
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_STREQ(parts[0].name, "GEMMs");
  EXPECT_EQ(parts[0].time, sim::Seconds(6.0));
  EXPECT_STREQ(parts[1].name, "host");
  EXPECT_STREQ(parts[2].name, "communication");
  EXPECT_EQ(parts[2].time, sim::Seconds(1.5));
}

TEST(StepParts, AddUpToTheBreakdownWhateverTheTerms) {
  sim::Seconds sum{0.0};
  for (const StepPart& part : step_parts(sample_prediction())) sum += part.time;
  EXPECT_DOUBLE_EQ(sum.value(), 4.0);
}

TEST(StepBars, AreAsLongAsTheirShare) {
  const auto bars = step_bars(of_terms({{"forward_gemm", sim::Seconds(7.5)},
                                        {"pipeline_bubble", sim::Seconds(2.45)},
                                        {"host", sim::Seconds(0.05)}}),
                              40);
  ASSERT_EQ(bars.size(), 2u);  // half a per cent has no line
  EXPECT_EQ(bars[0], "GEMMs                  75 %  " + std::string(30, '#'));
  EXPECT_EQ(std::count(bars[1].begin(), bars[1].end(), '#'), 10);
}

}  // namespace
}  // namespace llmsim::reports
