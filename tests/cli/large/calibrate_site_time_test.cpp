// How long llmsim calibrate site takes: a promise of the program that ships, not of sanitizers.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/cli/program.h"
#include "tests/cli/site_run.h"

namespace llmsim::cli {
namespace {

class CalibrateSiteTime : public Program {};

TEST_F(CalibrateSiteTime, OfFiftyRunsIsLessThanASecond) {
  std::string runs;
  for (int i = 1; i <= 50; ++i)
    runs += (i > 1 ? ", " : "") + run_text("run" + std::to_string(i), 0.05 * i, 16 * i);
  write("fifty.json", R"({"schema": 2, "group": "ours", "runs": [)" + runs + "]}");
  ASSERT_EQ(run("calibrate show").status, 0);  // makes the database
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = run("calibrate site ours fifty.json");
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_LT(taken.count(), 1.0);
}

}  // namespace
}  // namespace llmsim::cli
