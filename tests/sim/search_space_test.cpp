#include "sim/search/space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "tests/error_of.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// plan_test.cpp holds the whole space to plain loops.
std::vector<Strategy> tried(int devices, const Restriction& restriction,
                            const Restriction& excluded = {}) {
  TrainingRun run = small_run(devices);
  SearchBase base{run.model, devices, run.strategy, {}, {}, excluded};
  base.under.fill(run.strategy);
  std::vector<Strategy> list;
  for_each_strategy(base, restriction, [&](const Strategy& strategy) { list.push_back(strategy); });
  return list;
}

// Eight sequences in micro-batches of 1, 2, 4 and 8; nothing is sharded or divided, twelve ways to
// recompute: none, selective, full, two shares of blocks, one to four first blocks, norms,
// activation functions, both.
TEST(SearchSpace, OneDeviceHasMicroBatchesAndRecomputationToChoose) {
  EXPECT_EQ(tried(1, {}).size(), 4u * 12u);
}

// Shards of 2 and 4 of the eight ranks: with 1 and 8 it would be no sharding and ZeRO-3.
TEST(SearchSpace, HybridShardsAreTrueParts) {
  const std::vector<Strategy> list = tried(8, {{"tp", {std::int64_t{1}}},
                                               {"pp", {std::int64_t{1}}},
                                               {"micro_batch", {std::int64_t{1}}},
                                               {"sharding", {std::string("hsdp")}},
                                               {"recompute", {std::string("full")}}});
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].shard_size, 2);
  EXPECT_EQ(list[1].shard_size, 4);
  for (const Strategy& s : list) EXPECT_EQ(s.dp, 8);
}

// Four parts of eight layers have two each; with a short end 3, 3 and 1 of three.
TEST(SearchSpace, HasALastPartWithFewerLayers) {
  TrainingRun run = small_run(3);
  run.model.vocab_size = 1024;  // a head of less than a layer
  SearchBase base{run.model, 3, run.strategy, {}};
  base.under.fill(run.strategy);
  const Restriction three{{"pp", {std::int64_t{3}}}, {"virtual_stages", {std::int64_t{1}}}};
  for (const auto& [layers, dealt] :
       {std::pair(8, std::vector<int>{}), std::pair(7, std::vector{3, 3, 1}),
        std::pair(9, std::vector{4, 4, 1}), std::pair(6, std::vector<int>{})}) {
    run.model.num_layers = layers;
    std::set<std::vector<int>> found;
    for_each_strategy(base, three, [&](const Strategy& s) {
      if (!s.stage_layers.empty()) found.insert(s.stage_layers);
    });
    EXPECT_EQ(found, dealt.empty() ? std::set<std::vector<int>>{} : std::set{dealt}) << layers;
  }
}

// With width h and sequences of h tokens a layer takes 24 h^2 + 2 h^2 FLOPs, the head 2 h V: three
// layers with V = 39 h.  If it counts as n of them, the last of three stages has (17 + n) / 3 - n of
// 17: 4 or 3, over two parts 3 + 1 and 3 + 0.
TEST(SearchSpace, LetsTheHeadTakeThePlaceOfAsManyLayersAsItIs) {
  TrainingRun run = small_run(3);
  run.model.num_layers = 17, run.model.vocab_size = 39 * 1024;
  SearchBase base{run.model, 3, run.strategy, {}};
  base.under.fill(run.strategy);
  const auto dealt = [&](int parts) {
    std::set<std::vector<int>> found;
    for_each_strategy(base, {{"pp", {std::int64_t{3}}}, {"virtual_stages", {std::int64_t{parts}}}},
                      [&](const Strategy& s) { found.insert(s.stage_layers); });
    return found;
  };
  using Dealt = std::set<std::vector<int>>;
  EXPECT_EQ(dealt(1), (Dealt{{}, {6, 7, 4}, {7, 7, 3}}));
  EXPECT_EQ(dealt(2), (Dealt{{}, {3, 3, 3, 3, 4, 1}, {3, 3, 3, 4, 4, 0}}));
}

