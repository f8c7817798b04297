#include "sim/cost/collective.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "sim/cost/price.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

GroupLinks links_of(const TrainingRun& run, GroupKind kind) {
  return group_links(run.strategy, kind, run.cluster, 1.0);
}

TEST(Collective, OneRankIsFree) {
  const GroupLinks links = links_of(small_run(1), GroupKind::Data);
  for (const auto kind :
       {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::SendRecv}) {
    EXPECT_EQ(collective_time(kind, 1.0 * GiB, links), Seconds(0.0));
  }
}

TEST(Collective, LargeMessagesRunAtTheBusBandwidth) {
  // 8 ranks in one node at 100 GB/s: an all-gather of S moves 7/8 S, an all-reduce twice that;
  // latencies are microseconds.
  const GroupLinks links = links_of(small_run(8), GroupKind::Data);
  const double size = 8e9;
  EXPECT_NEAR(collective_time(CollectiveKind::AllGather, Bytes(size), links).value(),
              7.0 / 8.0 * size / 100e9, 1e-4);
  EXPECT_NEAR(collective_time(CollectiveKind::AllReduce, Bytes(size), links).value(),
              2.0 * 7.0 / 8.0 * size / 100e9, 1e-4);
}

TEST(Collective, AcrossNodesTheNetworkSetsThePace) {
  // 16 ranks on two nodes of 80 GB/s injection: bus bandwidth 80 GB/s, below the fabric's 100.
  const GroupLinks links = links_of(small_run(16), GroupKind::Data);
  EXPECT_NEAR(links.bus_bandwidth() / GBps, 80.0, 1e-9);
}

TEST(Collective, GroupsSideBySideShareTheNetwork) {
  // tp 4: four data groups leave each node, so each gets a quarter of 80 GB/s.
  TrainingRun run = small_run(16);
  run.strategy.tp = 4, run.strategy.dp = 4;
  EXPECT_NEAR(links_of(run, GroupKind::Data).bus_bandwidth() / GBps, 20.0, 1e-9);
}

TEST(Collective, AMeshGivesAPairOneLink) {
  TrainingRun run = small_run(8);
  run.cluster.fabric.kind = FabricKind::Mesh;
  run.cluster.fabric.device_bandwidth = 448.0 * GBps;
  run.cluster.fabric.pair_bandwidth = 64.0 * GBps;
  EXPECT_NEAR(links_of(run, GroupKind::Data).fabric / GBps, 448.0, 1e-9);
  run.strategy.tp = 2, run.strategy.dp = 4;
  EXPECT_NEAR(links_of(run, GroupKind::Tensor).fabric / GBps, 64.0, 1e-9);
}

TEST(Collective, APackagePairIsFasterThanItsNeighbours) {
  TrainingRun run = small_run(8);
  run.cluster.fabric.kind = FabricKind::Paired;
  run.cluster.fabric.package_bandwidth = 200.0 * GBps;
  run.cluster.fabric.pair_bandwidth = 50.0 * GBps;
  run.strategy.tp = 2, run.strategy.dp = 4;
  EXPECT_NEAR(links_of(run, GroupKind::Tensor).fabric / GBps, 200.0, 1e-9);
  EXPECT_LT(links_of(run, GroupKind::Data).fabric, 200.0 * GBps);
}

// Two packages joined by narrow links form two rings, one each way; all four packages four.
TEST(Collective, PackagesFormARingForEachOfThem) {
  TrainingRun run = small_run(8);
  run.cluster.fabric.kind = FabricKind::Paired;
  run.cluster.fabric.package_bandwidth = 200.0 * GBps;
  run.cluster.fabric.pair_bandwidth = 50.0 * GBps;
  run.cluster.fabric.device_bandwidth = 300.0 * GBps;
  EXPECT_NEAR(links_of(run, GroupKind::Data).fabric / GBps, 200.0, 1e-9);
  run.strategy.tp = 4, run.strategy.dp = 2;
  EXPECT_NEAR(links_of(run, GroupKind::Tensor).fabric / GBps, 100.0, 1e-9);
  EXPECT_NEAR(links_of(run, GroupKind::Data).fabric / GBps, 50.0, 1e-9);  // ranks 0 and 4
  run.cluster.fabric.device_bandwidth = 75.0 * GBps;
  EXPECT_NEAR(links_of(run, GroupKind::Tensor).fabric / GBps, 75.0, 1e-9);
}

