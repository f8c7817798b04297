// The measuring program with ranks, one of which is killed: what was measured stays, and a second
// run goes on from there.
#include "runtime/measure/rank_campaign.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "runtime/parallel/local_ranks.h"
#include "tests/temporary_folder.h"

namespace llmsim::runtime::rank_campaign_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// The process of a rank that this process has started.
std::optional<pid_t> process_of_rank(int rank) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    std::stringstream status, environment;
    status << std::ifstream(entry.path() / "status").rdbuf();
    environment << std::ifstream(entry.path() / "environ").rdbuf();
    const bool ours =
        status.str().find("PPid:\t" + std::to_string(getpid()) + "\n") != std::string::npos;
    // The variables of a process end in zero bytes.
    if (ours &&
        environment.str().starts_with("RANK=" + std::to_string(rank) + std::string(1, '\0')))
      return std::stoi(pid);
  }
  return std::nullopt;
}

int lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

class RankCampaign : public testing::Test {
 protected:
  LocalRun measure(const std::string& budget, const std::vector<std::string>& more = {}) const {
    LocalRanksOptions options{
        .command = {LLMSIM_RUNTIME_PROGRAM, "--collectives", "--quick", "--budget", budget,
                    "--timeout", "60", "--output", output_},
        .ranks = 2,
        .grace = 5s};
    options.command.insert(options.command.end(), more.begin(), more.end());
    return run_local_ranks(options);
  }

  LocalRun measure_steps(int ranks, const std::string& budget) const {
    return run_local_ranks(
        {.command = {LLMSIM_RUNTIME_PROGRAM, "--steps", "--quick", "--resume", "--threads", "1",
                     "--budget", budget, "--timeout", "60", "--output", output_},
         .ranks = ranks});
  }

  // What a campaign that has measured `keys` and no more leaves.  A rank whose budget is spent
  // before its first case writes the header.
  void begin_file_of_two_ranks(const std::vector<std::string>& keys) const {
    const LocalRun run = measure_steps(1, "0.000000001");
    ASSERT_FALSE(run.failure) << *run.failure;
    auto header = nlohmann::json::parse(std::ifstream(output_));
    header["ranks"] = header["ranks_per_node"] = 2;
    std::ofstream file(output_);
    file << header << "\n";
    for (const std::string& key : keys)
      file << nlohmann::json{{"type", "step"}, {"key", key}} << "\n";
  }

  // Every line is a whole record, and no key comes twice.
  void expect_whole_records() const {
    std::ifstream file(output_);
    std::map<std::string, int> keys;
    for (std::string line; std::getline(file, line);) {
      const auto record = nlohmann::json::parse(line);
      EXPECT_EQ(++keys[record.value("key", "header")], 1) << line;
    }
  }

  const TemporaryFolder folder_;
  const std::string output_ = folder_ / "ranks.jsonl";
};

// Two ranks of the smallest budget: every case once, with what it sent.  DDP of two ranks sends all
// gradients in fp32 once.  Llama, whose steps take twice as long, is measured in one form: a file
// that is resumed has the others.
TEST_F(RankCampaign, MeasuresStepsThatRanksDivide) {
  const std::string llama = "step llama-4x512-v4096 s256 b2 ";
  const std::vector<std::string> others{llama + "dp2", llama + "zero12", llama + "fsdp2",
                                        llama + "tp2", llama + "pp2"};
  begin_file_of_two_ranks(others);
  const LocalRun run = measure_steps(2, "1");
  ASSERT_FALSE(run.failure) << *run.failure;
  expect_whole_records();
  std::map<std::string, nlohmann::json> records;
  std::ifstream file(output_);
  for (std::string line; std::getline(file, line);) {
    const auto record = nlohmann::json::parse(line);
    records[record.value("key", "header")] = record;
  }
  // The header; GPT-2 and Llama as dp, zero1, fsdp, tp, tp with sp, pp; experts as ep.
  EXPECT_EQ(records.size(), 1u + 2u * 6u + 1u);
  for (const auto& [key, record] : records) {
    const bool resumed = std::ranges::find(others, key) != others.end();
    EXPECT_EQ(record.contains("communication"), !resumed && key != "header") << key;
  }
  const auto& ddp = records.at("step gpt2-4x256-v8192 s256 b2 dp2");
  ASSERT_EQ(ddp.at("ranks").size(), 2u);
  EXPECT_GT(ddp.at("ranks")[1].at("peak_bytes").get<double>(), 0.0);
  // Per layer 24 t h^2 of GEMMs and 2 t s h of attention, the head 2 t h V; t = 2 * 256 tokens, s =
  // 256; backward twice all of it.
  const std::int64_t t = 512, h = 256,
                     forward = 4 * (24 * t * h * h + 2 * t * 256 * h) + 2 * t * h * 8192;
  EXPECT_EQ(ddp.at("flops").at("forward").get<std::int64_t>(), forward);
  EXPECT_EQ(ddp.at("flops").at("backward").get<std::int64_t>(), 2 * forward);
  double reduced = 0.0;
  for (const auto& one : ddp.at("communication")) {
    if (one.at("collective") == "all_reduce" && one.at("group") == "dp")
      reduced += one.at("bytes").get<double>();
  }
  // Embedding and positions (8192 + 256) h, four layers of 12 h^2 + 13 h, the last norm 2 h; h =
  // 256.
  const double parameters =
      (8192 + 256) * 256.0 + 4 * (12 * 256.0 * 256.0 + 13 * 256.0) + 2 * 256.0;
  EXPECT_NEAR(reduced, 4.0 * parameters, 64.0);
}

TEST_F(RankCampaign, KeepsItsResultsWhenARankIsKilled) {
  auto run = std::async(std::launch::async, [&] { return measure("60"); });
  const auto deadline = Clock::now() + 2min;
  while (lines_of(output_) < 3 && Clock::now() < deadline) std::this_thread::sleep_for(20ms);
  const auto victim = process_of_rank(1);
  ASSERT_TRUE(victim);
  kill(*victim, SIGKILL);
  const LocalRun killed = run.get();
  ASSERT_TRUE(killed.failure);
  EXPECT_NE(killed.failure->find("rank 1 on "), std::string::npos) << *killed.failure;
  EXPECT_NE(killed.failure->find("signal 9"), std::string::npos) << *killed.failure;
  const int lines = lines_of(output_);
  EXPECT_GE(lines, 3);
  expect_whole_records();

  const LocalRun resumed = measure("1", {"--resume"});
  EXPECT_FALSE(resumed.failure) << *resumed.failure;
  EXPECT_GT(lines_of(output_), lines);
  expect_whole_records();
}

}  // namespace
}  // namespace llmsim::runtime::rank_campaign_test