// What is left is what the whole space has without the banned values, in the same order.
TEST(SearchSpace, HasNothingThatIsExcluded) {
  const Restriction excluded{{"tp", {std::int64_t{1}, std::int64_t{4}}},
                             {"sharding", {std::string("zero3")}},
                             {"shard_size", {std::int64_t{2}}},
                             {"embeddings_as_layers", {true}},
                             {"recompute", {std::string("full"), std::string("none")}}};
  std::vector<Strategy> rest;
  for (const Strategy& s : tried(8, {})) {
    const std::string recompute = text_of(s.recompute);
    if (s.tp != 1 && s.tp != 4 && s.sharding != Sharding::Zero3 && s.shard_size != 2 &&
        !s.embeddings_as_layers && recompute != "full" && recompute != "none")
      rest.push_back(s);
  }
  EXPECT_GT(rest.size(), 100u);
  EXPECT_EQ(tried(8, {}, excluded), rest);
}

TEST(SearchSpace, HasOnlyTheDerivedValuesThatAreAskedFor) {
  const auto all = tried(8, {});
  for (const bool parallel : {false, true}) {
    const auto list = tried(8, {{"sequence_parallel", {parallel}}});
    EXPECT_EQ(static_cast<std::ptrdiff_t>(list.size()),
              std::count_if(all.begin(), all.end(),
                            [&](const Strategy& s) { return s.sequence_parallel == parallel; }));
  }
}

// As in the base, unless a list asks: then each of its values doubles the space.
TEST(SearchSpace, CapturesGraphsBothWaysWhereAListAsks) {
  const auto with_graphs = [](const std::vector<Strategy>& list) {
    return std::count_if(list.begin(), list.end(), [](const Strategy& s) { return s.cuda_graph; });
  };
  const auto usual = tried(4, {}), both = tried(4, {{"cuda_graph", {false, true}}});
  EXPECT_EQ(with_graphs(usual), 0);
  EXPECT_EQ(both.size(), 2 * usual.size());
  EXPECT_EQ(with_graphs(both), static_cast<std::ptrdiff_t>(usual.size()));
}

TEST(SearchSpace, NeedsAWayToRecompute) {
  EXPECT_NE(
      error_of([] {
        tried(2, {{"recompute", {std::string("full")}}}, {{"recompute", {std::string("full")}}});
      }).find("excluded"),
      std::string::npos);
}

// Of each kind of member one that stands for it.
bool tries(const std::vector<Strategy>& list, const std::function<bool(const Strategy&)>& member) {
  return std::any_of(list.begin(), list.end(), member);
}

TEST(SearchSpace, HasLargeMicroBatches) {
  EXPECT_TRUE(tries(tried(8, {{"tp", {std::int64_t{8}}}}),
                    [](const Strategy& s) { return s.micro_batch == 64; }));
}

// 65536 tokens are 512 sequences of 128, and 64 of 1024.
TEST(SearchSpace, HasMoreOfShortSequences) {
  TrainingRun run = small_run(1);
  run.strategy.global_batch = 1024;
  for (const auto& [seq_len, most] : {std::pair{128, 512}, std::pair{1024, 64}, {4096, 64}}) {
    run.model.seq_len = seq_len;
    SearchBase base{run.model, 1, run.strategy, {}};
    int largest = 0;
    for (const SearchLayout& layout : SearchSpace(base, {}).layouts())
      largest = std::max(largest, layout.micro_batch);
    EXPECT_EQ(largest, most) << seq_len;
  }
}

TEST(SearchSpace, OverlapsTensorRanksWhereThereAreSome) {
  TrainingRun run = small_run(8);
  run.strategy.tp_overlap = true;
  SearchBase base{run.model, 8, run.strategy, {}};
  base.under.fill(run.strategy);
  for_each_strategy(base, {{"recompute", {std::string("none")}}},
                    [](const Strategy& s) { EXPECT_EQ(s.tp_overlap, s.tp > 1); });
}

TEST(SearchSpace, HasEachWayToRecompute) {
  const std::vector<Strategy> list = tried(1, {});
  for (const char* text :
       {"none", "selective", "every-n=4", "every-n=2", "full", "full=1", "full=4",
        "selective=layernorm", "selective=activation", "selective=layernorm+activation"})
    EXPECT_TRUE(tries(list, [&](const Strategy& s) { return text_of(s.recompute) == text; }))
        << text;
}

// Eight layers over three stages in one, two and three parts each, with the ends as layers too.
TEST(SearchSpace, HasStagesThatDoNotDivideTheLayers) {
  const std::vector<Strategy> list = tried(3, {{"pp", {std::int64_t{3}}}});
  for (const int parts : {1, 2, 3})
    for (const bool ends : {false, true})
      EXPECT_TRUE(tries(list,
                        [&](const Strategy& s) {
                          return s.virtual_stages == parts && s.embeddings_as_layers == ends;
                        }))
          << parts << ends;
}