// 64 ranks on 8 nodes, 30 us a step: 63 steps take 1.89 ms whatever the protocol.  64 MiB at 80 GB/s
// would take 0.83 ms, 256 MiB 3.3 ms; pieces below 16 KiB wait for nobody.
TEST(Collective, ARingWhosePiecesWaitTakesAStepForEach) {
  TrainingRun run = small_run(64);
  run.cluster.network.ring_step = Seconds(30e-6);
  const auto bytes_take = [&](CollectiveKind kind, Bytes message) {
    return collective_terms(kind, message, links_of(run, GroupKind::Data)).beta().value();
  };
  EXPECT_NEAR(bytes_take(CollectiveKind::AllGather, 64.0 * MiB), 63 * 30e-6, 1e-9);
  EXPECT_NEAR(bytes_take(CollectiveKind::ReduceScatter, 64.0 * MiB), 63 * 30e-6, 1e-9);
  EXPECT_NEAR(bytes_take(CollectiveKind::AllGather, 1.0 * MiB), 63 * 30e-6, 1e-9);
  EXPECT_LT(bytes_take(CollectiveKind::AllGather, 0.99 * MiB), 63e-6);
  EXPECT_NEAR(bytes_take(CollectiveKind::AllGather, 256.0 * MiB), 63.0 / 64.0 * 268.4e6 / 80e9,
              1e-6);
  run.cluster.algorithm = CollectiveAlgorithm::Ring;
  EXPECT_NEAR(bytes_take(CollectiveKind::AllReduce, 64.0 * MiB), 2 * 63 * 30e-6, 1e-9);
}

TEST(Collective, ATreeOverTwoNodesSendsEachByteOnce) {
  // 16 ranks on two nodes: a tree crosses 80 GB/s with 2 (2-1)/2 S, a ring with 2 (16-1)/16 S;
  // inside, 2 * 15/16 S at 100 GB/s is longer than 1 S at 80.  Every tree runs at 0.92 and holds
  // back 13.6 MB at its one level, each way, at 80 GB/s.
  const double size = 8e9;
  const double tree = (2.0 * 15.0 / 16.0 * size / 100e9 + 2.0 * 13.6e6 / 80e9) / 0.92;
  const double ring = 2.0 * 15.0 / 16.0 * size / 80e9;
  ASSERT_LT(tree, ring);
  EXPECT_NEAR(collective_time(CollectiveKind::AllReduce, Bytes(size),
                              links_of(small_run(16), GroupKind::Data))
                  .value(),
              tree, 1e-4);
}

TEST(Collective, TwoRanksBehindASwitchReachLessThanEight) {
  // (1 + 1.6/64) / (1 + 1.6/4) = 0.732 of 100 GB/s, half of the message on the wire.
  const double expected = 0.5 * 8e9 / (100e9 * 1.025 / 1.4);
  EXPECT_NEAR(collective_time(CollectiveKind::AllGather, Bytes(8e9),
                              links_of(small_run(2), GroupKind::Data))
                  .value(),
              expected, 1e-4);
}

TEST(Collective, TimeGrowsWithSizeAndRanks) {
  Seconds last;
  for (const double size : {1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}) {
    const Seconds time = collective_time(CollectiveKind::AllReduce, Bytes(size),
                                         links_of(small_run(16), GroupKind::Data));
    EXPECT_GT(time, last);
    last = time;
  }
  EXPECT_LT(collective_time(CollectiveKind::AllGather, 1.0 * GB,
                            links_of(small_run(16), GroupKind::Data)),
            collective_time(CollectiveKind::AllGather, 1.0 * GB,
                            links_of(small_run(64), GroupKind::Data)));
}

