#include "sim/strategy/strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/base/error.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {
namespace {

template <class Fields>
std::set<std::string> keys_of(const Fields& fields) {
  std::set<std::string> keys;
  for (const auto& field : fields) keys.insert(field.key);
  return keys;
}

// A value of a field that a plain strategy does not have.
FieldValue other_value(const StrategyField& field) {
  const Strategy plain;
  switch (field.kind) {
    case FieldKind::Switch: return !std::get<bool>(*field.get(plain));
    case FieldKind::Count: return std::int64_t{3};
    case FieldKind::Number: return 1.5;
    case FieldKind::Counts: return std::vector<int>{2, 1};
    case FieldKind::Names: return Words{field.words.back()};
    case FieldKind::Word: break;
  }
  const auto other = [&](const std::string& word) {
    return field.get(plain) != checked(field, word);
  };
  return *std::find_if(field.words.begin(), field.words.end(), other);
}

TEST(Fields, NoKeyStandsTwice) {
  EXPECT_EQ(keys_of(strategy_fields()).size(), strategy_fields().size());
  EXPECT_EQ(keys_of(framework_fields()).size(), framework_fields().size());
}

TEST(StrategyFields, EveryFieldChangesTheStrategyAndIsReadBack) {
  for (const StrategyField& field : strategy_fields()) {
    const FieldValue value = other_value(field);
    Strategy strategy;
    put({{field.key, value}}, strategy);
    EXPECT_NE(strategy, Strategy{}) << field.key;
    EXPECT_EQ(field.get(strategy), value) << field.key;
  }
}

TEST(StrategyFields, AliasesOfAWordAreReadAsTheWord) {
  EXPECT_EQ(checked(*find_strategy_field("pipeline_schedule"), "zero-bubble"), FieldValue("zb-h1"));
  EXPECT_EQ(checked(*find_strategy_field("moe_dispatch"), "hybridep"), FieldValue("deepep"));
  EXPECT_EQ(find_strategy_field("pipeline_schedule")->other_words, Words{"zero-bubble"});
  EXPECT_EQ(find_strategy_field("moe_dispatch")->other_words, (Words{"hybridep", "flex"}));
  EXPECT_EQ(find_strategy_field("sharding")->other_words, Words{});
}

TEST(StrategyFields, UnknownKeysAndValuesOutOfRangeAreRefused) {
  Strategy strategy;
  EXPECT_THROW(put({{"tpp", 2}}, strategy), Error);
  EXPECT_THROW(put({{"tp", 0}}, strategy), Error);
  EXPECT_THROW(put({{"tp", 1.5}}, strategy), Error);
  EXPECT_THROW(put({{"sharding", "zero4"}}, strategy), Error);
  EXPECT_THROW(put({{"moe_capacity", 0.5}}, strategy), Error);
  EXPECT_EQ(strategy, Strategy{});
}

TEST(StrategyFields, SayNothingWhereTheStrategyHasNoUseForThem) {
  Strategy strategy;
  EXPECT_FALSE(is_stated(*find_strategy_field("cp_scheme"), strategy));
  strategy.cp = 2;
  EXPECT_TRUE(is_stated(*find_strategy_field("cp_scheme"), strategy));
  EXPECT_TRUE(is_stated(*find_strategy_field("compile"), strategy));
  EXPECT_FALSE(is_stated(*find_strategy_field("moe_imbalance"), strategy));
}

TEST(FrameworkFields, KeysArePathsOfMembers) {
  Framework framework;
  for (const Field<Framework>& field : framework_fields()) {
    if (field.key == "gradients.bucket") {
      EXPECT_TRUE(put_field(field, framework, 2.5));
    }
    if (field.key == "host.per_kernel") {
      EXPECT_EQ(field.get(framework), FieldValue(6e-6));
    }
  }
  EXPECT_EQ(framework.gradients.bucket, 2.5);
}

}  // namespace
}  // namespace llmsim::sim
