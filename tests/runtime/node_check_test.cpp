// Planted faults are found, and nothing else is.
#include "runtime/measure/node_check.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tests/runtime/thread_ranks.h"

namespace llmsim::runtime {
namespace {

using sim::Seconds;

// Repeats around `middle` that differ by half a per cent.
Times repeats(double middle) {
  Times times;
  for (int i = 0; i < 15; ++i) times.push_back(Seconds(middle * (1.0 + 0.005 * (i % 3))));
  return times;
}

// Two nodes of four: links within take 1 s, across 5 s.
NodeReadings healthy() {
  NodeReadings readings;
  for (int rank = 0; rank < 8; ++rank) {
    readings.hosts.push_back(rank < 4 ? "left" : "right");
    readings.gemm.push_back(repeats(1.0));
    readings.copy.push_back(repeats(2.0));
    readings.ring.push_back(repeats(3.0));
    for (int other = rank + 1; other < 8; ++other) {
      readings.links.push_back({rank, other, repeats((rank < 4) == (other < 4) ? 1.0 : 5.0)});
    }
  }
  return readings;
}

void slow_down(NodeReadings& readings, int first, int second, double factor) {
  for (LinkTimes& link : readings.links) {
    if (link.first != first || link.second != second) continue;
    for (Seconds& time : link.times) time *= factor;
  }
}

TEST(NodeCheck, FindsNothingOnAHealthyMachine) { EXPECT_TRUE(findings_of(healthy(), 0.1).empty()); }

TEST(NodeCheck, FindsASlowDevice) {
  NodeReadings readings = healthy();
  readings.gemm[2] = repeats(1.5);
  const auto findings = findings_of(readings, 0.1);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].fault, Fault::SlowGemm);
  EXPECT_EQ(findings[0].text,
            "rank 2 (left): a GEMM takes 1.50x the median of all ranks: slow device");
}

TEST(NodeCheck, LetsAFewPerCentPass) {
  NodeReadings readings = healthy();
  readings.gemm[2] = repeats(1.08);
  EXPECT_TRUE(findings_of(readings, 0.1).empty());
}

TEST(NodeCheck, FindsSlowMemory) {
  NodeReadings readings = healthy();
  readings.copy[7] = repeats(2.6);
  const auto findings = findings_of(readings, 0.1);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].fault, Fault::SlowCopy);
  EXPECT_EQ(findings[0].ranks, std::vector<int>{7});
}

// 3 s within a node are slow, though links across take 5 s.
TEST(NodeCheck, ComparesLinksWithTheirLike) {
  NodeReadings readings = healthy();
  slow_down(readings, 1, 3, 3.0);
  const auto findings = findings_of(readings, 0.1);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].fault, Fault::SlowLink);
  EXPECT_EQ(findings[0].ranks, (std::vector<int>{1, 3}));
}

// All four links of rank 5 to the other node: its port, not four links.
TEST(NodeCheck, FindsASlowPort) {
  NodeReadings readings = healthy();
  for (int other = 0; other < 4; ++other) slow_down(readings, other, 5, 2.0);
  const auto findings = findings_of(readings, 0.1);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].fault, Fault::SlowLinks);
  EXPECT_EQ(findings[0].ranks, std::vector<int>{5});
}

// Five of fifteen repeats take 1.4 times as long: the median shows nothing.
TEST(NodeCheck, FindsABadState) {
  NodeReadings readings = healthy();
  for (std::size_t i = 0; i < 5; ++i) readings.gemm[6][3 * i] *= 1.4;
  const auto findings = findings_of(readings, 0.1);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].fault, Fault::Bimodal);
  EXPECT_EQ(findings[0].ranks, std::vector<int>{6});
}

TEST(TwoGroups, AreNotAnOutlierNorASpread) {
  Times times = repeats(1.0);
  times[0] *= 3.0;
  EXPECT_FALSE(two_groups(times));
  Times spread;
  for (int i = 0; i < 15; ++i) spread.push_back(Seconds(1.0 + 0.1 * i));
  EXPECT_FALSE(two_groups(spread));
}

TEST(Partners, MeetEachOtherOnce) {
  for (const int ranks : {2, 5, 8}) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < ranks - 1 + ranks % 2; ++round) {
      for (int rank = 0; rank < ranks; ++rank) {
        const auto partner = partner_of(rank, round, ranks);
        if (!partner) continue;
        EXPECT_EQ(partner_of(*partner, round, ranks), rank);
        EXPECT_EQ(met.insert(std::minmax(rank, *partner)).second, rank < *partner);
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(ranks * (ranks - 1) / 2));
  }
}

// What they give is planted: nothing depends on how fast this machine is, or what else it does.
NodeProbes planted(Seconds gemm) {
  return {.gemm = [=] { return gemm; }, .copy = [] { return Seconds(0.01); }};
}

// Three ranks take 10 ms, rank 2 takes 40: it is named, on every rank alike.
TEST(NodeCheck, MeasuresAPlantedSlowRank) {
  const auto group = gloo_group(4);
  const std::vector<std::string> hosts{"a", "a", "b", "b"};
  NodeCheckOptions options;
  options.message = 4.0 * sim::KiB;
  options.repeats = 5;
  on_threads(4, [&](int rank) {
    const NodeReadings readings = read_nodes(*group[static_cast<std::size_t>(rank)], hosts,
                                             planted(Seconds(rank == 2 ? 0.04 : 0.01)), options);
    EXPECT_EQ(readings.links.size(), 6u);
    std::set<int> slow;
    for (const Finding& finding : findings_of(readings, 0.5)) {
      if (finding.fault == Fault::SlowGemm) slow.insert(finding.ranks[0]);
    }
    EXPECT_EQ(slow, std::set<int>{2});
  });
}

TEST(DeviceProbes, TakeTime) {
  const NodeProbes probes = device_probes(c10::kCPU, 64, 64.0 * sim::KiB);
  EXPECT_GT(probes.gemm(), Seconds(0.0));
  EXPECT_GT(probes.copy(), Seconds(0.0));
}

}  // namespace
}  // namespace llmsim::runtime
