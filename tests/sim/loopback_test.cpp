#include "sim/cost/loopback.h"

#include <gtest/gtest.h>

namespace llmsim::sim {
namespace {

// Processes that exchange 1 GB/s, add up 4 GB/s, and take 100 us to wake each other.
GroupLinks processes(int ranks) {
  GroupLinks links;
  links.place.ranks = links.place.ranks_per_domain = ranks;
  links.fabric = 1.0 * GBps;
  links.sums = 4.0 * GBps;
  links.fabric_hop = 100.0 * us;
  links.loopback = true;
  return links;
}

void expect_time(CollectiveKind kind, double megabytes, int ranks, double milliseconds) {
  EXPECT_NEAR(collective_time(kind, Bytes(megabytes * 1e6), processes(ranks)) / ms, milliseconds, 1e-9) << name_of(kind);
}

// Of 8 MB two ranks send each other 4 MB, in 4 ms, and add them up in 1 ms.
TEST(Loopback, TwoRanksExchangeHalves) {
  expect_time(CollectiveKind::AllGather, 8.0, 2, 0.1 + 4.0);
  expect_time(CollectiveKind::AllToAll, 8.0, 2, 0.1 + 4.0);
  expect_time(CollectiveKind::ReduceScatter, 8.0, 2, 0.1 + 4.0 + 1.0);
}

TEST(Loopback, AnAllReduceIsAReduceScatterAndAnAllGather) { expect_time(CollectiveKind::AllReduce, 8.0, 2, 5.1 + 4.1); }

TEST(Loopback, MessagesBetweenTwoAreWhole) {
  expect_time(CollectiveKind::SendRecv, 8.0, 2, 0.1 + 8.0);
  expect_time(CollectiveKind::Broadcast, 8.0, 2, 0.1 + 8.0);
}

// Three quarters of the message; a broadcast goes on in two rounds.
TEST(Loopback, FourRanks) {
  expect_time(CollectiveKind::AllGather, 8.0, 4, 0.1 + 6.0);
  expect_time(CollectiveKind::Broadcast, 8.0, 4, 2.0 * 8.1);
}

TEST(Loopback, SumsAreFreeWhereTheirRateIsUnknown) {
  GroupLinks links = processes(2);
  links.sums = BytesPerSecond(0.0);
  EXPECT_EQ(collective_time(CollectiveKind::ReduceScatter, 1.0 * MB, links),
            collective_time(CollectiveKind::AllGather, 1.0 * MB, links));
}

// Over several hosts the network's formulas hold.
TEST(Loopback, IsOfOneHost) {
  GroupLinks links = processes(2);
  links.place.ranks_per_domain = 1;
  links.place.domains = 2;
  links.network = 10.0 * GBps;
  EXPECT_LT(collective_time(CollectiveKind::AllGather, 8.0 * MB, links), 2.0 * ms);
}

}  // namespace
}  // namespace llmsim::sim
