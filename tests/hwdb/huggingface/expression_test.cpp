#include "hwdb/huggingface/expression.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/base/error.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

// Over one object; @num_layers is 4, @width 96.
class Keys {
 public:
  explicit Keys(const char* text) : object_(nlohmann::json::parse(text)) {
    scope_.find = [this](const std::string& key) -> const nlohmann::json* {
      const auto found = object_.find(key);
      return found == object_.end() || found->is_null() ? nullptr : &*found;
    };
    scope_.has = [this](const std::string& key) { return object_.contains(key); };
    scope_.field = [](const std::string& key) -> ExpressionValue {
      return {key == "num_layers" ? 4.0 : 96.0};
    };
    scope_.refuse = [](const std::string& key, const std::string& right) {
      throw Error(key + ": " + right);
    };
  }
  ExpressionValue value(const char* text) const { return Expression(text).in(scope_); }
  double number(const char* text) const { return std::get<double>(value(text).value); }
  std::string word(const char* text) const { return std::get<std::string>(value(text).value); }
  bool holds(const char* text) const { return Expression(text).holds_in(scope_); }
  std::string refusal(const char* text) const {
    return error_of([&] { value(text); });
  }

 private:
  nlohmann::json object_;
  ExpressionScope scope_;
};

TEST(Expression, TakesTheFirstKeyThatTheFileHas) {
  const Keys keys(R"({"b": 7, "c": 8, "d": null})");
  EXPECT_EQ(keys.number("a | b | c"), 7);
  EXPECT_EQ(keys.number("d | 5"), 5);
  EXPECT_TRUE(keys.value("a | none").is_none());
  EXPECT_TRUE(keys.holds("has(d) and not has(a)"));
  EXPECT_EQ(keys.value("a | c").key, "c");
}

TEST(Expression, BindsAsItsHeaderSays) {
  const Keys keys(R"({"a": 2, "b": 3, "on": true})");
  EXPECT_EQ(keys.number("1 + 2 * 3 - 4 / 2"), 5);
  EXPECT_EQ(keys.number("(1 + 2) * 3"), 9);
  EXPECT_EQ(keys.number("a > b ? 1 : a < b and on ? 2 : 3"), 2);
  EXPECT_TRUE(keys.holds("not off and (on | false) or off | false"));
  EXPECT_EQ(keys.number("missing | a * @width"), 192);
  EXPECT_EQ(keys.number("max(a, min(b, 9)) + floor(7 / 2) + ceil(7 / 2)"), 3 + 3 + 4);
}

// What is worked out of nothing is nothing.
TEST(Expression, NoneStaysNone) {
  const Keys keys("{}");
  EXPECT_TRUE(keys.value("a * 2").is_none());
  EXPECT_TRUE(keys.value("min(4096, a)").is_none());
  EXPECT_FALSE(keys.holds("a > 2"));
  EXPECT_EQ(keys.number("min(4096, a) | 1"), 1);
}

