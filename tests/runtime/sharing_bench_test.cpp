#include "runtime/measure/sharing_bench.h"

#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/runtime/thread_ranks.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;

std::map<std::string, json> bench(SharingBenchOptions options) {
  std::map<std::string, json> records;
  options.record = [&](const json& record) {
    EXPECT_TRUE(records.emplace(record.at("key"), record).second)
        << record.at("key") << " came twice";
  };
  options.local_ranks = 2;
  options.cache = 1.0 * sim::MiB;
  options.budget = sim::Seconds(0.01);
  ThreadWorld world(2);
  on_threads(2, [&](int rank) {
    SharingBenchOptions own = options;
    own.local_rank = rank;
    bench_sharing(*world.connect(rank, {.ranks = {0, 1}, .place = rank}), own);
  });
  return records;
}

// However short the budget, each call is measured alone and together.
TEST(SharingBench, MeasuresEveryCallAloneAndTogether) {
  const auto records = bench({});
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records.at("sharing/copy").at("bytes"), 4 << 20);
  EXPECT_EQ(records.at("sharing/cached_copy").at("bytes"), 1 << 17);
  for (const auto& [key, record] : records) {
    EXPECT_EQ(record.at("ranks"), 2) << key;
    EXPECT_GT(record.at("alone_s").get<double>(), 0.0) << key;
    EXPECT_GT(record.at("together_s").get<double>(), 0.0) << key;
    EXPECT_GT(record.at("slowdown").get<double>(), 0.3) << key;
    EXPECT_GE(record.at("repeats_n"), 3) << key;
  }
}

TEST(SharingBench, LeavesOutWhatTheFileHas) {
  SharingBenchOptions options;
  options.has = [](const std::string& key) { return key != "sharing/gemm"; };
  const auto records = bench(options);
  EXPECT_EQ(records.size(), 1u);
  EXPECT_TRUE(records.contains("sharing/gemm"));
}

}  // namespace
}  // namespace llmsim::runtime