TEST(Collective, SocketsCarryWhatTheHostsKernelsDo) {
  // Two nodes of 80 GB/s adapters: over sockets 3.2 GB/s whatever the adapters are, and tp 4 still
  // shares them by four.
  TrainingRun run = small_run(16);
  run.cluster.network.transport = Transport::Sockets;
  run.cluster.network.socket_bandwidth = 3.2 * GBps;
  EXPECT_NEAR(links_of(run, GroupKind::Data).network / GBps, 3.2, 1e-9);
  run.strategy.tp = 4, run.strategy.dp = 4;
  EXPECT_NEAR(links_of(run, GroupKind::Data).network / GBps, 0.8, 1e-9);
  run.cluster.network.node_bandwidth = 1.6 * GBps;
  EXPECT_NEAR(links_of(run, GroupKind::Data).network / GBps, 0.4, 1e-9);
}

// 16 ranks on two nodes, S = 8 GB: a rank sends 7/16 S to its neighbours at 100 GB/s, 35 ms, and
// 8/16 S to the other node, over adapters of 80 GB/s that all eight ranks of its node share: 8 * 4
// GB / 80 GB/s = 400 ms.
TEST(Collective, RanksOfANodeShareItsInjectionInAnAllToAll) {
  const double far = 8.0 * 4e9 / 80e9;
  EXPECT_NEAR(collective_time(CollectiveKind::AllToAll, Bytes(8e9),
                              links_of(small_run(16), GroupKind::Data))
                  .value(),
              far, 1e-4);
  // Of groups of two ranks a node (tp 4) four share them: 2 * 4 GB / 20 GB/s, the same.
  TrainingRun run = small_run(16);
  run.strategy.tp = 4, run.strategy.dp = 4;
  EXPECT_NEAR(
      collective_time(CollectiveKind::AllToAll, Bytes(8e9), links_of(run, GroupKind::Data)).value(),
      far, 1e-4);
}

TEST(Collective, AHierarchyCrossesEachLevelOnceAndDecaysWithNoRing) {
  // 64 ranks on 8 nodes, S = 8 GB: inside 7/8 S at 100 GB/s, between nodes 7/8 S at 80 GB/s; rings
  // lose half over 8 nodes at a decay of 1/2.
  TrainingRun run = small_run(64);
  run.cluster.network.ring_decay = 0.5;
  const double ring = 63.0 / 64.0 * 8e9 / (80e9 / 2.0);
  EXPECT_NEAR(collective_time(CollectiveKind::AllGather, Bytes(8e9), links_of(run, GroupKind::Data))
                  .value(),
              ring, 1e-4);
  run.cluster.algorithm = CollectiveAlgorithm::Hierarchical;
  const double levels = 7.0 / 8.0 * 8e9 / 100e9 + 7.0 / 8.0 * 8e9 / 80e9;
  EXPECT_NEAR(collective_time(CollectiveKind::AllGather, Bytes(8e9), links_of(run, GroupKind::Data))
                  .value(),
              levels, 1e-4);
  EXPECT_NEAR(collective_time(CollectiveKind::AllReduce, Bytes(8e9), links_of(run, GroupKind::Data))
                  .value(),
              2.0 * levels, 1e-4);
}

TEST(Collective, SmallMessagesTakeLogarithmicallyManyHopsInAHierarchy) {
  // 512 nodes of one rank, 10 us per hop, 1 kB at the low-latency protocol (hops at 2.7/14): 511
  // hops in a ring, log2(512) = 9 in a hierarchy.
  TrainingRun run = small_run(512);
  run.cluster.devices_per_node = run.cluster.fabric.devices = 1;
  run.cluster.network.latency = Seconds(10e-6);
  const double hop = 10e-6 * 2.7 / 14.0;
  EXPECT_NEAR(collective_time(CollectiveKind::AllGather, Bytes(1e3), links_of(run, GroupKind::Data))
                  .value(),
              6.6e-6 + 511 * hop, 1e-7);
  run.cluster.algorithm = CollectiveAlgorithm::Hierarchical;
  EXPECT_NEAR(collective_time(CollectiveKind::AllGather, Bytes(1e3), links_of(run, GroupKind::Data))
                  .value(),
              6.6e-6 + 9 * hop, 1e-7);
}

