#include "hwdb/text/field_schema.h"

#include <gtest/gtest.h>

#include "sim/strategy/strategy.h"

namespace llmsim::hwdb {
namespace {

Schema of(const char* key) { return field_schema(*sim::find_strategy_field(key)); }

TEST(FieldSchema, HasTheRangeOfANumber) {
  EXPECT_EQ(integer_schema(1, 8),
            Schema::parse(R"({"type": "integer", "minimum": 1, "maximum": 8})"));
  EXPECT_EQ(number_schema(0.5), Schema::parse(R"({"type": "number", "minimum": 0.5})"));
  EXPECT_EQ(of("tp")["minimum"], 1);
  EXPECT_EQ(of("stage_layers")["items"]["type"], "integer");
}

// "zero-bubble" is read as zb-h1, and never written.
TEST(FieldSchema, OfWordsHasThoseThatAreReadAndNotWrittenToo) {
  const Schema words = of("pipeline_schedule")["enum"];
  for (const char* word : {"1f1b", "zb-h1", "zero-bubble"})
    EXPECT_NE(std::find(words.begin(), words.end(), word), words.end()) << word;
  EXPECT_EQ(of("sharding"),
            Schema::parse(R"({"enum": ["none", "zero1", "zero2", "zero3", "hsdp"]})"));
}

TEST(FieldSchema, NamesAreAListOrJoined) {
  const Schema names = field_schema(sim::FieldKind::Names, {"a", "b"}, {}, 0.0, 0.0);
  EXPECT_EQ(names["anyOf"][0]["items"]["enum"], Schema::parse(R"(["a", "b"])"));
  EXPECT_EQ(names["anyOf"][1]["pattern"], "^((a|b)(\\+(a|b))*)?$");
}

TEST(OrNull, AddsNullToATypeToWordsAndToAlternatives) {
  EXPECT_EQ(or_null(flag_schema()), Schema::parse(R"({"type": ["boolean", "null"]})"));
  EXPECT_EQ(or_null(word_schema({"a"})), Schema::parse(R"({"enum": ["a", null]})"));
  EXPECT_EQ(or_null(texts_schema())["anyOf"][2], Schema::parse(R"({"type": "null"})"));
}

TEST(ObjectSchema, HasItsKeysAndNoOther) {
  EXPECT_EQ(object_schema({{"a", flag_schema()}}, {"a"}),
            Schema::parse(R"({"type": "object", "properties": {"a": {"type": "boolean"}},
                              "required": ["a"], "additionalProperties": false})"));
}

}  // namespace
}  // namespace llmsim::hwdb
