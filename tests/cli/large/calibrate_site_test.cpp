// How long llmsim calibrate site takes: a promise of the program that ships, not of sanitizers.
#include <gtest/gtest.h>

#include <chrono>
#include <sstream>
#include <string>

#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

class CalibrateSiteTime : public Program {};

TEST_F(CalibrateSiteTime, OfFiftyRunsIsLessThanASecond) {
  std::ostringstream runs;
  for (int i = 1; i <= 50; ++i)
    runs << (i > 1 ? ", " : "") << R"({"id": "run)" << i
         << R"(", "model": {"name": "llama-3-8b", "seq_len": 4096}, )"
         << R"("hardware": {"accelerator": "h100_sxm", "num_devices": 16}, )"
         << R"("training": {"framework": "fsdp2", "precision": "bf16", "sharding": "zero3", )"
         << R"("micro_batch": 1, "global_batch": )" << 16 * i
         << R"(}, "measured": {"step_time_s": )" << 0.05 * i << R"(, "outcome": "ok"}, )"
         << R"("scored": {"step_time": true, "memory": false, "outcome": false}})";
  write("fifty.json", R"({"schema": 2, "group": "ours", "runs": [)" + runs.str() + "]}");
  ASSERT_EQ(run("calibrate show").status, 0);  // makes the database
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = run("calibrate site ours fifty.json");
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_LT(taken.count(), 1.0);
}

}  // namespace
}  // namespace llmsim::cli