TEST(Collective, TheFastestOfRingAndTreeIsTakenUnlessTheRunSaysWhich) {
  TrainingRun run = small_run(64);
  const auto time = [&](CollectiveAlgorithm algorithm) {
    run.cluster.algorithm = algorithm;
    return collective_time(CollectiveKind::AllReduce, Bytes(1e9), links_of(run, GroupKind::Data));
  };
  EXPECT_EQ(time(CollectiveAlgorithm::Auto),
            std::min(time(CollectiveAlgorithm::Ring), time(CollectiveAlgorithm::Tree)));
  EXPECT_NE(time(CollectiveAlgorithm::Ring), time(CollectiveAlgorithm::Tree));
}

// nccl-tests' PERFORMANCE.md: 2 (n - 1) / n, (n - 1) / n, 1.
TEST(BusFactor, IsThatOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::AllReduce, 8), 1.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::AllGather, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::ReduceScatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::AllToAll, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::Broadcast, 8), 1.0);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::SendRecv, 8), 1.0);
}

TEST(CollectiveTerms, AreLatencyAndTransferOfTheFastestWay) {
  // A ring of 8 in one node at 100 GB/s: 14 hops of nothing, 8.4 us to start, 2 * 7/8 of 8 GB.
  const CollectiveTerms large = collective_terms(CollectiveKind::AllReduce, Bytes(8e9),
                                                 links_of(small_run(8), GroupKind::Data));
  EXPECT_EQ(large.route, CollectiveRoute::Ring);
  EXPECT_EQ(large.protocol, CollectiveProtocol::Simple);
  EXPECT_NEAR(large.alpha / us, 8.4, 1e-9);
  EXPECT_NEAR(large.beta().value(), 14e9 / 100e9, 1e-9);
  EXPECT_EQ(large.time, collective_time(CollectiveKind::AllReduce, Bytes(8e9),
                                        links_of(small_run(8), GroupKind::Data)));
  // Four bytes are all latency: LL starts in 6.6 us.
  const CollectiveTerms small = collective_terms(CollectiveKind::AllGather, Bytes(4.0),
                                                 links_of(small_run(8), GroupKind::Data));
  EXPECT_EQ(small.protocol, CollectiveProtocol::LL);
  EXPECT_NEAR(small.time / us, 6.6, 0.01);
}

TEST(CollectiveTerms, ASwitchThatAddsIsARouteOfItsOwn) {
  TrainingRun run = small_run(8);
  run.cluster.fabric.in_switch_reduction = true;
  const GroupLinks links = links_of(run, GroupKind::Data);
  EXPECT_EQ(collective_terms(CollectiveKind::AllReduce, 1.0 * GiB, links).route,
            CollectiveRoute::InSwitch);
  EXPECT_EQ(collective_terms(CollectiveKind::AllGather, 1.0 * GiB, links).route,
            CollectiveRoute::Ring);
}

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
  EXPECT_NEAR(collective_time(kind, Bytes(megabytes * 1e6), processes(ranks)) / ms, milliseconds,
              1e-9)
      << name_of(kind);
}

// Of 8 MB two ranks send each other 4 MB, in 4 ms, and add them up in 1 ms.
TEST(CollectiveOfOneHost, TwoRanksExchangeHalves) {
  expect_time(CollectiveKind::AllGather, 8.0, 2, 0.1 + 4.0);
  expect_time(CollectiveKind::AllToAll, 8.0, 2, 0.1 + 4.0);
  expect_time(CollectiveKind::ReduceScatter, 8.0, 2, 0.1 + 4.0 + 1.0);
}

