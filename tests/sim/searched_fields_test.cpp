#include "sim/search/searched_fields.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/search/space.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TEST(SearchedFields, AreFieldsOfAStrategyWithAPlaceOfTheirOwn) {
  std::set<int> places;
  for (const SearchedField& field : searched_fields()) {
    if (field.level == SearchLevel::Recompute) continue;
    EXPECT_TRUE(find_strategy_field(field.key)) << field.key;
    EXPECT_TRUE(places.insert(field.simplicity).second) << field.key;
  }
}

// Those that take a list have an option that says so.
TEST(SearchedFields, SayWhatTheirOptionTakes) {
  for (const SearchedField& field : searched_fields()) {
    const bool takes_list = field.restricted == Restricted::Replaced && field.value.of;
    EXPECT_EQ(*field.help != '\0', takes_list) << field.key;
  }
}

// What is read from a strategy is what it was made of.
TEST(SearchedFields, AreReadAsTheyAreWritten) {
  TrainingRun run = small_run(8);
  SearchBase base{run.model, 8, run.strategy, {}};
  base.under.fill(run.strategy);
  const SearchSpace space(base, {});
  for (const SearchLayout& layout : space.layouts()) {
    for (const SearchSharding& sharding : space.shardings(layout)) {
      const Strategy strategy = space.strategy(layout, {}, sharding, {});
      SearchChoice choice;
      for (const SearchedField& field : searched_fields()) {
        if (field.value.read) field.value.read(strategy, choice);
      }
      EXPECT_EQ(space.strategy(choice.layout, choice.pipeline, choice.sharding, {}), strategy);
    }
  }
}

TEST(SearchedFields, AreFoundByKey) {
  EXPECT_EQ(find_searched_field("tp")->key, std::string("tp"));
  EXPECT_EQ(find_searched_field("precision"), nullptr);
  EXPECT_TRUE(is_searched("sequence_parallel"));
  EXPECT_FALSE(is_searched("etp"));  // its values can only be excluded
  EXPECT_FALSE(is_searched("stage_layers"));
}

}  // namespace
}  // namespace llmsim::sim
