#include "sim/job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "tests/catalogue.h"
#include "tests/error_of.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// 1,000 steps of 10 s on 16 devices in 2 nodes; nothing fails and nothing is uncertain.
Job sample_job() {
  return {.tokens = 1e9,
          .tokens_per_step = 1e6,
          .step_time = {Seconds(10.0), Seconds(10.0), Seconds(10.0)},
          .num_devices = 16,
          .num_nodes = 2,
          .checkpoint = {.size = 100 * GB, .storage = {.aggregate = 10 * GBps}}};
}

// The same of a hundred times the steps, with failures every 10,000 s.
Job failing_job() {
  Job job = sample_job();
  job.tokens = 1e11;
  job.failures = {.per_device = Hertz(5e-6), .per_node = Hertz(1e-5), .log_deviation = 0.7};
  job.restart = {Seconds(300.0), 0.4};
  job.checkpoint.storage_log_deviation = 0.2;
  return job;
}

Seconds job_term(const JobEstimate& estimate, const std::string& name) {
  for (const JobTerm& one : estimate.breakdown)
    if (one.name == name) return one.time;
  ADD_FAILURE() << name;
  return {};
}

TEST(JobEstimate, WithoutFailuresIsStepsTimesTheirTime) {
  Job job = sample_job();
  job.price = Uncertain<double>{2.0};
  job.device_watts = Uncertain<double>{1000.0};
  const JobEstimate estimate = job_estimate(job);
  EXPECT_EQ(estimate.steps, 1000.0);
  EXPECT_EQ(estimate.wall_time.value, Seconds(1e4));
  EXPECT_EQ(estimate.goodput.value, 1.0);
  EXPECT_EQ(estimate.interruptions.high, 0.0);
  EXPECT_DOUBLE_EQ(estimate.device_hours.value, 16.0 * 1e4 / 3600.0);
  EXPECT_DOUBLE_EQ(estimate.cost->value, 32.0 * 1e4 / 3600.0);
  EXPECT_DOUBLE_EQ(estimate.energy_mwh->value, 16.0 * 1e4 / 3600.0 / 1000.0);  // 1 kW each
  EXPECT_TRUE(std::isinf(estimate.checkpoint_interval.value()));
}

TEST(JobEstimate, TermsAddUpToTheWallTime) {
  Job job = failing_job();
  job.ramp_up =
      BatchRampUp{.start_tokens_per_step = 1e5, .tokens = 2e9, .start_step_time = Seconds(2.0)};
  job.slow_share = 0.1;
  job.slowdown = 0.05;
  job.node_start_failure = 0.1;
  const JobEstimate estimate = job_estimate(job);
  Seconds sum{};
  for (const JobTerm& one : estimate.breakdown) {
    EXPECT_GT(one.time, Seconds(0.0)) << one.name;
    sum += one.time;
  }
  EXPECT_NEAR(sum / estimate.wall_time.value, 1.0, 1e-12);
  EXPECT_NEAR(job_term(estimate, "useful") / estimate.wall_time.value, estimate.goodput.value,
              1e-12);
}

TEST(JobEstimate, MoreNodesAreInterruptedMoreOften) {
  double before = 0.0, goodput = 1.0;
  for (const int nodes : {1, 4, 16, 64}) {
    Job job = failing_job();
    job.num_nodes = nodes;
    job.num_devices = 8 * nodes;
    const JobEstimate estimate = job_estimate(job);
    EXPECT_GT(estimate.interruptions.value, before);
    EXPECT_LT(estimate.goodput.value, goodput);
    before = estimate.interruptions.value;
    goodput = estimate.goodput.value;
  }
}

TEST(JobEstimate, ChoosesDalysIntervalAndObeysAnother) {
  Job job = failing_job();
  // 16 * 5e-6 + 2 * 1e-5 = 1e-4 / s, 100 GB in 10 s.
  const JobEstimate best = job_estimate(job);
  EXPECT_DOUBLE_EQ(best.failure_rate.value(), 1e-4);
  EXPECT_EQ(best.checkpoint_write_time, Seconds(10.0));
  EXPECT_EQ(best.checkpoint_interval, daly_interval(Seconds(10.0), Hertz(1e-4)));
  for (const double factor : {0.3, 0.6, 1.7, 3.0}) {
    job.checkpoint.interval = best.checkpoint_interval * factor;
    EXPECT_GT(job_estimate(job).wall_time.value, best.wall_time.value);
  }
}