TEST(CollectiveOfOneHost, AnAllReduceIsAReduceScatterAndAnAllGather) {
  expect_time(CollectiveKind::AllReduce, 8.0, 2, 5.1 + 4.1);
}

TEST(CollectiveOfOneHost, MessagesBetweenTwoAreWhole) {
  expect_time(CollectiveKind::SendRecv, 8.0, 2, 0.1 + 8.0);
  expect_time(CollectiveKind::Broadcast, 8.0, 2, 0.1 + 8.0);
}

// Three quarters of the message; a broadcast goes on in two rounds.
TEST(CollectiveOfOneHost, FourRanks) {
  expect_time(CollectiveKind::AllGather, 8.0, 4, 0.1 + 6.0);
  expect_time(CollectiveKind::Broadcast, 8.0, 4, 2.0 * 8.1);
}

TEST(CollectiveOfOneHost, SumsAreFreeWhereTheirRateIsUnknown) {
  GroupLinks links = processes(2);
  links.sums = BytesPerSecond(0.0);
  EXPECT_EQ(collective_time(CollectiveKind::ReduceScatter, 1.0 * MB, links),
            collective_time(CollectiveKind::AllGather, 1.0 * MB, links));
}

// Over several hosts the network's formulas hold.
TEST(CollectiveOfOneHost, DoesNotReachToAnother) {
  GroupLinks links = processes(2);
  links.place.ranks_per_domain = 1;
  links.place.domains = 2;
  links.network = 10.0 * GBps;
  EXPECT_LT(collective_time(CollectiveKind::AllGather, 8.0 * MB, links), 2.0 * ms);
}

// The header's formulas, written down once more and evaluated over groups of every kind; latencies
// in seconds, rates in bytes/s.
struct ProtocolText {
  double o, a, A, e;
};
constexpr std::array<ProtocolText, 3> kProtocolTexts{{{8.4e-6, 1.0, 1.0, 1.0},
                                                      {14.0e-6, 1.9 / 3.4, 4.0 / 14.0, 0.92},
                                                      {6.6e-6, 0.6 / 3.4, 2.7 / 14.0, 0.25}}};

struct GroupText {
  double n, D;
  double r = 1.0;
  bool switched = false;
  double a = 3e-6, A = 12e-6, f = 300e9, w = 90e9;
  double L = 0.0, l = 0.0;

  double p() const { return n / D; }
  double b() const { return D == 1 ? f : p() == 1 ? r * w : std::min(f, r * w); }
  double few(double c) const {
    return switched && D == 1 ? std::min(1.0, (1 + c / 64) / (1 + c / (n * n))) : 1.0;
  }

  double ring(double rounds, double S, const ProtocolText& t, double gain = 1.0) const {
    const double b_few = few(rounds > 1 ? 0.6 : 1.6) * gain * b();
    return t.o + rounds * ((n - D) * t.a * a + (D - 1) * t.A * A + (n - 1) / n * S / (t.e * b_few));
  }
  double tree(double S, const ProtocolText& t) const {
    const double latency = t.o + 2 * (p() - 1) * t.a * a + 2 * std::log2(D) * t.A * A;
    if (D == 1) return latency + 2 * (n - 1) / n * S / (0.92 * t.e * few(0.6) * f);
    const double inside = p() == 1 ? 0.0 : 2 * (n - 1) / n * S / f,
                 across = 2 * (D - 1) / D * S / (r * w);
    return latency +
           (std::max(inside, across) + 2 * std::log2(D) * std::min(S, 13.6e6) / b()) / (0.92 * t.e);
  }
  double hierarchical(double rounds, double S, const ProtocolText& t) const {
    const double round = (p() - 1) * t.a * a + std::log2(D) * t.A * A +
                         (p() - 1) / p() * S / (t.e * f) + (D - 1) / D * S / (t.e * w);
    return t.o + rounds * round;
  }
  double direct(double S) const {
    const double inside = (p() - 1) / n * S / (few(1.6) * f),
                 across = D == 1 ? 0.0 : p() * (n - p()) / n * S / w;
    return 8.4e-6 + std::max(a, D == 1 ? 0.0 : A) + (D == 1 ? 0.0 : L + (n - p()) * l) +
           std::max(inside, across);
  }
  double pair(double S) const { return 8.4e-6 + (D == 1 ? a + S / f : A + S / w); }

