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

using Keys = std::vector<std::string>;

Keys keys_of(const std::string& model, const std::vector<std::string>& forms) {
  Keys keys;
  for (const std::string& form : forms) keys.push_back("step " + model + " s256 b2 " + form);
  return keys;
}

// Two ranks measure GPT-2, Llama and a model of experts in every form that divides them.  Tests
// share the cases: each resumes a file that has those of the others.
const Keys kGpt2 = keys_of("gpt2-4x256-v8192", {"dp2", "zero12", "fsdp2", "tp2", "tp-sp2", "pp2"}),
           kExperts = keys_of("moe-3x256-v4096", {"ep2"}),
           kDataParallelLlama = keys_of("llama-4x512-v4096", {"dp2", "zero12", "fsdp2"}),
           kModelParallelLlama = keys_of("llama-4x512-v4096", {"tp2", "tp-sp2", "pp2"});

Keys joined(const std::vector<Keys>& parts) {
  Keys all;
  for (const Keys& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

using Records = std::map<std::string, nlohmann::json>;

double reduced_bytes(const nlohmann::json& record) {
  double bytes = 0.0;
  for (const auto& one : record.at("communication")) {
    if (one.at("collective") == "all_reduce" && one.at("group") == "dp")
      bytes += one.at("bytes").get<double>();
  }
  return bytes;
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

  // What a campaign measures by key, where its file has `others` already.
  Records measure_steps_of(const std::vector<Keys>& own, const std::vector<Keys>& others) const {
    begin_file_of_two_ranks(joined(others));
    const LocalRun run = measure_steps(2, "1");
    EXPECT_FALSE(run.failure) << *run.failure;
    expect_whole_records();
    Records measured;
    std::ifstream file(output_);
    for (std::string line; std::getline(file, line);) {
      const auto record = nlohmann::json::parse(line);
      if (record.contains("communication")) measured[record.at("key")] = record;
    }
    Keys expected = joined(own), keys;
    std::ranges::sort(expected);
    for (const auto& [key, record] : measured) keys.push_back(key);
    EXPECT_EQ(keys, expected);
    return measured;
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

// DDP of two ranks sends all gradients in fp32 once.
TEST_F(RankCampaign, MeasuresStepsOfGpt2AndExpertsThatRanksDivide) {
  const Records records =
      measure_steps_of({kGpt2, kExperts}, {kDataParallelLlama, kModelParallelLlama});
  const auto& ddp = records.at(kGpt2.front());
  ASSERT_EQ(ddp.at("ranks").size(), 2u);
  EXPECT_GT(ddp.at("ranks")[1].at("peak_bytes").get<double>(), 0.0);
  // Per layer 24 t h^2 of GEMMs and 2 t s h of attention, the head 2 t h V; t = 2 * 256 tokens, s =
  // 256; backward twice all of it.
  const std::int64_t t = 512, h = 256,
                     forward = 4 * (24 * t * h * h + 2 * t * 256 * h) + 2 * t * h * 8192;
  EXPECT_EQ(ddp.at("flops").at("forward").get<std::int64_t>(), forward);
  EXPECT_EQ(ddp.at("flops").at("backward").get<std::int64_t>(), 2 * forward);
  // Embedding and positions (8192 + 256) h, four layers of 12 h^2 + 13 h, the last norm 2 h; h =
  // 256.
  const double parameters =
      (8192 + 256) * 256.0 + 4 * (12 * 256.0 * 256.0 + 13 * 256.0) + 2 * 256.0;
  EXPECT_NEAR(reduced_bytes(ddp), 4.0 * parameters, 64.0);
}

TEST_F(RankCampaign, MeasuresStepsOfDataParallelLlama) {
  const Records records =
      measure_steps_of({kDataParallelLlama}, {kGpt2, kExperts, kModelParallelLlama});
  const auto& ddp = records.at(kDataParallelLlama.front());
  // Per layer h^2 weights each for queries and the output, half of it each for keys and values, and
  // three matrices of h times f.
  const std::int64_t t = 512, h = 512, f = 1408, weights = 3 * h * h + 3 * h * f,
                     forward = 4 * (2 * t * weights + 2 * t * 256 * h) + 2 * t * h * 4096;
  EXPECT_EQ(ddp.at("flops").at("forward").get<std::int64_t>(), forward);
  EXPECT_EQ(ddp.at("flops").at("backward").get<std::int64_t>(), 2 * forward);
  // Embedding and head 4096 h each, two norms a layer and the last of h.
  const auto parameters = double(2 * 4096 * h + 4 * (weights + 2 * h) + h);
  EXPECT_NEAR(reduced_bytes(ddp), 4.0 * parameters, 64.0);
}

TEST_F(RankCampaign, MeasuresStepsOfModelParallelLlama) {
  const Records records =
      measure_steps_of({kModelParallelLlama}, {kGpt2, kExperts, kDataParallelLlama});
  const auto forward = [&](const std::string& key) {
    return records.at(key).at("flops").at("forward").get<std::int64_t>();
  };
  // As above; tensor ranks halve every GEMM, and the first of two stages has half the layers and no
  // head, for four micro-batches.
  const std::int64_t t = 512, h = 512, f = 1408, weights = 3 * h * h + 3 * h * f,
                     layers = 4 * (2 * t * weights + 2 * t * 256 * h);
  EXPECT_EQ(forward(kModelParallelLlama[0]), (layers + 2 * t * h * 4096) / 2);
  EXPECT_EQ(forward(kModelParallelLlama[1]), (layers + 2 * t * h * 4096) / 2);
  EXPECT_EQ(forward(kModelParallelLlama[2]), 4 * layers / 2);
  // It sends t h values in fp32 for each micro-batch.
  for (const auto& one : records.at(kModelParallelLlama[2]).at("communication")) {
    if (one.at("collective") == "send_recv") {
      EXPECT_EQ(one.at("bytes"), 4 * t * h * 4);
    }
  }
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
