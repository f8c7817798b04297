#include "reports/run_difference.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "tests/sim/sample_run.h"

namespace llmsim::reports {
namespace {

using nlohmann::json;

sim::TrainingRun on_four_ranks(int tp) {
  sim::TrainingRun run = sim::small_run();
  run.strategy.tp = tp, run.strategy.dp = 4 / tp, run.strategy.global_batch = 8;
  run.cluster.num_devices = 4;
  return run;
}

json difference(const sim::TrainingRun& first, const sim::TrainingRun& second) {
  const RunDifference both{.first_name = "a",
                           .second_name = "b",
                           .first = sim::predict(first),
                           .second = sim::predict(second)};
  return json::parse(render(both, Format::Json));
}

// The last line of either table is the sum of those before it, and the first ones differ most.
TEST(RunDifference, TermsAddUp) {
  const json both = difference(on_four_ranks(1), on_four_ranks(4));
  for (const auto& [key, unit] : {std::pair{"time", "_s"}, {"memory", "_bytes"}}) {
    const json& rows = both[key];
    for (const std::string name : {"first", "second", "difference"}) {
      double sum = 0.0;
      for (std::size_t i = 0; i + 1 < rows.size(); ++i) sum += rows[i][name + unit].get<double>();
      const double last = rows.back()[name + unit];
      EXPECT_NEAR(last, sum, 1e-9 * rows.back()[std::string("first") + unit].get<double>()) << key;
    }
  }
  const json& time = both["time"];
  EXPECT_GE(std::abs(time[0]["difference_s"].get<double>()),
            std::abs(time[1]["difference_s"].get<double>()));
  EXPECT_EQ(time.back()["first_s"], sim::predict(on_four_ranks(1)).step_time.value());
}

TEST(RunDifference, NamesWhatTheRunsSayDifferently) {
  const json both = difference(on_four_ranks(1), on_four_ranks(4));
  std::string keys;
  for (const json& row : both["settings"])
    keys += row["setting"].get<std::string>() + "=" + row["first"].get<std::string>() + "|" +
            row["second"].get<std::string>() + " ";
  EXPECT_NE(keys.find("training.tp=1|4 "), std::string::npos) << keys;
  EXPECT_NE(keys.find("training.dp=4|1 "), std::string::npos) << keys;
  EXPECT_EQ(keys.find("model."), std::string::npos) << keys;
}

TEST(RunDifference, OfARunWithItselfIsNothing) {
  const json both = difference(on_four_ranks(2), on_four_ranks(2));
  EXPECT_TRUE(both["settings"].empty());
  for (const json& row : both["time"]) EXPECT_EQ(row["difference_s"], 0.0);
  for (const json& row : both["memory"]) EXPECT_EQ(row["difference_bytes"], 0.0);
}

}  // namespace
}  // namespace llmsim::reports