TEST(Expression, PatternsAreLettersOfLayers) {
  const Keys keys(R"({"kinds": ["full_attention", "linear", "linear", "full_attention"],
    "windows": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "full": ["full_attention", "full_attention", "full_attention", "full_attention"],
    "from_one": [1, 3], "in_text": "2, 3", "flags": [0, 1, 1, 0],
    "full_first": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"],
    "singles": ["M", "E", "M", "*"], "heads": [6, 4, 6, 4], "other_heads": [6, 4, 8, 4],
    "letters": "MEM*", "dense": [0, 1], "odd": [1], "short": ["full_attention"]})");
  EXPECT_EQ(keys.word("letters(kinds, 'full_attention', '*', 'linear', 'G')"), "*GG*");
  EXPECT_EQ(keys.word("every(2, 1, 'a', 'b')"), "baba");
  EXPECT_EQ(keys.word("listed(dense, '*', 'M')"), "**MM");
  EXPECT_EQ(keys.refusal("listed(kinds, '*', 'M')"),
            "kinds: numbers of layers, from 0 to the last, are expected");
  EXPECT_EQ(keys.word("listed(from_one, '*', 'M', 1)"), "*M*M");
  EXPECT_EQ(keys.word("listed(in_text, 'E', '-')"), "--EE");
  EXPECT_EQ(keys.refusal("listed(dense, '*', 'M', 1)"),
            "dense: numbers of layers, from 1 to the last, are expected");
  EXPECT_EQ(keys.word("letters(flags, '0', '*', '1', 'W')"), "*WW*");
  EXPECT_EQ(keys.number("before(listed(in_text, 'E', '-'), 'E')"), 2);
  EXPECT_EQ(keys.number("spacing('-E-E', 'E')"), 2);
  EXPECT_EQ(keys.number("before('-E-E', 'E', spacing('-E-E', 'E'))"), 1);
  EXPECT_EQ(keys.number("spacing('--EE', 'E') + spacing('---E', 'E') + spacing('----', 'E')"), 3);
  EXPECT_EQ(keys.refusal("before(letters(flags, '0', '-', '1', 'E'), 'E', 2)"),
            "flags: only leading layers may be of another kind, and layer 2 is");
  EXPECT_EQ(keys.number("before(other, 'E') | 7"), 7);
  EXPECT_EQ(keys.word("in_last(letters, 2, 'M', 'V', '*', 'U')"), "MEVU");
  EXPECT_EQ(keys.refusal("in_last(letters, 5, 'M', 'V')"), ": a number of layers is expected");
  EXPECT_EQ(keys.refusal("before(letters(flags, '0', '-', '1', 'E'), 'E')"),
            "flags: only leading layers may be of another kind, and layer 3 is");
  EXPECT_EQ(keys.word("repeated(every(2, 1, 'a', 'b'))"), "ba");
  EXPECT_EQ(keys.number("among(heads, 'W*', 'W') * 10 + among(heads, 'W*', '*')"), 64);
  EXPECT_TRUE(keys.value("among(missing, 'W*', 'W')").is_none());
  EXPECT_TRUE(keys.value("among(heads, '*', 'W')").is_none());
  EXPECT_EQ(keys.refusal("among(other_heads, 'W*', 'W')"),
            "other_heads: only the same number in all layers of a kind is modelled");
  EXPECT_EQ(keys.number("full_every(windows)"), 2);
  EXPECT_EQ(keys.number("full_every(full)"), 0);
  EXPECT_EQ(keys.number("full_every(other) | 9"), 9);
  EXPECT_TRUE(keys.value("windows(windows)").is_none());
  EXPECT_TRUE(keys.value("windows(full)").is_none());
  EXPECT_EQ(keys.word("repeated(windows(full_first))"), "*W");
  EXPECT_EQ(keys.refusal("full_every(full_first)"),
            "full_first: only a pattern with every n-th layer full is modelled");
  EXPECT_TRUE(keys.holds("has_letter(each_layer(letters), 'E') and not has_letter(letters, 'S')"));
  EXPECT_EQ(keys.word("each_layer(singles)"), "MEM*");
  EXPECT_EQ(keys.word("spelled('LG', 'L', 'W', 'G', '*')"), "W*W*");
  EXPECT_EQ(keys.word("spelled('LLG', 'L', 'W', 'G', '*')"), "WW*W");
  EXPECT_TRUE(keys.value("spelled(4, 'L', 'W')").is_none());
  EXPECT_EQ(keys.refusal("spelled(letters, 'M', 'W', 'E', '*')"),
            "letters: layers of the kind \"*\" are not modelled for this model_type");
  EXPECT_EQ(keys.number("leading(dense) + leading(other)"), 2);
  EXPECT_EQ(keys.refusal("leading(odd)"), "odd: only the leading layers may be dense: [0, 1, ...]");
  EXPECT_EQ(keys.refusal("full_every(short)"), "short: a string for each of 4 layers is expected");
  EXPECT_EQ(keys.refusal("full_every(kinds)"),
            "kinds: layers of the kind \"linear\" are not modelled for this model_type");
}

TEST(Expression, ANumberMayStandForEachLayer) {
  const Keys keys(R"({"one": 3, "list": [5, 5], "odd": [5, 6], "empty": [], "minus": -1})");
  EXPECT_EQ(keys.number("same(one) + same(list)"), 8);
  EXPECT_EQ(keys.number("same(empty) | 2"), 2);
  EXPECT_EQ(keys.refusal("same(odd)"), "odd: only the same number in all layers is modelled");
  EXPECT_EQ(keys.number("integer(minus)"), -1);
  EXPECT_TRUE(keys.value("integer(missing)").is_none());
}

TEST(Expression, WhatIsNoSizeNamesItsKey) {
  const Keys keys(R"({"a": -1, "b": 1.5, "c": "many", "z": 0})");
  const std::string sizes = ": an integer from 1 to 134217728 is expected";
  EXPECT_EQ(keys.refusal("a"), "a" + sizes);
  EXPECT_EQ(keys.refusal("b"), "b" + sizes);
  EXPECT_EQ(keys.refusal("c * 2"), "c" + sizes);
  EXPECT_EQ(keys.refusal("z"), "z" + sizes);
  EXPECT_EQ(keys.number("zero_or_more(z)"), 0);
  EXPECT_EQ(keys.number("number(b)"), 1.5);
  EXPECT_EQ(error_of([&] { keys.holds("c"); }), "c: true or false is expected");
}

TEST(Expression, OtherTextsAreRefused) {
  for (const char* text : {"", "a |", "(a", "a b", "'x", "f(a)", "min(a)", "has(1)", "a ? b", "1x",
                           "@", "a = b", "letters('x', 'y', 'z')"})
    EXPECT_NE(error_of([&] { Expression{text}; }), "") << text;
  EXPECT_NE(error_of([] { Expression{std::string(200, '(')}; }), "");
}

TEST(Expression, SaysWhatItNames) {
  const Expression expression("a | has(b) ? c : none");
  EXPECT_EQ(expression.keys(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(expression.may_be_none());
  EXPECT_FALSE(Expression("a | 1").may_be_none());
}

}  // namespace
}  // namespace llmsim::hwdb