  GroupLinks links(CollectiveAlgorithm algorithm) const {
    GroupLinks links;
    links.place = {.ranks = static_cast<int>(n),
                   .ranks_per_domain = static_cast<int>(p()),
                   .domains = static_cast<int>(D)};
    links.fabric = BytesPerSecond(f), links.network = BytesPerSecond(w), links.ring_share = r;
    links.fabric_hop = Seconds(a), links.network_hop = Seconds(A);
    links.all_to_all = Seconds(L), links.peer = Seconds(l);
    links.switched = switched, links.algorithm = algorithm;
    return links;
  }
  double time(CollectiveKind kind, double S,
              CollectiveAlgorithm algorithm = CollectiveAlgorithm::Auto) const {
    return collective_time(kind, Bytes(S), links(algorithm)).value();
  }
};

// Of one domain, with and without a switch, of two and of many, of one rank each, with a slow
// fabric, with a decaying ring, and where all-to-alls wait for each peer.
const std::vector<GroupText> kGroupTexts{{.n = 8, .D = 1},
                                         {.n = 2, .D = 1, .switched = true},
                                         {.n = 8, .D = 1, .switched = true},
                                         {.n = 16, .D = 2, .switched = true},
                                         {.n = 64, .D = 8, .r = 0.6},
                                         {.n = 16, .D = 16, .r = 0.5},
                                         {.n = 32, .D = 4, .f = 20e9},
                                         {.n = 8, .D = 1, .L = 2e-4, .l = 5e-6},
                                         {.n = 32, .D = 4, .L = 2e-4, .l = 5e-6}};
const std::vector<double> kMessages{1.0, 4e3, 3e5, 2e7, 1e9, 3e10};

template <typename Time>
double fastest(Time time) {
  double best = time(kProtocolTexts[0]);
  for (const ProtocolText& protocol : kProtocolTexts) best = std::min(best, time(protocol));
  return best;
}

TEST(CollectiveFormulas, RingsAndTreesTakeWhatTheHeaderSays) {
  using enum CollectiveKind;
  for (const GroupText& g : kGroupTexts) {
    for (const double S : kMessages) {
      const double ring = fastest([&](const ProtocolText& t) { return g.ring(2, S, t); });
      const double tree = fastest([&](const ProtocolText& t) { return g.tree(S, t); });
      EXPECT_DOUBLE_EQ(g.time(AllReduce, S, CollectiveAlgorithm::Ring), ring)
          << g.n << ", " << g.D << ", " << S;
      EXPECT_DOUBLE_EQ(g.time(AllReduce, S, CollectiveAlgorithm::Tree), tree)
          << g.n << ", " << g.D << ", " << S;
      EXPECT_DOUBLE_EQ(g.time(AllReduce, S), std::min(ring, tree))
          << g.n << ", " << g.D << ", " << S;
      const double round = fastest([&](const ProtocolText& t) { return g.ring(1, S, t); });
      for (const CollectiveKind kind : {AllGather, ReduceScatter, Broadcast})
        EXPECT_DOUBLE_EQ(g.time(kind, S), round);
    }
  }
}

TEST(CollectiveFormulas, HierarchiesTakeWhatTheHeaderSays) {
  for (const GroupText& g : kGroupTexts) {
    if (g.D == 1) continue;
    for (const double S : kMessages) {
      const auto time = [&](CollectiveKind kind) {
        return g.time(kind, S, CollectiveAlgorithm::Hierarchical);
      };
      const double twice = fastest([&](const ProtocolText& t) { return g.hierarchical(2, S, t); });
      const double once = fastest([&](const ProtocolText& t) { return g.hierarchical(1, S, t); });
      EXPECT_DOUBLE_EQ(time(CollectiveKind::AllReduce), twice) << g.n << ", " << g.D << ", " << S;
      EXPECT_DOUBLE_EQ(time(CollectiveKind::AllGather), once) << g.n << ", " << g.D << ", " << S;
    }
  }
}

