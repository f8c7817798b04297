#include "calibrate/backtest.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/calibrate/sample_runs.h"

namespace llmsim::calibrate {
namespace {

// Steps of 8, 16, 32, 64 and 128 sequences that take 0.1 s and 0.123456789 s more for every eight,
// each `noise` longer or shorter: three triples of neighbours.
std::vector<hwdb::RunFile> study(double noise, int digits = 12) {
  hwdb::RunFile file{.file = "f", .group = "study", .description = {}, .runs = {}, .rejected = {}};
  double sign = 1.0;
  for (int batch = 8; batch <= 128; batch *= 2, sign = -sign) {
    const double seconds = (0.1 + 0.123456789 * batch / 8) * (1.0 + sign * noise),
                 unit = std::pow(10.0, digits);
    file.runs.push_back(sample_record("r" + std::to_string(batch), "a100_sxm_80", "fsdp1", batch));
    file.runs.back().group = "study";
    file.runs.back().measured->step_time = sim::Seconds(std::round(seconds * unit) / unit);
  }
  return {file};
}

TEST(ComputedTimes, AStraightLineOverTheBatchIsNoMeasurement) {
  EXPECT_EQ(computed_groups(study(0.0)), std::set<std::string>{"study"});
}

// Beside them, fits learn nothing from what is known to be made of something else.
TEST(ComputedTimes, FitsAreToldWhyTheyLearnNothingFromAStudy) {
  std::vector<hwdb::RunFile> files = study(1e-4);
  EXPECT_TRUE(unfitted_groups(files).empty());
  files[0].unmodelled = "rings";
  EXPECT_EQ(unfitted_groups(files).at("study"), "rings");
  EXPECT_TRUE(unfitted_groups(study(0.0)).contains("study"));
}

// The middle of three lies 1e-4 to one side, its neighbours to the other.
TEST(ComputedTimes, NoiseOfATenThousandthIsAMachine) {
  EXPECT_TRUE(computed_groups(study(1e-4)).empty());
}

// Four digits cannot tell a line from noise of a hundred-thousandth.
TEST(ComputedTimes, RoundedTimesSayNothing) { EXPECT_TRUE(computed_groups(study(0.0, 3)).empty()); }

// Three triples lie on lines, three of another accelerator do not.
TEST(ComputedTimes, HalfOfTheTriplesOnALineIsChance) {
  std::vector<hwdb::RunFile> files = study(0.0);
  const std::vector<hwdb::RunFile> noisy = study(1e-4);
  for (hwdb::RunRecord run : noisy[0].runs) {
    run.id += "-h100", run.hardware.accelerator = "h100_sxm";
    files[0].runs.push_back(run);
  }
  EXPECT_TRUE(computed_groups(files).empty());
}

TEST(ComputedTimes, TwoTriplesAreTooFew) {
  std::vector<hwdb::RunFile> files = study(0.0);
  files[0].runs.pop_back();
  EXPECT_TRUE(computed_groups(files).empty());
}

// 8, 32 and 128 sequences on one accelerator, 16 and 64 on another: one triple, not three.
TEST(ComputedTimes, OnlyRunsThatDifferInTheBatchAloneAreCompared) {
  std::vector<hwdb::RunFile> files = study(0.0);
  for (const std::size_t other : {1u, 3u}) files[0].runs[other].hardware.accelerator = "h100_sxm";
  EXPECT_TRUE(computed_groups(files).empty());
}

}  // namespace
}  // namespace llmsim::calibrate
