// Gloo's collectives against those through shared memory, which add in the same order: equal to the
// bit.
#include <chrono>
#include <csignal>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "sim/base/error.h"
#include "tests/runtime/local_communicator.h"
#include "tests/runtime/thread_ranks.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;
using Group = std::vector<std::unique_ptr<Communicator>>;

// Different on every rank, of all magnitudes, so that the order of additions shows.
at::Tensor values(std::int64_t count, int rank, at::ScalarType type) {
  const at::Tensor at = at::arange(count, at::kDouble) + 1000.0 * rank;
  return ((at * 0.37).sin() * (at * 0.011).cos().exp() * (rank + 1)).to(type);
}

// Every collective once, the way a step uses them; the results of one rank.
std::vector<at::Tensor> exercise(Communicator& group, std::int64_t count, at::ScalarType type) {
  const int rank = group.rank(), size = group.size();
  std::vector<at::Tensor> results;
  const auto made = [&](std::int64_t n) { return results.emplace_back(at::zeros({n}, type)); };
  results.push_back(values(count + 1, rank, type));
  group.all_reduce(results.back());
  results.push_back(values(count + 1, rank, type));
  group.all_reduce(results.back(), Reduction::Max);
  group.all_gather(made(count * size), values(count, rank, type));
  group.reduce_scatter(made(count), values(count * size, rank, type));
  group.all_to_all(made(count * size), values(count * size, rank, type));
  for (const int root : {0, size - 1}) {
    results.push_back(values(count, rank, type));
    group.broadcast(results.back(), root);
  }
  const at::Tensor outgoing = values(count, rank, type);
  const auto sent = group.start_send(outgoing, (rank + 1) % size);
  group.receive(made(count), (rank + size - 1) % size);
  sent->wait();
  group.barrier();
  return results;
}

std::vector<std::vector<at::Tensor>> results_of(const Group& group, std::int64_t count,
                                                at::ScalarType type) {
  std::vector<std::vector<at::Tensor>> results(group.size());
  on_threads(static_cast<int>(group.size()), [&](int rank) {
    const auto i = static_cast<std::size_t>(rank);
    results[i] = exercise(*group[i], count, type);
  });
  return results;
}

class GlooCollectives : public testing::TestWithParam<int> {};