TEST(CollectiveFormulas, AllToAllsAndPairsTakeWhatTheHeaderSays) {
  for (const GroupText& g : kGroupTexts) {
    for (const double S : kMessages) {
      EXPECT_DOUBLE_EQ(g.time(CollectiveKind::AllToAll, S), g.direct(S))
          << g.n << ", " << g.D << ", " << S;
      EXPECT_DOUBLE_EQ(g.time(CollectiveKind::SendRecv, S), g.pair(S))
          << g.n << ", " << g.D << ", " << S;
    }
  }
}

TEST(CollectiveFormulas, ASwitchThatAddsTakesWhatTheHeaderSays) {
  for (const int ranks : {4, 5, 8}) {
    const GroupText g{.n = static_cast<double>(ranks), .D = 1, .switched = true};
    GroupLinks links = g.links(CollectiveAlgorithm::Auto);
    links.in_switch_reduction = true;
    for (const double S : kMessages) {
      const double in_switch = ranks < 5 ? 1e300 : g.ring(2, S, kProtocolTexts[0], 1.30);
      EXPECT_DOUBLE_EQ(collective_time(CollectiveKind::AllReduce, Bytes(S), links).value(),
                       std::min(in_switch, g.time(CollectiveKind::AllReduce, S)));
    }
  }
}

GroupLinks links_of(int ranks) {
  TrainingRun run = small_run(ranks);
  run.model = small_moe();
  run.strategy.ep = ranks;
  return group_links(run.strategy, GroupKind::Expert, run.cluster, 1.0);
}

// Two ranks of one node and two experts a token: of its rows a token has half at home.  It visits
// the other rank with probability 1 - 1/4, and then once: 3/4 of a token where the all-to-all sends
// 2 * 1/2 rows.
TEST(ExpertAllToAll, ATokenGoesOnceToARank) {
  const GroupPlacement place{.ranks = 2, .ranks_per_domain = 2, .domains = 1};
  const AllToAllBytes sent = deduplicated_bytes(Bytes(2000.0), {.top_k = 2}, place);
  EXPECT_DOUBLE_EQ(sent.fabric.value(), 750.0);
  EXPECT_EQ(sent.network, Bytes(0.0));
}

// Sixteen ranks on two nodes, eight experts a token: it visits the other node with 1 - 1/256.
TEST(ExpertAllToAll, AndOnceToANode) {
  const GroupPlacement place{.ranks = 16, .ranks_per_domain = 8, .domains = 2};
  const AllToAllBytes sent = deduplicated_bytes(Bytes(8000.0), {.top_k = 8}, place);
  EXPECT_DOUBLE_EQ(sent.network.value(), 1000.0 * (1.0 - 1.0 / 256.0));
}

// Eight nodes, one group of experts on each, a token in two of them: at home with 1/8, and both
// visited but for 2 (1/2)^8.
TEST(ExpertAllToAll, ARouterOfGroupsKeepsATokenToFewNodes) {
  const GroupPlacement place{.ranks = 64, .ranks_per_domain = 8, .domains = 8};
  const ExpertRoute route{.top_k = 8, .num_groups = 8, .groups_per_token = 2};
  EXPECT_DOUBLE_EQ(deduplicated_bytes(Bytes(8000.0), route, place).network.value(),
                   1000.0 * 7.0 / 8.0 * 2.0 * (1.0 - 1.0 / 256.0));
  const ExpertRoute all{.top_k = 8, .num_groups = 8, .groups_per_token = 8};
  EXPECT_DOUBLE_EQ(deduplicated_bytes(Bytes(8000.0), all, place).network.value(),
                   deduplicated_bytes(Bytes(8000.0), {.top_k = 8}, place).network.value());
}