TEST(SearchSpace, LeavesContextRanksEnoughTokens) {
  TrainingRun run = small_run(8);
  run.model.seq_len = 4096;
  SearchBase base{run.model, 8, run.strategy, {}};
  base.under.fill(run.strategy);
  int most = 0;
  for_each_strategy(base, {}, [&](const Strategy& s) { most = std::max(most, s.cp); });
  EXPECT_EQ(most, 4);
}

TEST(SearchSpace, HasExpertRanksThatAreNoPowersOfTwo) {
  TrainingRun run = small_run(6);
  run.model = small_moe();
  run.model.moe->num_experts = 6;
  SearchBase base{run.model, 6, run.strategy, {}};
  base.under.fill(run.strategy);
  std::set<int> ranks;
  for_each_strategy(base, {}, [&](const Strategy& s) { ranks.insert(s.ep); });
  EXPECT_EQ(ranks, (std::set{1, 2, 3, 6}));
}

TEST(SearchSpace, HasWhatTheFrameworkOffers) {
  TrainingRun run = small_run(4);
  SearchBase base{run.model, 4, run.strategy, {}};
  base.under.fill(run.strategy);
  base.offers.zero2 = false;
  base.offers.module_recompute = false;
  for_each_strategy(base, {}, [&](const Strategy& s) {
    EXPECT_NE(s.sharding, Sharding::Zero2);
    EXPECT_TRUE(s.recompute.kind != RecomputeKind::Selective ||
                s.recompute.modules == RecomputedModules{});
  });
}

// Without pipelines and in them.
TEST(SearchSpace, ShardsWeightsInPipelinesWhereTheFrameworkCan) {
  TrainingRun run = small_run(8);
  SearchBase base{run.model, 8, run.strategy, {}};
  base.under.fill(run.strategy);
  const auto shards = [&](int pp) {
    std::set<Sharding> found;
    for_each_strategy(base, {{"pp", {std::int64_t{pp}}}},
                      [&](const Strategy& s) { found.insert(s.sharding); });
    return found.count(Sharding::Zero3) + found.count(Sharding::Hsdp);
  };
  EXPECT_EQ(shards(1), 2u);
  EXPECT_EQ(shards(2), 2u);
  base.offers.zero3_in_pipelines = false;
  EXPECT_EQ(shards(1), 2u);
  EXPECT_EQ(shards(2), 0u);
}

using Switches = std::set<std::pair<bool, bool>>;

// With 2 tensor ranks of 4, where buffers reach 2: not without sequence parallelism.
// On nodes of 4 of 16 devices: not of one stage or data rank, and not of tensor ranks that fill a
// node; context ranks need as many experts.
TEST(SearchSpace, PutsDataRanksLastWhereTheFrameworkCanAndItMayMatter) {
  TrainingRun run = small_run(16);
  SearchBase base{run.model, 16, run.strategy, {}};
  base.under.fill(run.strategy);
  base.domain_devices = 4;
  const auto tried = [&] {
    std::set<std::array<int, 4>> meshes;
    for_each_strategy(base, {}, [&](const Strategy& s) {
      if (s.mesh_order == MeshOrder::DataLast) meshes.insert({s.tp, s.pp, s.cp, s.dp});
    });
    return meshes;
  };
  EXPECT_TRUE(tried().empty());
  base.offers.mesh_order = true;
  EXPECT_EQ(tried(), (std::set<std::array<int, 4>>{
                         {1, 2, 1, 8}, {1, 4, 1, 4}, {1, 8, 1, 2}, {2, 2, 1, 4}, {2, 4, 1, 2}}));
  base.domain_devices = 16;
  EXPECT_TRUE(tried().empty());
}