TEST_P(GlooCollectives, EqualThoseThroughSharedMemory) {
  const Group gloo = gloo_group(GetParam()), local = local_group(GetParam());
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kLong}) {
    for (const std::int64_t count : {1, 7, 30000}) {
      const auto actual = results_of(gloo, count, type), expected = results_of(local, count, type);
      for (std::size_t rank = 0; rank < actual.size(); ++rank) {
        for (std::size_t i = 0; i < actual[rank].size(); ++i) {
          EXPECT_TRUE(at::equal(actual[rank][i], expected[rank][i]))
              << "result " << i << " of rank " << rank << ", " << count << " "
              << at::toString(type);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, GlooCollectives, testing::Values(2, 3, 4, 8));

TEST(GlooCommunicator, CountsWholeBuffers) {
  const Group group = gloo_group(2);
  on_threads(2,
             [&](int rank) { exercise(*group[static_cast<std::size_t>(rank)], 10, at::kFloat); });
  const auto counted = [&](sim::CollectiveKind kind) {
    return group[1]->counts()[static_cast<std::size_t>(kind)];
  };
  EXPECT_EQ(counted(sim::CollectiveKind::AllReduce).calls, 2);
  EXPECT_EQ(counted(sim::CollectiveKind::AllReduce).bytes, 2 * 11 * 4);
  EXPECT_EQ(counted(sim::CollectiveKind::AllGather).bytes, 2 * 10 * 4);
  EXPECT_EQ(counted(sim::CollectiveKind::ReduceScatter).bytes, 2 * 10 * 4);
  EXPECT_EQ(counted(sim::CollectiveKind::AllToAll).bytes, 2 * 10 * 4);
  EXPECT_EQ(counted(sim::CollectiveKind::Broadcast).calls, 2);
  EXPECT_EQ(counted(sim::CollectiveKind::SendRecv).bytes, 10 * 4);
}

// Whoever is connected may go: that closes no connection under a member that still connects.
TEST(GlooCommunicator, AMemberMayLeaveAsSoonAsItHasTheGroup) {
  constexpr int kRanks = 4, kTimes = 25;
  const ThreadWorld world(kRanks);
  on_threads(kRanks, [&](int rank) {
    for (int time = 0; time < kTimes; ++time)
      world.connect(rank, {.ranks = {0, 1, 2, 3}, .place = rank});
  });
}

// Both stages send before they receive: sends must not wait for their receivers.
TEST(GlooCommunicator, MessagesCrossInBothDirections) {
  const Group group = gloo_group(2);
  on_threads(2, [&](int rank) {
    Communicator& own = *group[static_cast<std::size_t>(rank)];
    const at::Tensor sent = values(1 << 20, rank, at::kFloat), received = at::zeros_like(sent);
    const auto first = own.start_send(sent, 1 - rank), second = own.start_send(sent, 1 - rank);
    own.receive(received, 1 - rank);
    own.receive(received, 1 - rank);
    first->wait();
    second->wait();
    EXPECT_TRUE(at::equal(received, values(1 << 20, 1 - rank, at::kFloat)));
  });
}

// Started on both ranks before either waits, beside messages that overtake them.
TEST(GlooCommunicator, PendingCollectivesRunInOrder) {
  const Group group = gloo_group(2);
  on_threads(2, [&](int rank) {
    Communicator& own = *group[static_cast<std::size_t>(rank)];
    std::vector<at::Tensor> buffers;
    std::vector<std::unique_ptr<PendingCollective>> pending;
    for (int i = 0; i < 10; ++i) {
      buffers.push_back(at::full({100}, i + rank, at::kFloat));
      pending.push_back(own.start_all_reduce(buffers.back()));
    }
    at::Tensor message = at::full({1}, 5.0F);
    if (rank == 0) own.send(message, 1);
    if (rank == 1) own.receive(message, 0);
    for (const auto& collective : pending) collective->wait();
    for (int i = 0; i < 10; ++i)
      EXPECT_EQ(buffers[static_cast<std::size_t>(i)][99].item<float>(), 2 * i + 1);
  });
}

std::string failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Ranks 0 and 1 wait for 2 and 3, which do nothing.
TEST(GlooCommunicator, NamesAllRanksThatDoNotAnswer) {
  const Group group = gloo_group(4, 1s);
  on_threads(2, [&](int rank) {
    const std::string failure =
        failure_of([&] { group[static_cast<std::size_t>(rank)]->all_reduce(at::ones({10})); });
    EXPECT_NE(failure.find("no answer from rank"), std::string::npos) << failure;
    EXPECT_NE(failure.find("2 (host2)"), std::string::npos) << failure;
    EXPECT_EQ(failure.find("0 (host0)"), std::string::npos) << failure;
    EXPECT_EQ(failure.find("1 (host1)"), std::string::npos) << failure;
  });
}

// 0 waits for 1, which waits for 2 in vain: 2 is to blame.
TEST(GlooCommunicator, FollowsTheChainOfThoseWhoWait) {
  const Group group = gloo_group(3, 1s);
  on_threads(2, [&](int rank) {
    const std::string failure = failure_of(
        [&] { group[static_cast<std::size_t>(rank)]->receive(at::ones({10}), rank + 1); });
    EXPECT_NE(failure.find("no answer from rank 2 (host2)"), std::string::npos) << failure;
  });
}

TEST(GlooCommunicator, FailsAlikeAfterAFailure) {
  const Group group = gloo_group(2, 500ms);
  const std::string first = failure_of([&] { group[0]->barrier(); });
  EXPECT_EQ(failure_of([&] { group[0]->all_reduce(at::ones({1})); }), first);
}

// A message that leaves before this side has heard that its peer is gone raises the signal: once in
// some hundred runs.
TEST(GlooCommunicator, SurvivesAClosedSocket) {
  const Group group = gloo_group(2);
  std::raise(SIGPIPE);
}

TEST(GlooCommunicator, NamesARankThatHasLeft) {
  Group group = gloo_group(2, 5s);
  group[1].reset();
  const std::string failure = failure_of([&] {
    for (;;) group[0]->send(at::ones({1 << 10}), 1);
  });
  EXPECT_NE(failure.find("no answer from rank 1"), std::string::npos) << failure;
}

TEST(GlooCommunicator, NamesTheRankThatNeverJoins) {
  RollCall roll_call(KeyStore(c10::make_intrusive<c10d::HashStore>()), 0, 2, "host0");
  const std::string failure = failure_of([&] { roll_call.meet("group", {0, 1}, 1s); });
  EXPECT_NE(failure.find("no answer from rank 1 (never came)"), std::string::npos) << failure;
}

TEST(GlooCommunicator, RefusesPartsThatDoNotMakeTheWhole) {
  const Group group = gloo_group(1);
  EXPECT_THROW(group[0]->all_gather(at::ones({6}), at::ones({5})), Error);
  EXPECT_THROW(group[0]->reduce_scatter(at::ones({5}), at::ones({5}, at::kBFloat16)), Error);
  EXPECT_THROW(group[0]->all_to_all(at::ones({6}), at::ones({5})), Error);
  EXPECT_THROW(group[0]->all_reduce(at::ones({4, 2}).t()), Error);
}

}  // namespace
}  // namespace llmsim::runtime
