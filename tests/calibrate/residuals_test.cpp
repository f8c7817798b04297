#include "calibrate/residuals.h"

#include <gtest/gtest.h>

#include <cmath>

namespace llmsim::calibrate {
namespace {

BacktestRow timed(const std::string& group, double ratio, const std::string& device,
                  const std::string& waits) {
  BacktestRow row;
  row.group = group;
  row.scored.step_time = true;
  row.measured_time = sim::Seconds(1.0), row.predicted_time = sim::Seconds(std::exp(ratio));
  row.interval = {sim::Seconds(0.8), sim::Seconds(1.5)};
  row.device = device, row.framework = "nemo", row.precision = "bf16", row.waits_for = waits;
  return row;
}

const Residual* find(const std::vector<Residual>& all, const std::string& by,
                     const std::string& value) {
  for (const Residual& residual : all)
    if (residual.by == by && residual.value == value) return &residual;
  return nullptr;
}

// Study a has -0.1, 0.1 and 0.3 on A, b has -0.4: medians of sizes 0.1 and 0.4, of values 0.1 and
// -0.4.
TEST(Residuals, CountEachStudyOnce) {
  Backtest backtest;
  backtest.rows = {timed("a", -0.1, "A", "host"), timed("a", 0.1, "A", "host"),
                   timed("a", 0.3, "A", "pipeline_bubble"), timed("b", -0.4, "A", "host"),
                   timed("b", 0.2, "B", "host")};
  const std::vector<Residual> all = residuals(backtest);
  const Residual* a = find(all, "device", "A");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->studies, 2);
  EXPECT_EQ(a->runs, 4);
  EXPECT_NEAR(*a->error, 0.25, 1e-12);
  EXPECT_NEAR(*a->bias, -0.15, 1e-12);
  EXPECT_NEAR(*a->coverage, 1.0, 1e-12);
  EXPECT_FALSE(a->memory_error);
  EXPECT_NEAR(*find(all, "waits for", "pipeline_bubble")->error, 0.3, 1e-12);
  EXPECT_EQ(all.front().value, "A");  // the most studies
}

TEST(Residuals, LeaveOutWhatIsNotScoredOrHasNoPrediction) {
  Backtest backtest;
  backtest.rows = {timed("a", 0.1, "A", "host"), timed("a", 0.1, "B", "host")};
  backtest.rows[0].scored.step_time = false;
  backtest.rows[1].predicted_time.reset();
  EXPECT_TRUE(residuals(backtest).empty());
  backtest.rows[0].scored.memory = true;
  backtest.rows[0].measured_peak = sim::Bytes(100.0);
  backtest.rows[0].predicted_peak = sim::Bytes(110.0);
  const std::vector<Residual> all = residuals(backtest);
  ASSERT_EQ(all.size(), 4U);  // one of each kind
  EXPECT_FALSE(all.front().error);
  EXPECT_NEAR(*all.front().memory_bias, std::log(1.1), 1e-12);
}

// A peak or a time that is not scored says nothing, nor does a run without either.
TEST(Residuals, AreOfWhatIsScored) {
  BacktestRow row;
  row.group = "g", row.device = "d";
  row.measured_time = sim::Seconds(1.0), row.predicted_time = sim::Seconds(2.0);
  row.measured_peak = sim::Bytes(4.0), row.predicted_peak = sim::Bytes(1.0);
  const auto of_device = [](const BacktestRow& one) {
    Backtest backtest;
    backtest.rows = {one};
    const std::vector<Residual> all = residuals(backtest);
    return all.empty() ? Residual{} : all.front();
  };
  EXPECT_EQ(of_device(row).runs, 0);
  row.scored.step_time = true;
  EXPECT_EQ(of_device(row).runs, 1);
  EXPECT_NEAR(*of_device(row).error, std::log(2.0), 1e-12);
  EXPECT_FALSE(of_device(row).memory_error);
  row.scored.step_time = false, row.scored.memory = true;
  EXPECT_FALSE(of_device(row).error);
  EXPECT_FALSE(of_device(row).coverage);
  EXPECT_NEAR(*of_device(row).memory_error, std::log(4.0), 1e-12);
  EXPECT_NEAR(*of_device(row).memory_bias, -std::log(4.0), 1e-12);
  row.predicted_peak.reset();
  EXPECT_EQ(of_device(row).runs, 0);
}

}  // namespace
}  // namespace llmsim::calibrate