TEST(ExpertAllToAll, IsNeverSlowerThanAllRows) {
  for (const int ranks : {1, 2, 8, 16, 64}) {
    const GroupLinks links = links_of(ranks);
    const Bytes message = 64.0 * MiB;
    const Seconds rows =
        expert_all_to_all_time(message, {.dispatch = ExpertDispatch::AllToAll, .top_k = 8}, links);
    const Seconds once = expert_all_to_all_time(
        message, {.dispatch = ExpertDispatch::Deduplicated, .top_k = 8}, links);
    EXPECT_EQ(rows, collective_time(CollectiveKind::AllToAll, message, links));
    EXPECT_LE(once, rows) << ranks;
    if (ranks == 1) {
      EXPECT_EQ(once, Seconds(0.0));
    }
  }
}

// 16 ranks on two nodes, M = 8 GB of rows of tokens that visit 8 experts: a rank has 1 GB of
// tokens, each of which goes to the other node with 1/2 * 2 (1 - 1/2^8), and the eight ranks of a
// node share its 80 GB/s.
TEST(ExpertAllToAll, RanksOfANodeShareItsInjection) {
  const double sent = 1e9 * (1.0 - 1.0 / 256.0);
  const ExpertRoute route{.dispatch = ExpertDispatch::Deduplicated, .top_k = 8};
  EXPECT_NEAR(expert_all_to_all_time(Bytes(8e9), route, links_of(16)).value(), 8.0 * sent / 80e9,
              1e-4);
}

// Two ranks and two experts a token: 1 GB of tokens arrives as 2 (1 - 1/4) GB, those of the rank
// itself among it, which some multiprocessors hand over at 15 GB/s together.
TEST(ExpertAllToAll, KernelsHandOverWhatArrivesAtTheirOwnRate) {
  ExpertRoute route{.dispatch = ExpertDispatch::Deduplicated, .top_k = 2};
  const GroupLinks links = links_of(2);
  const Seconds by_links = expert_all_to_all_time(Bytes(2e9), route, links);
  route.kernel_bandwidth = BytesPerSecond(15e9);
  EXPECT_NEAR(expert_all_to_all_time(Bytes(2e9), route, links).value(), 1.5e9 / 15e9, 1e-4);
  route.kernel_bandwidth = BytesPerSecond(1e15);
  EXPECT_EQ(expert_all_to_all_time(Bytes(2e9), route, links), by_links);
}

// Over nodes with one expert a token nothing is sent twice.
TEST(ExpertAllToAll, WithOneExpertATokenNothingIsSaved) {
  const GroupLinks links = links_of(16);
  const Seconds rows =
      expert_all_to_all_time(64.0 * MiB, {.dispatch = ExpertDispatch::AllToAll, .top_k = 1}, links);
  const Seconds once = expert_all_to_all_time(
      64.0 * MiB, {.dispatch = ExpertDispatch::Deduplicated, .top_k = 1}, links);
  EXPECT_NEAR(once / rows, 1.0, 0.01);
}

TEST(ExpertOverlap, HidesExchangesUnderTheOtherPass) {
  TrainingRun run = small_run(8);
  run.model = small_moe();
  run.strategy.ep = 8;
  const OperatorPricer exposed(run);
  PassPrice forward, backward;
  forward.expert = 3.0 * ms, forward.gemm = 1.0 * ms, backward.expert = 4.0 * ms,
  backward.gemm = 2.0 * ms;
  exposed.overlap_all_to_alls(forward, backward);
  EXPECT_EQ(forward.expert, 3.0 * ms);
  run.strategy.moe_overlap = true;
  OperatorPricer(run).overlap_all_to_alls(forward, backward);
  EXPECT_EQ(forward.expert, 1.0 * ms);   // 3 less the backward pass's 2
  EXPECT_EQ(backward.expert, 3.0 * ms);  // 4 less the forward pass's 1
}

}  // namespace
}  // namespace llmsim::sim