TEST(JobEstimate, AsynchronousCheckpointsBlockForTheCopyAlone) {
  Job job = failing_job();
  job.checkpoint.asynchronous = true;
  job.checkpoint.device_size = 10 * GB;
  job.checkpoint.host_link = 20 * GBps;
  const JobEstimate estimate = job_estimate(job);
  EXPECT_EQ(estimate.checkpoint_blocking, Seconds(0.5));
  EXPECT_EQ(estimate.checkpoint_write_time, Seconds(10.0));
  EXPECT_LT(estimate.wall_time.value, job_estimate(failing_job()).wall_time.value);
}

// Fixed time of a step 1 s, and 9 s for 10^6 tokens.
TEST(JobEstimate, RampUpLosesTheFixedTimeOfItsSteps) {
  Job job = sample_job();
  job.ramp_up =
      BatchRampUp{.start_tokens_per_step = 1e5, .tokens = 1e8, .start_step_time = Seconds(1.9)};
  const double steps = 1e8 * std::log(10.0) / 9e5;
  EXPECT_NEAR(job_estimate(job).steps, 900.0 + steps, 1e-9);
  EXPECT_NEAR(job_term(job_estimate(job), "ramp_up").value(), steps - 100.0, 1e-9);
  job.ramp_up->start_step_time = Seconds(1.0);  // in proportion
  EXPECT_NEAR(job_term(job_estimate(job), "ramp_up").value(), 0.0, 1e-9);
}

// Batches of 200, 300, ... step by step come to the same as the integral.
TEST(JobEstimate, RampUpIsTheSumOfItsSteps) {
  Job job = sample_job();
  job.ramp_up =
      BatchRampUp{.start_tokens_per_step = 1e4, .tokens = 5e8, .start_step_time = Seconds(1.0)};
  double tokens = 0.0, time = 0.0, steps = 0.0;
  while (tokens < 5e8) {
    const double batch = 1e4 + (1e6 - 1e4) * tokens / 5e8;
    time += 1.0 + 9.0 * (batch - 1e4) / (1e6 - 1e4);
    tokens += batch;
    steps += 1.0;
  }
  EXPECT_NEAR(job_estimate(job).steps / (500.0 + steps), 1.0, 0.01);
  EXPECT_NEAR(job_term(job_estimate(job), "ramp_up").value() / (time - 5000.0), 1.0, 0.01);
}

// The ramp loses steps - 100 s beside 10^4 s of training; half of both is 5 % longer.
TEST(JobEstimate, ASlowDeviceSlowsTheRampToo) {
  Job job = sample_job();
  job.ramp_up =
      BatchRampUp{.start_tokens_per_step = 1e5, .tokens = 1e8, .start_step_time = Seconds(1.9)};
  job.slow_share = 0.5;
  job.slowdown = 0.05;
  const double steps = 1e8 * std::log(10.0) / 9e5;
  EXPECT_NEAR(job_term(job_estimate(job), "slow_devices").value(), 0.025 * (1e4 + steps - 100.0),
              1e-9);
}

TEST(JobEstimate, OneSlowDeviceSetsThePace) {
  Job job = sample_job();
  job.slow_share = 0.5;
  job.slowdown = 0.05;
  EXPECT_NEAR(job_estimate(job).goodput.value, 1.0 / 1.025, 1e-12);
}

