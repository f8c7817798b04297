#include "reports/job.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "reports/prediction.h"
#include "tests/reports/sample_prediction.h"

namespace llmsim::reports {
namespace {

using sim::Seconds;

JobAnswer sample_job_answer() {
  sim::Job job{.tokens = 15e12, .tokens_per_step = 4194304.0};
  job.step_time = {Seconds(2.0), Seconds(1.5), Seconds(3.0)};
  job.num_devices = 16384;
  job.num_nodes = 2048;
  job.failures = {.per_device = sim::Hertz(7.75e-9), .log_deviation = 1.05};
  job.restart = {Seconds(465.0), 0.4};
  job.node_start_failure = 1e-4;
  job.checkpoint = {.size = sim::Bytes(5.7e12),
                    .storage = {.aggregate = 2.0 * sim::TBps},
                    .storage_log_deviation = 0.2};
  job.ramp_up = sim::BatchRampUp{
      .start_tokens_per_step = 524288.0, .tokens = 5e10, .start_step_time = Seconds(0.5)};
  job.slow_share = 0.1;
  job.slowdown = 0.05;
  job.price = sim::Uncertain<double>{3.49, 0.5};
  job.device_watts = sim::Uncertain<double>{1270.0, 0.2};
  return {.job = job, .estimate = sim::job_estimate(job)};
}

std::string rendered(const JobAnswer& answer, Format format) {
  return render(sample_prediction(), {.database = "facts"}, format, {}, {.job = answer});
}

TEST(JobTable, HasAtMostTwelveLinesOfAHundredColumns) {
  std::istringstream lines(render(job_table(sample_job_answer()), Format::Table));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_LE(count, 12 + 3);  // title, header and rule
}

TEST(JobTable, SaysWhatIsLostFromTheLargestOn) {
  const std::string text = render(job_table(sample_job_answer()), Format::Table);
  for (const char* part :
       {"15,000,000,000,000 in 3,5", "% of it is useful", "restarts", "slow devices", "MWh",
        "USD at 3.49 USD per device-hour", "% of attempts succeed", "(optimal)"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(JobTable, SaysThatAJobHasNoEnd) {
  JobAnswer answer = sample_job_answer();
  answer.job.restart = {Seconds(1e7)};
  answer.estimate = sim::job_estimate(answer.job);
  const std::string text = render(job_table(answer), Format::Table);
  EXPECT_NE(text.find("no end: interrupted every"), std::string::npos) << text;
  EXPECT_EQ(text.find("inf"), std::string::npos);
  EXPECT_TRUE(
      nlohmann::json::parse(rendered(answer, Format::Json))["job"]["wall_time_s"].is_null());
}

TEST(JobJson, HasTheEstimatesWithTheirIntervals) {
  const JobAnswer answer = sample_job_answer();
  const auto job = nlohmann::json::parse(rendered(answer, Format::Json)).at("job");
  EXPECT_EQ(job.at("tokens"), 15e12);
  double sum = 0.0;
  for (const auto& [name, time] : job.at("breakdown_s").items()) sum += time.get<double>();
  const double wall = job.at("wall_time_s");
  EXPECT_NEAR(sum / wall, 1.0, 1e-12);
  EXPECT_EQ(wall, answer.estimate.wall_time.value.value());
  for (const char* key : {"wall_time_interval_s", "goodput_interval", "interruptions_interval",
                          "device_hours_interval", "cost_interval_usd", "energy_interval_mwh"})
    EXPECT_LT(job.at(key).at(0), job.at(key).at(1)) << key;
  EXPECT_EQ(job.at("checkpoint").at("optimal"), true);
  EXPECT_EQ(job.at("checkpoint").at("write_time_s"), 2.85);
}

TEST(JobJson, IsThereOnlyWhereAJobWasAskedFor) {
  const std::string text = render(sample_prediction(), {.database = "facts"}, Format::Json);
  EXPECT_FALSE(nlohmann::json::parse(text).contains("job"));
}

}  // namespace
}  // namespace llmsim::reports
