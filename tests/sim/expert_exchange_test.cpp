#include "sim/cost/collective.h"

#include <gtest/gtest.h>

#include "sim/cost/price.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

GroupLinks links_of(int ranks) {
  TrainingRun run = small_run(ranks);
  run.model = small_moe();
  run.strategy.ep = ranks;
  return group_links(run.strategy, GroupKind::Expert, run.cluster, 1.0);
}

// Two ranks of one node and two experts a token: of its rows a token has half at home.  It visits the other rank with probability
// 1 - 1/4, and then once: 3/4 of a token where the all-to-all sends 2 * 1/2 rows.
TEST(ExpertExchange, ATokenGoesOnceToARank) {
  const GroupPlacement place{.ranks = 2, .ranks_per_domain = 2, .domains = 1};
  const ExchangedBytes sent = deduplicated_bytes(Bytes(2000.0), {.top_k = 2}, place);
  EXPECT_DOUBLE_EQ(sent.fabric.value(), 750.0);
  EXPECT_EQ(sent.network, Bytes(0.0));
}

// Sixteen ranks on two nodes, eight experts a token: it visits the other node with 1 - 1/256.
TEST(ExpertExchange, AndOnceToANode) {
  const GroupPlacement place{.ranks = 16, .ranks_per_domain = 8, .domains = 2};
  const ExchangedBytes sent = deduplicated_bytes(Bytes(8000.0), {.top_k = 8}, place);
  EXPECT_DOUBLE_EQ(sent.network.value(), 1000.0 * (1.0 - 1.0 / 256.0));
}

// Eight nodes, one group of experts on each, a token in two of them: at home with 1/8, and both visited but for 2 (1/2)^8.
TEST(ExpertExchange, ARouterOfGroupsKeepsATokenToFewNodes) {
  const GroupPlacement place{.ranks = 64, .ranks_per_domain = 8, .domains = 8};
  const ExpertRoute route{.top_k = 8, .num_groups = 8, .groups_per_token = 2};
  EXPECT_DOUBLE_EQ(deduplicated_bytes(Bytes(8000.0), route, place).network.value(),
                   1000.0 * 7.0 / 8.0 * 2.0 * (1.0 - 1.0 / 256.0));
  const ExpertRoute all{.top_k = 8, .num_groups = 8, .groups_per_token = 8};
  EXPECT_DOUBLE_EQ(deduplicated_bytes(Bytes(8000.0), all, place).network.value(),
                   deduplicated_bytes(Bytes(8000.0), {.top_k = 8}, place).network.value());
}

TEST(ExpertExchange, IsNeverSlowerThanAllRows) {
  for (const int ranks : {1, 2, 8, 16, 64}) {
    const GroupLinks links = links_of(ranks);
    const Bytes message = 64.0 * MiB;
    const Seconds rows = expert_exchange_time(message, {.dispatch = ExpertDispatch::AllToAll, .top_k = 8}, links);
    const Seconds once = expert_exchange_time(message, {.dispatch = ExpertDispatch::Deduplicated, .top_k = 8}, links);
    EXPECT_EQ(rows, collective_time(CollectiveKind::AllToAll, message, links));
    EXPECT_LE(once, rows) << ranks;
    if (ranks == 1) {
      EXPECT_EQ(once, Seconds(0.0));
    }
  }
}

// 16 ranks on two nodes, M = 8 GB of rows of tokens that visit 8 experts: a rank has 1 GB of tokens, each of which goes to the
// other node with 1/2 * 2 (1 - 1/2^8), and the eight ranks of a node share its 80 GB/s.
TEST(ExpertExchange, RanksOfANodeShareItsInjection) {
  const double sent = 1e9 * (1.0 - 1.0 / 256.0);
  const ExpertRoute route{.dispatch = ExpertDispatch::Deduplicated, .top_k = 8};
  EXPECT_NEAR(expert_exchange_time(Bytes(8e9), route, links_of(16)).value(), 8.0 * sent / 80e9, 1e-4);
}

// Over nodes with one expert a token nothing is sent twice.
TEST(ExpertExchange, WithOneExpertATokenNothingIsSaved) {
  const GroupLinks links = links_of(16);
  const Seconds rows = expert_exchange_time(64.0 * MiB, {.dispatch = ExpertDispatch::AllToAll, .top_k = 1}, links);
  const Seconds once = expert_exchange_time(64.0 * MiB, {.dispatch = ExpertDispatch::Deduplicated, .top_k = 1}, links);
  EXPECT_NEAR(once / rows, 1.0, 0.01);
}

TEST(ExpertOverlap, HidesExchangesUnderTheOtherPass) {
  TrainingRun run = small_run(8);
  run.model = small_moe();
  run.strategy.ep = 8;
  const OperatorPricer exposed(run);
  PassPrice forward, backward;
  forward.expert = 3.0 * ms, forward.gemm = 1.0 * ms, backward.expert = 4.0 * ms, backward.gemm = 2.0 * ms;
  exposed.overlap_exchanges(forward, backward);
  EXPECT_EQ(forward.expert, 3.0 * ms);
  run.strategy.moe_overlap = true;
  OperatorPricer(run).overlap_exchanges(forward, backward);
  EXPECT_EQ(forward.expert, 1.0 * ms);   // 3 less the backward pass's 2
  EXPECT_EQ(backward.expert, 3.0 * ms);  // 4 less the forward pass's 1
}

}  // namespace
}  // namespace llmsim::sim