TEST(SearchSpace, OverlapsTensorRanksOfOneFabricWhereTheFrameworkCan) {
  TrainingRun run = small_run(4);
  SearchBase base{run.model, 4, run.strategy, {}};
  base.under.fill(run.strategy);
  const auto found = [&](int tp) {
    Switches switches;  // sequence parallelism and overlap
    for_each_strategy(base, {{"tp", {std::int64_t{tp}}}}, [&](const Strategy& s) {
      switches.emplace(s.sequence_parallel, s.tp_overlap);
    });
    return switches;
  };
  EXPECT_EQ(found(2), (Switches{{false, false}, {true, false}}));
  base.offers.tp_overlap = true, base.fabric_devices = 2;
  EXPECT_EQ(found(1), (Switches{{false, false}}));
  EXPECT_EQ(found(2), (Switches{{false, false}, {true, false}, {true, true}}));
  EXPECT_EQ(found(4), (Switches{{false, false}, {true, false}}));
  base.offers.tp_overlap_compiled = true;
  EXPECT_EQ(found(2), (Switches{{false, false}, {true, false}}));
  base.strategy.compile = true;
  EXPECT_EQ(found(2), (Switches{{false, false}, {true, false}, {true, true}}));
  base.strategy.tp_overlap = true;  // as the framework usually does
  EXPECT_EQ(found(2), (Switches{{false, false}, {false, true}, {true, false}, {true, true}}));
}

// All that the switches of expert ranks are told by.
struct ExpertSwitches {
  int ep;
  ExpertDispatch dispatch;
  bool overlap;
  auto operator<=>(const ExpertSwitches&) const = default;
};

std::set<ExpertSwitches> expert_switches(const SearchBase& base, const Restriction& restriction) {
  std::set<ExpertSwitches> found;
  for_each_strategy(base, restriction, [&](const Strategy& s) {
    found.insert({s.ep, s.moe_dispatch, s.moe_overlap});
  });
  return found;
}

// One expert rank exchanges nothing; passes overlap without pipelines or where a stage has several
// chunks, from two micro-batches on, and where no whole block is recomputed.
TEST(SearchSpace, SendsTokensToExpertsInEveryWayOfTheFramework) {
  TrainingRun run = small_run(2);
  run.model.moe = Moe{.num_experts = 4, .top_k = 2, .expert_ffn_size = 1024};
  SearchBase base{run.model, 2, run.strategy, {}};
  base.under.fill(run.strategy);
  base.offers.deduplicated_dispatch = base.offers.moe_overlap = true;
  const FieldValue one = std::int64_t{1}, none = std::string("none"), full = std::string("full");
  const Restriction plain{{"tp", {one}}, {"pp", {one}}, {"micro_batch", {one}}};
  const auto with = [](Restriction restriction, const char* key, const FieldValue& value) {
    restriction[key] = {value};
    return restriction;
  };
  constexpr ExpertDispatch kRows = ExpertDispatch::AllToAll, kOnce = ExpertDispatch::Deduplicated;
  const std::set<ExpertSwitches> alone{{1, kRows, false}},
      exposed{{1, kRows, false}, {2, kRows, false}, {2, kOnce, false}},
      all{{1, kRows, false},
          {2, kRows, false},
          {2, kOnce, false},
          {2, kRows, true},
          {2, kOnce, true}};
  EXPECT_EQ(expert_switches(base, with(plain, "recompute", none)), all);
  EXPECT_EQ(expert_switches(base, with(plain, "recompute", full)), exposed);
  EXPECT_EQ(expert_switches(base, with(plain, "micro_batch", std::int64_t{8})), exposed);
  EXPECT_EQ(expert_switches(base, with(plain, "pp", std::int64_t{2})), alone);
  // Tensor ranks have whole experts, each its own.
  const Restriction staged =
      with(with(with(plain, "recompute", none), "pp", std::int64_t{2}), "tp", std::int64_t{2});
  base.num_devices = 4;
  EXPECT_EQ(expert_switches(base, with(staged, "virtual_stages", one)).count({2, kOnce, true}), 0u);
  EXPECT_EQ(expert_switches(base, with(staged, "virtual_stages", std::int64_t{2}))
                .count({2, kOnce, true}),
            1u);
  // What is asked for is tried whatever is offered.
  base.offers = {}, base.num_devices = 2;
  EXPECT_EQ(expert_switches(base, with(plain, "moe_dispatch", std::string("deepep"))),
            (std::set<ExpertSwitches>{{1, kOnce, false}, {2, kOnce, false}}));
}

TEST(SearchSpace, AValueThatAFieldCannotHaveIsAnError) {
  EXPECT_EQ(error_of([] {
              tried(1, {{"tp", {std::string("two")}}});
            }),
            "tp = two: a search cannot try it");
  EXPECT_EQ(error_of([] {
              tried(1, {{"recompute", {std::string("some")}}});
            }),
            "recompute = some: unknown");
}

}  // namespace
}  // namespace llmsim::sim
