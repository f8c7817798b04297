#include "cli/strategy_options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "tests/error_of.h"

namespace llmsim::cli {
namespace {

using Parts = std::vector<std::string>;

std::string error_of_excluding(const std::string& text) {
  sim::Restriction restriction;
  return error_of([&] { exclude(text, restriction); });
}

TEST(StrategyOptions, AListIsSplitAtItsCommas) {
  EXPECT_EQ(split("a,b"), (Parts{"a", "b"}));
  EXPECT_EQ(split("a"), Parts{"a"});
  EXPECT_EQ(split(""), Parts{});
  EXPECT_EQ(split("a+,b", '+'), (Parts{"a", ",b"}));
}

TEST(StrategyOptions, WhatIsSearchedIsLeftToTheSearch) {
  RunOptions options;
  options.strategy = {{"tp", "4"}, {"optimizer", "lion"}};
  EXPECT_EQ(
      strategy_in(options, [](const std::string&, const std::string&) { return false; }).size(),
      2u);
  const sim::PartialStrategy fixed = strategy_in(options, is_searched);
  EXPECT_EQ(fixed.size(), 1u);
  EXPECT_TRUE(fixed.contains("optimizer"));
  const sim::Restriction restriction = restriction_of(options);
  ASSERT_EQ(restriction.size(), 1u);
  EXPECT_EQ(restriction.at("tp"), (std::vector<sim::FieldValue>{std::int64_t{4}}));
}

// full=3 recomputes three blocks of each stage; full alone all of them.
TEST(StrategyOptions, ARecomputationIsAllOfItsFields) {
  sim::PartialStrategy strategy;
  set_recompute(recompute_in("full=3"), strategy);
  sim::Strategy whole;
  sim::put(strategy, whole);
  EXPECT_EQ(whole.recompute, recompute_in("full=3"));
  EXPECT_NE(whole.recompute, recompute_in("full"));
}

TEST(StrategyOptions, PartsOfOffloadAreFieldsOfTheirOwn) {
  sim::PartialStrategy strategy;
  add_offload("optimizer", "optimizer,activations=core_attn", strategy);
  add_offload("activations=core_attn", "optimizer,activations=core_attn", strategy);
  EXPECT_EQ(strategy.size(), 3u);
  EXPECT_TRUE(strategy.contains("offload.optimizer"));
  EXPECT_TRUE(strategy.contains("offload.activations"));
  EXPECT_TRUE(strategy.contains("offload.modules"));
  EXPECT_THROW(add_offload("weights", "weights", strategy), Error);
  EXPECT_THROW(add_offload("optimizer=core_attn", "optimizer=core_attn", strategy), Error);
}

TEST(StrategyOptions, ASwitchIsTrueOrFalse) {
  RunOptions options;
  for (const char* text : {"banana", "yes", "1", ""}) {
    options.strategy["sequence_parallel"] = text;
    EXPECT_EQ(error_of([&] { restriction_of(options); }),
              "--sequence-parallel = " + std::string(text) + ": true or false is expected");
  }
  options.strategy["sequence_parallel"] = "false,true";
  EXPECT_EQ(restriction_of(options).at("sequence_parallel").size(), 2u);
}

TEST(StrategyOptions, AnEmptyListIsNoRestriction) {
  RunOptions options;
  options.strategy["sharding"] = "";
  EXPECT_NE(error_of([&] { restriction_of(options); }).find("--sharding = : none, "),
            std::string::npos);
  EXPECT_NE(error_of_excluding("sharding=").find("--sharding = : none, "), std::string::npos);
  options.strategy.clear(), options.recompute = "";
  EXPECT_NE(error_of([&] { restriction_of(options); }).find("--recompute = : none, "),
            std::string::npos);
}

TEST(StrategyOptions, ExcludedValuesAddUp) {
  sim::Restriction restriction;
  exclude("sharding=zero3,hsdp", restriction);
  exclude("sharding=zero1", restriction);
  EXPECT_EQ(restriction.at("sharding").size(), 3u);
  EXPECT_NE(error_of_excluding("sharding").find("KEY=VALUES with one of "), std::string::npos);
  EXPECT_NE(error_of_excluding("optimizer=lion").find("KEY=VALUES with one of "),
            std::string::npos);
  EXPECT_NE(error_of_excluding("sharding=zero4").find("is expected"), std::string::npos);
}

TEST(StrategyOptions, HsdpAndItsShardSizeBelongTogether) {
  const auto check = [](const char* sharding, bool size) {
    sim::PartialStrategy strategy{{"sharding", std::string(sharding)}};
    if (size) strategy["shard_size"] = std::int64_t{8};
    check_shards(strategy);
  };
  EXPECT_NO_THROW(check("hsdp", true));
  EXPECT_THROW(check("hsdp", false), Error);
  EXPECT_NO_THROW(check("zero3", false));
  EXPECT_THROW(check("none", true), Error);
}

}  // namespace
}  // namespace llmsim::cli
