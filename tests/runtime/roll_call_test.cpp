#include "runtime/parallel/roll_call.h"

#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/parallel/key_store.h"
#include "runtime/parallel/rank_groups.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;

// As many as a campaign of 64 nodes has, each with its own connection to the store.  Every rank
// asks it a few times: 512 that each asked for all took 16 s.
TEST(RollCall, OfManyRanksTakesSeconds) {
  constexpr int kRanks = 512;
  const KeptStore kept = keep_store();
  std::vector<std::unique_ptr<RollCall>> ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.push_back(std::make_unique<RollCall>(reach_store("127.0.0.1", kept.port, false, 0, 60s),
                                               rank, kRanks, "host" + std::to_string(rank / 8)));
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (const auto& one : ranks)
    threads.emplace_back([&one] { one->meet("world", all_ranks(kRanks), 60s); });
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 10.0);  // 1 s on an idle machine
  RecordProperty("seconds", std::to_string(took.count()));
  for (const auto& one : ranks) {
    EXPECT_EQ(one->host_of(0), "host0");
    EXPECT_EQ(one->host_of(kRanks - 1), "host63");
    EXPECT_TRUE(one->gave_up().empty());
  }
  ranks[7]->give_up();
  ranks[7]->meet("left", {7}, 1s);  // the store has heard of it
  EXPECT_EQ(ranks[500]->gave_up(), std::vector<int>{7});
}

}  // namespace
}  // namespace llmsim::runtime
