#include "cli/run_options.h"

#include <gtest/gtest.h>

#include <string>

namespace llmsim::cli {
namespace {

RunOptions parsed(const std::string& arguments) {
  CLI::App app;
  RunOptions options;
  add_run_options(app, options);
  app.parse(arguments, /*program_name_included=*/false);
  return options;
}

// What was not said is left to the framework.
TEST(RunOptions, SwitchesOfOverlapHaveNoValueUntilTheyAreGiven) {
  const RunOptions none = parsed("--model gpt2 --gpus 8");
  EXPECT_FALSE(none.dp_overlap.has_value());
  EXPECT_FALSE(none.strategy.contains("gradient_overlap"));
  EXPECT_FALSE(none.strategy.contains("gather_overlap"));
  const RunOptions some = parsed("--model gpt2 --gpus 8 --no-dp-overlap --gather-overlap");
  EXPECT_EQ(some.dp_overlap, false);
  EXPECT_FALSE(some.strategy.contains("gradient_overlap"));
  EXPECT_EQ(some.strategy.at("gather_overlap"), "true");
}

}  // namespace
}  // namespace llmsim::cli
