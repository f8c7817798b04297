// Processes that end well, die, hang and fail.
#include "runtime/parallel/local_ranks.h"

#include <chrono>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gtest/gtest.h>

#include "runtime/parallel/world.h"
#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Ranks that load libtorch on a busy machine take seconds to come: only what must run into a limit
// has a short one.
enum class Limits { Generous, Short };

LocalRun run(int ranks, std::vector<std::string> misbehaviour, Limits limits = Limits::Generous) {
  const bool is_short = limits == Limits::Short;
  LocalRanksOptions options{.command = {RANK_PROGRAM, is_short ? "5" : "120"},
                            .ranks = ranks,
                            .grace = is_short ? 5s : 60s,
                            .patience = is_short ? 5s : 120s};
  options.command.insert(options.command.end(), misbehaviour.begin(), misbehaviour.end());
  return run_local_ranks(options);
}

TEST(LocalRanks, EndWell) {
  const LocalRun all = run(3, {});
  EXPECT_FALSE(all.failure) << *all.failure;
  ASSERT_EQ(all.ended.size(), 3u);
  for (const RankEnd& end : all.ended) EXPECT_EQ(end.exit_code, 0);
}

// The survivors fail too, but are not to blame.
TEST(LocalRanks, ADeadRankIsNamedWithItsSignal) {
  const LocalRun dead = run(3, {"1", "die"});
  ASSERT_TRUE(dead.failure);
  EXPECT_EQ(dead.failure->rfind("rank 1 on " + host_name(), 0), 0u) << *dead.failure;
  EXPECT_NE(dead.failure->find("killed by signal 9"), std::string::npos) << *dead.failure;
  EXPECT_EQ(dead.failure->find("rank 0"), std::string::npos) << *dead.failure;
  EXPECT_EQ(dead.ended[0].exit_code, 1);
  EXPECT_EQ(dead.ended[1].signal, 9);
}

// Operations time out after 5 s, and the others have 5 s to end.  The rank would hang for an hour:
// whatever is far less than that shows that it was ended.
TEST(LocalRanks, AHungRankEndsEverybodyInTime) {
  const auto start = Clock::now();
  const LocalRun hung = run(3, {"2", "hang"}, Limits::Short);
  EXPECT_LT(Clock::now() - start, 5min);
  ASSERT_TRUE(hung.failure);
  EXPECT_EQ(hung.failure->rfind("rank 2 on ", 0), 0u) << *hung.failure;
  EXPECT_NE(hung.failure->find("hung"), std::string::npos) << *hung.failure;
  EXPECT_EQ(hung.failure->find("rank 0"), std::string::npos) << *hung.failure;
}

TEST(LocalRanks, AFailedRankIsNamedWithItsExitCode) {
  const LocalRun failed = run(2, {"0", "fail"});
  ASSERT_TRUE(failed.failure);
  EXPECT_EQ(failed.failure->rfind("rank 0 on ", 0), 0u) << *failed.failure;
  EXPECT_NE(failed.failure->find("exit code 3"), std::string::npos) << *failed.failure;
  EXPECT_EQ(failed.failure->find("rank 1"), std::string::npos) << *failed.failure;
}

TEST(LocalRanks, ARankThatOutlivesTheOthersIsEnded) {
  const LocalRun lingering = run(2, {"1", "linger"}, Limits::Short);
  ASSERT_TRUE(lingering.failure);
  EXPECT_EQ(lingering.failure->rfind("rank 1 on ", 0), 0u) << *lingering.failure;
  EXPECT_EQ(lingering.ended[0].exit_code, 0);
}

TEST(LocalRanks, RefuseAProgramThatIsNot) {
  EXPECT_THROW(run_local_ranks({.command = {"/no/such/program"}}), Error);
}

TEST(World, NamesTheMissingRank) {
  const ProcessPlace place{.rank = 0, .ranks = 2, .store_port = 0};
  try {
    const World world(place, Transport::Gloo, 1s);
    FAIL() << "a world of one of two ranks";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no answer from rank 1"), std::string::npos)
        << error.what();
  }
}

TEST(World, OfGpusWantsADevice) {
  if (c10::impl::hasDeviceGuardImpl(at::kCUDA)) GTEST_SKIP() << "there is a device";
  const World world({.store_port = 0}, Transport::Nccl, 1s);
  EXPECT_THROW(world.connect_all(), Error);
}

TEST(World, RefusesAnUnknownHost) { EXPECT_THROW(address_towards("no.such.host.invalid"), Error); }

}  // namespace
}  // namespace llmsim::runtime