TEST(JobEstimate, IntervalsHoldTheEndsOfEveryInput) {
  const Job job = failing_job();
  const JobEstimate estimate = job_estimate(job);
  for (const double factor : {std::exp(-1.64 * 0.7), std::exp(1.64 * 0.7)}) {
    Job other = job;
    other.failures.per_device *= factor;
    other.failures.per_node *= factor;
    other.checkpoint.interval = estimate.checkpoint_interval;  // chosen before the job
    const JobEstimate there = job_estimate(other);
    EXPECT_GT(there.wall_time.value, estimate.wall_time.low);
    EXPECT_LT(there.wall_time.value, estimate.wall_time.high);
    EXPECT_GT(there.goodput.value, estimate.goodput.low);
    EXPECT_LT(there.goodput.value, estimate.goodput.high);
    EXPECT_GT(there.interruptions.value, estimate.interruptions.low);
    EXPECT_LT(there.interruptions.value, estimate.interruptions.high);
  }
  EXPECT_LE(estimate.goodput.high, 1.0);
}

TEST(JobEstimate, CarriesTheIntervalOfTheStepTime) {
  Job job = sample_job();
  job.step_time = {Seconds(10.0), Seconds(8.0), Seconds(15.0)};
  const JobEstimate estimate = job_estimate(job);
  EXPECT_NEAR(estimate.wall_time.low.value(), 8e3, 1e-6);
  EXPECT_NEAR(estimate.wall_time.high.value(), 15e3, 1e-6);
  EXPECT_EQ(estimate.goodput.low, 1.0);
}

TEST(JobEstimate, KnownInterruptionsScatterLikePoisson) {
  Job job = failing_job();
  job.failures.log_deviation = job.restart.log_deviation = 0.0;
  job.checkpoint.storage_log_deviation = 0.0;
  const Estimate<double> n = job_estimate(job).interruptions;
  EXPECT_NEAR(n.high - n.value, 1.6448536 * std::sqrt(n.value), 1e-9);
  EXPECT_NEAR(n.value - n.low, 1.6448536 * std::sqrt(n.value), 1e-9);
}

TEST(JobEstimate, SaysWhereThereIsNoEnd) {
  Job job = failing_job();
  job.restart = {Seconds(1e8)};
  EXPECT_TRUE(job_estimate(job).endless());
  EXPECT_EQ(job_estimate(job).goodput.value, 0.0);
}

TEST(Job, NamesTheFieldThatIsWrong) {
  Job job = sample_job();
  job.tokens = 10.0;
  EXPECT_NE(error_of([&] { job_estimate(job); }).find("tokens = 10"), std::string::npos);
  job = sample_job();
  job.ramp_up =
      BatchRampUp{.start_tokens_per_step = 2e6, .tokens = 1e8, .start_step_time = Seconds(1.0)};
  EXPECT_NE(error_of([&] { job_estimate(job); }).find("start_tokens_per_step"), std::string::npos);
}

TEST(CheckpointBytes, AreWeightsMasterWeightsAndStates) {
  TrainingRun run = small_run(8);
  const auto count = static_cast<double>(parameters(run.model).total());
  run.framework.storage = {.weight_bytes = 2.0, .master_bytes = 4.0, .state_bytes = 4.0};
  EXPECT_DOUBLE_EQ(checkpoint_bytes(run).value(), 14.0 * count);
  run.strategy.sharding = Sharding::Zero1;
  EXPECT_DOUBLE_EQ(checkpoint_bytes_per_device(run).value(),
                   14.0 * count / run.strategy.num_devices());
  run.strategy.sharding = Sharding::None;
  run.strategy.tp = run.strategy.pp = run.strategy.dp = 2;  // of two replicas each has the whole
  EXPECT_DOUBLE_EQ(checkpoint_bytes_per_device(run).value(), 14.0 * count / 4.0);
}

// BLOOM: 2.3 TB; its framework keeps 2 + 4 + 8 bytes of each of 176e9 parameters.
TEST(CheckpointBytes, OfBloomAreThePublishedOnes) {
  TrainingRun run = small_run(8);
  run.model = find_model("bloom-176b")->model;
  run.framework.storage = {.weight_bytes = 2.0, .master_bytes = 4.0, .state_bytes = 4.0};
  EXPECT_NEAR(checkpoint_bytes(run) / (2.3 * TB), 1.0, 0.08);
}

}  // namespace
}  // namespace llmsim::sim
