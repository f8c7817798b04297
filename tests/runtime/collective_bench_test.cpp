#include "runtime/measure/collective_bench.h"

#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/runtime/thread_ranks.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;

// Two nodes of eight: pairs, quads and whole nodes, strided ones, and all combinations that leave
// the node.
TEST(GroupShapes, OfTwoNodesOfEight) {
  const std::vector<GroupShape> expected{{2, 1}, {2, 2}, {2, 4}, {2, 8}, {4, 1},
                                         {4, 2}, {4, 4}, {8, 1}, {8, 2}, {16, 1}};
  EXPECT_EQ(group_shapes(16, 8), expected);
}

TEST(GroupShapes, OfANodeOfSix) {
  const std::vector<GroupShape> expected{{2, 1}, {3, 2}, {6, 1}};
  EXPECT_EQ(group_shapes(6, 6), expected);
}

TEST(GroupShapes, OfOneRankAreNone) { EXPECT_TRUE(group_shapes(1, 1).empty()); }

// The groups of a shape divide the world: every rank is in one, at the place that it has there.
TEST(GroupShapes, DivideTheWorld) {
  for (const GroupShape& shape : group_shapes(16, 8)) {
    for (int rank = 0; rank < 16; ++rank) {
      const GroupMembers members = members_of(shape, rank);
      EXPECT_EQ(members.ranks[static_cast<std::size_t>(members.place)], rank);
      EXPECT_LT(members.ranks.back(), 16);
    }
  }
}

CollectiveBenchOptions small_bench() {
  CollectiveBenchOptions options;
  options.ranks_per_node = 2;
  options.smallest = 1.0 * sim::KiB;
  options.largest = 64.0 * sim::KiB;
  options.gemm_size = 64;
  options.after_gemms = true;
  options.repeats = {
      .warm_up = 1, .least = 2, .most = 2, .precision = 0.1, .budget = sim::Seconds(0.01)};
  return options;
}

// The records of a bench of four ranks on two nodes.
std::map<std::string, json> bench(CollectiveBenchOptions options) {
  std::map<std::string, json> records;
  options.record = [&](const json& record) {
    EXPECT_TRUE(records.emplace(record.at("key"), record).second)
        << record.at("key") << " came twice";
  };
  ThreadWorld world(4);
  on_threads(4, [&](int rank) {
    const auto everyone = world.connect(rank, members_of({4, 1}, rank));
    bench_collectives(
        *everyone, [&](const GroupMembers& members) { return world.connect(rank, members); },
        options);
  });
  return records;
}

// Shapes 2x1, 4x1 and 2x2, two formats: 6 kinds of 4 sizes (1, 4, 16, 64 KiB), and 3 kinds beside
// GEMMs.
TEST(CollectiveBench, MeasuresEveryKindOverEveryShape) {
  const auto records = bench(small_bench());
  EXPECT_EQ(records.size(), 3u * 2u * (6u * 4u + 3u));
  const json& one = records.at("collective/all_reduce/bf16/2x2/4096");
  EXPECT_EQ(one.at("bytes"), 4096);
  EXPECT_EQ(one.at("nodes"), 2);
  EXPECT_EQ(one.at("ranks_per_node"), 1);
  EXPECT_EQ(one.at("groups"), 2);
  EXPECT_GT(one.at("median_s").get<double>(), 0.0);
  EXPECT_NEAR(one.at("busbw_bytes_per_s").get<double>(), 4096.0 / one.at("median_s").get<double>(),
              1e-3);
  const json& beside = records.at("overlap/all_gather/fp32/4x1");
  EXPECT_NEAR(beside.at("gemm_slowdown").get<double>(),
              beside.at("gemm_beside_s").get<double>() / beside.at("gemm_alone_s").get<double>(),
              1e-9);
  EXPECT_GT(beside.at("collective_beside_s").get<double>(), 0.0);
}

TEST(CollectiveBench, LeavesOutWhatTheFileHas) {
  CollectiveBenchOptions options = small_bench();
  options.overlap = false;
  options.has = [](const std::string& key) {
    return key.find("all_reduce/fp32/2x1") == std::string::npos;
  };
  const auto records = bench(options);
  EXPECT_EQ(records.size(), 4u);
  EXPECT_TRUE(records.contains("collective/all_reduce/fp32/2x1/1024"));
}

// A thousandth of a second for everything: no series reaches a gigabyte.
TEST(CollectiveBench, EndsASeriesWhenItsShareIsSpent) {
  CollectiveBenchOptions options = small_bench();
  options.overlap = false;
  options.largest = 1.0 * sim::GiB;
  options.budget = sim::Seconds(0.001);
  const auto records = bench(options);
  EXPECT_TRUE(records.contains("collective/broadcast/fp32/2x1/1024"));
  EXPECT_FALSE(records.contains("collective/broadcast/fp32/2x1/1073741824"));
}

}  // namespace
}  // namespace llmsim::runtime
