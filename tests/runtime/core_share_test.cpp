#include "runtime/parallel/process_place.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "runtime/parallel/local_ranks.h"
#include "tests/temporary_folder.h"

namespace llmsim::runtime {
namespace {

using Cores = std::vector<int>;

TEST(CoreShare, IsABlockOfItsOwn) {
  const Cores cores{0, 1, 2, 3, 8, 9, 10};
  EXPECT_EQ(core_share(cores, 0, 3), (Cores{0, 1}));
  EXPECT_EQ(core_share(cores, 1, 3), (Cores{2, 3}));
  EXPECT_EQ(core_share(cores, 2, 3), (Cores{8, 9}));
}

TEST(CoreShare, IsEmptyForMoreRanksThanCores) { EXPECT_TRUE(core_share({0, 1}, 1, 4).empty()); }

TEST(CoreShare, OfOneRankIsAll) { EXPECT_EQ(core_share(allowed_cores(), 0, 1), allowed_cores()); }

// Each rank writes the cores that it may run on: "Cpus_allowed_list:\t1" for a single one.
TEST(CoreShare, BindsLocalRanks) {
  const Cores cores = allowed_cores();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  const int ranks = static_cast<int>(cores.size());
  const TemporaryFolder folder;
  const std::string script =
      "grep Cpus_allowed_list /proc/self/status > " + folder.path() + "/$RANK";
  const LocalRun run =
      run_local_ranks({.command = {"/bin/sh", "-c", script}, .ranks = ranks, .own_cores = true});
  EXPECT_FALSE(run.failure) << *run.failure;
  for (int rank = 0; rank < ranks; ++rank) {
    std::ifstream file(folder / std::to_string(rank));
    std::string key, list;
    file >> key >> list;
    EXPECT_EQ(list, std::to_string(cores[static_cast<std::size_t>(rank)]));
  }
}

}  // namespace
}  // namespace llmsim::runtime
