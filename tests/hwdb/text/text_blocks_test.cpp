#include "hwdb/text/text_blocks.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

TEST(TextBlocks, ALineAtTheMarginHasThoseIndentedBelowIt) {
  const auto blocks =
      blocks_of("# why\none\n  a  # because\n\n  b,\n    c\ntwo \\\n  three\n", "x");
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[0].head.text, "one");
  EXPECT_EQ(blocks[0].head.number, 2);
  ASSERT_EQ(blocks[0].body.size(), 2U);
  EXPECT_EQ(blocks[0].body[0].text, "a");
  EXPECT_EQ(blocks[0].body[1].text, "b, c");
  EXPECT_EQ(blocks[0].body[1].number, 5);
  EXPECT_EQ(blocks[1].head.text, "two  three");
}

TEST(TextBlocks, NothingIsIndentedBelowNothing) {
  EXPECT_EQ(error_of([] { blocks_of("\n  a\n", "some.rows"); }),
            "some.rows: line 2: nothing stands above it at the margin");
}

TEST(TextBlocks, ListsKeepWhatStandsInQuotes) {
  EXPECT_EQ(split("a, \"b, c\", d", ','), (std::vector<std::string>{"a", "\"b, c\"", "d"}));
  EXPECT_EQ(unquoted("\"b, c\""), "b, c");
  EXPECT_EQ(unquoted("b"), "b");
  EXPECT_EQ(parted("key: a: b", ": "), (std::pair<std::string, std::string>{"key", "a: b"}));
}

}  // namespace
}  // namespace llmsim::hwdb
