#include "cli/job_options.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/run_request.h"
#include "tests/cli/program.h"
#include "tests/error_of.h"

namespace llmsim::cli {
namespace {

const hwdb::Database& job_database() {
  static const hwdb::Database shipped(":memory:");
  return shipped;
}

const sim::Prediction& sample_step() {
  static const sim::Prediction prediction = [] {
    RunOptions options{.model = "llama3-8b"};
    options.gpus = "64";
    options.global_batch = "1024";
    options.strategy = {{"sharding", "zero3"}};
    return sim::predict(run_of(options, job_database()));
  }();
  return prediction;
}

reports::JobAnswer job_answer_of(const JobOptions& options) {
  return job_of(options, sample_step(), job_database()).value();
}

std::string job_error(const JobOptions& options) {
  return error_of([&] { job_of(options, sample_step(), job_database()); });
}

std::string source_of(const reports::JobAnswer& answer, const std::string& key) {
  for (const sim::Fact& fact : answer.facts)
    if (fact.key == key) return fact.source;
  return "";
}

TEST(TokenCount, HasSuffixesOfThousands) {
  EXPECT_EQ(token_count("--tokens", "15T"), 15e12);
  EXPECT_EQ(token_count("--tokens", "300b"), 300e9);
  EXPECT_EQ(token_count("--tokens", "1.5M"), 1.5e6);
  EXPECT_EQ(token_count("--tokens", "4K"), 4000.0);
  EXPECT_EQ(token_count("--tokens", "1.5e13"), 1.5e13);
  EXPECT_EQ(token_count("--tokens", "1000000"), 1e6);
}

TEST(TokenCount, SaysWhatWouldBeRight) {
  for (const char* wrong : {"", "T", "15X", "15TB", "-3B", "0", "nan", "inf", "1e30", "15 T"}) {
    const std::string message = error_of([&] { token_count("--tokens", wrong); });
    EXPECT_EQ(message, std::string("--tokens = ") + wrong +
                           ": a number of tokens up to 10^18 is expected, with K, M, B or T: 15T, "
                           "1.5e13");
  }
}

TEST(JobOf, IsNoneWithoutTokens) { EXPECT_FALSE(job_of({}, sample_step(), job_database())); }

TEST(JobOf, HasTheRunsBatchDevicesAndStepTime) {
  const reports::JobAnswer answer = job_answer_of({.tokens = "15T"});
  EXPECT_EQ(answer.job.tokens, 15e12);
  EXPECT_EQ(answer.job.tokens_per_step, 1024.0 * sample_step().run.model.seq_len);
  EXPECT_EQ(answer.job.num_devices, 64);
  EXPECT_EQ(answer.job.num_nodes, 8);
  EXPECT_EQ(answer.job.step_time.high, sample_step().interval.second);
  EXPECT_FALSE(answer.job.checkpoint.asynchronous);
  EXPECT_NE(source_of(answer, "job.failures"), "");
}

TEST(JobOf, OptionsWinOverDefaults) {
  const reports::JobAnswer answer = job_answer_of({.tokens = "15T",
                                                   .price = "2.5",
                                                   .mtbf = "1000",
                                                   .restart = "20",
                                                   .checkpoint_interval = "30",
                                                   .checkpoint_bandwidth = "50",
                                                   .asynchronous = true});
  EXPECT_EQ(answer.job.price->high(), 2.5);
  EXPECT_DOUBLE_EQ(answer.estimate.failure_rate.value(), 8.0 / (1000.0 * 3600.0));
  EXPECT_EQ(answer.job.failures.log_deviation, 0.0);
  EXPECT_EQ(answer.job.restart.median, sim::Seconds(1200.0));
  EXPECT_EQ(answer.estimate.checkpoint_interval, sim::Seconds(1800.0));
  EXPECT_DOUBLE_EQ(answer.estimate.checkpoint_write_time.value(),
                   answer.job.checkpoint.size / (50.0 * sim::GBps) / sim::Seconds(1.0));
  EXPECT_LT(answer.estimate.checkpoint_blocking, answer.estimate.checkpoint_write_time);
  EXPECT_EQ(source_of(answer, "job.price"), "--price");
  EXPECT_EQ(source_of(answer, "job.failures"), "--mtbf");
}

TEST(JobOf, RampUpPredictsTheFirstBatch) {
  const reports::JobAnswer answer = job_answer_of({.tokens = "1T", .ramp_up = "128:100B"});
  ASSERT_TRUE(answer.job.ramp_up);
  EXPECT_EQ(answer.job.ramp_up->tokens, 1e11);
  EXPECT_EQ(answer.job.ramp_up->start_tokens_per_step * 8.0, answer.job.tokens_per_step);
  EXPECT_LT(answer.job.ramp_up->start_step_time, answer.job.step_time.value);
  EXPECT_GT(answer.job.ramp_up->start_step_time, answer.job.step_time.value / 8.0);
  EXPECT_GT(answer.estimate.wall_time.value,
            job_answer_of({.tokens = "1T"}).estimate.wall_time.value);
}

TEST(JobOf, NamesTheOptionThatIsWrong) {
  EXPECT_EQ(job_error({.tokens = "15T", .price = "0"}),
            "--price = 0: USD per device-hour above 0, up to 1e+06, are expected");
  EXPECT_EQ(job_error({.tokens = "15T", .price = "1e300"}),
            "--price = 1e300: USD per device-hour above 0, up to 1e+06, are expected");
  EXPECT_EQ(job_error({.tokens = "15T", .mtbf = "week"}),
            "--mtbf = week: hours above 0, up to 1e+09, are expected");
  EXPECT_EQ(job_error({.tokens = "15T", .restart = "-1"}),
            "--restart = -1: minutes above 0, up to 1e+09, are expected");
  EXPECT_EQ(job_error({.tokens = "15T", .checkpoint_interval = "inf"}),
            "--checkpoint-interval = inf: minutes above 0, up to 1e+09, are expected");
  EXPECT_EQ(job_error({.tokens = "15T", .checkpoint_bandwidth = "2TB"}),
            "--checkpoint-bandwidth = 2TB: GB/s above 0, up to 1e+09, are expected");
  EXPECT_EQ(job_error({.tokens = "15T", .ramp_up = "512"}),
            "--ramp-up = 512: START_BATCH:TOKENS is expected, as 512:50B");
  EXPECT_EQ(job_error({.tokens = "15T", .ramp_up = "1024:50B"}),
            "--ramp-up = 1024:50B: fewer sequences than the global batch of 1024 are expected at "
            "the start");
  EXPECT_EQ(job_error({.tokens = "15B", .ramp_up = "512:50B"}),
            "--ramp-up = 512:50B: at most the tokens of --tokens are expected");
  EXPECT_NE(job_error({.tokens = "15T", .ramp_up = "100:50B"}).find("--ramp-up = 100:50B: "),
            std::string::npos);  // 64 devices do not divide it
  EXPECT_EQ(job_error({.tokens = "1M"}),
            "--tokens = 1M: at least the 8388608 tokens of one step are expected");
}

using JobProgram = Program;

TEST_F(JobProgram, OptionsOfAJobNeedTokens) {
  const Outcome outcome = run("predict --model gpt2 --gpus 8 --price 2");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.messages.find("--tokens"), std::string::npos) << outcome.messages;
}

TEST_F(JobProgram, WithoutTokensPrintsNoJob) {
  const std::string run_of_it = "predict --model gpt2 --gpus 8 --db :memory:";
  EXPECT_EQ(run(run_of_it).out.find("whole job"), std::string::npos);
  const Outcome job = run(run_of_it + " --tokens 300B --verbose");
  EXPECT_EQ(job.status, 0) << job.messages;
  EXPECT_NE(job.out.find("The whole job"), std::string::npos);
  EXPECT_NE(job.out.find("job.failures"), std::string::npos);  // under Evidence
}

TEST_F(JobProgram, ThatDoesNotFitHasNoJob) {
  const Outcome outcome = run("predict --model llama-70b --gpus 8 --tokens 1T");
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out.find("whole job"), std::string::npos);
}

TEST(JobOptions, WhoRestartsAJobDecidesHowLongItStands) {
  const auto useful = [](const char* operations) {
    return job_answer_of({.tokens = "15T", .operations = operations}).estimate.goodput.value;
  };
  EXPECT_LT(useful("lab"), useful("cluster"));
  EXPECT_LT(useful("cluster"), useful("hyperscale"));
  // So few devices are taken for a cluster's.
  EXPECT_EQ(job_answer_of({.tokens = "15T"}).estimate.goodput.value, useful("cluster"));
  EXPECT_EQ(
      job_answer_of({.tokens = "15T", .restart = "20", .operations = "lab"}).job.restart.median,
      sim::Seconds(1200.0));
  EXPECT_EQ(job_error({.tokens = "15T", .operations = "team"}),
            "--operations = team: lab, cluster or hyperscale is expected");
}

}  // namespace
}  // namespace llmsim::cli
