#include "calibrate/count_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/sim/sample_run.h"

namespace llmsim::calibrate {
namespace {

sim::TrainingRun two_data_ranks() {
  sim::TrainingRun run = sim::small_run(2);

  return run;
}

std::vector<std::string> different(const std::vector<CountComparison>& all) {
  std::vector<std::string> names;
  for (const CountComparison& one : all) {
    if (!one.equal()) names.push_back(one.name);
  }
  return names;
}

TEST(CountComparison, EqualCountsAreEqual) {
  const sim::TrainingRun run = two_data_ranks();
  const auto all = compare_counts({.name = "step", .counts = sim::rank_counts(run, 0)}, run);
  EXPECT_TRUE(different(all).empty());
  EXPECT_EQ(all.front().name, "step: parameters");
}

TEST(CountComparison, EachFigureIsComparedByItself) {
  const sim::TrainingRun run = two_data_ranks();
  hwdb::CountedStep step{.name = "step", .counts = sim::rank_counts(run, 0)};
  step.counts.held.peak += 1;
  step.counts.backward.gemms -= 2;
  step.counts.sent[{"tp", "all_gather"}] = {.calls = 3, .bytes = 30};
  step.counts.sent.at({"dp", "all_reduce"}).bytes *= 2;
  EXPECT_EQ(different(compare_counts(step, run)),
            (std::vector<std::string>{"step: backward GEMM FLOPs", "step: dp all_reduce bytes",
                                      "step: tp all_gather calls", "step: tp all_gather bytes",
                                      "step: peak bytes"}));
}

TEST(CountComparison, EveryFigureOfAStepIsCompared) {
  const sim::TrainingRun run = two_data_ranks();
  hwdb::CountedStep step{.name = "step", .counts = sim::rank_counts(run, 0)};
  sim::RankCounts& counts = step.counts;
  ++counts.parameters, ++counts.forward.gemms, ++counts.backward.gemms;
  ++counts.forward.attention, ++counts.backward.attention;
  ++counts.held.persistent, ++counts.held.after_forward, ++counts.held.peak;
  const std::vector<CountComparison> all = compare_counts(step, run);
  EXPECT_EQ(different(all),
            (std::vector<std::string>{"step: parameters", "step: forward GEMM FLOPs",
                                      "step: forward attention FLOPs", "step: backward GEMM FLOPs",
                                      "step: backward attention FLOPs", "step: bytes between steps",
                                      "step: bytes after forward", "step: peak bytes"}));
  EXPECT_EQ(all.front().measured, all.front().predicted + 1);
}

// A host that holds nothing is not listed.
TEST(CountComparison, BytesOnTheHostAreCompared) {
  const sim::TrainingRun run = two_data_ranks();
  hwdb::CountedStep step{.name = "step", .counts = sim::rank_counts(run, 0)};
  step.counts.held.host = 5, step.counts.held.host_peak = 7;
  EXPECT_EQ(different(compare_counts(step, run)),
            (std::vector<std::string>{"step: host bytes between steps", "step: host peak bytes"}));
}

// What only the simulator expects is a difference too.
TEST(CountComparison, ACollectiveThatIsMissingDiffers) {
  const sim::TrainingRun run = two_data_ranks();
  hwdb::CountedStep step{.name = "step", .counts = sim::rank_counts(run, 0)};
  step.counts.sent.clear();
  EXPECT_EQ(different(compare_counts(step, run)),
            (std::vector<std::string>{"step: dp all_reduce calls", "step: dp all_reduce bytes"}));
}

}  // namespace
}  // namespace llmsim::calibrate
