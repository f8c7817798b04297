#include "tests/fuzz/hostile_texts.h"

#include <algorithm>
#include <cctype>

#include "tests/share.h"

namespace llmsim::fuzz {
namespace {

std::string times(int count, const std::string& text) {
  std::string all;
  all.reserve(static_cast<std::size_t>(count) * text.size());
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// Nine lists of nine aliases of the list before.
std::string alias_bomb(const std::string& leaf) {
  std::string text = "a0: &a0 [" + leaf + "]\n";
  for (int i = 1; i <= 9; ++i) {
    const std::string name = "a" + std::to_string(i);
    const std::string before = "*a" + std::to_string(i - 1);
    text += name + ": &" + name + " [" + before + times(8, ", " + before) + "]\n";
  }
  return text;
}

// Each variable is the one before, twice.
std::string doubling(const std::string& open, const std::string& close, const std::string& equals) {
  std::string text = "A0" + equals + "xxxxxxxxxxxxxxxx\n";
  for (int i = 1; i < 60; ++i) {
    const std::string before = open + "A" + std::to_string(i - 1) + close;
    text += "A" + std::to_string(i) + equals + before + before + "\n";
  }
  return text;
}

bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '+' ||
         c == '-';
}

std::size_t end_of_value(const std::string& text, std::size_t at) {
  std::size_t end = at + 1;
  if (text[at] != '"') {
    while (end < text.size() && is_of_word(text[end])) ++end;
    return end;
  }
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

}  // namespace

std::vector<std::pair<std::string, std::string>> hostile_texts() {
  // Sanitizers look for other errors than a walk that takes too long.
  constexpr int kMany = kPartsOfATest == 1 ? 50'000 : 10'000,
                kLines = kPartsOfATest == 1 ? 300'000 : 10'000;
  std::vector<std::pair<std::string, std::string>> texts{
      {"nothing", ""},
      {"a null byte", std::string(1, '\0')},
      {"an anchor in itself", "a: &a [*a]\n"},
      {"an anchor in its own map", "a: &a\n  b: *a\n"},
      {"a map merged with itself", "a: &a\n  <<: *a\n  b: 1\n"},
      {"aliases of aliases", alias_bomb("x")},
      {"aliases of aliases of nothing", alias_bomb("")},
      {"shell variables that double", doubling("$", "", "=")},
      {"references that double", doubling("${", "}", ": ")},
      {"an assignment to itself", times(kLines, "A=\"$A x\"\n")},
      {"a list that grows", times(kLines, "A+=(x)\n")},
      {"a text that grows", times(kLines, "A+=x\n")},
      {"assignments on one line", times(kLines, "A=1 ")},
      {"conditions in conditions", times(kLines, "if a\n")},
      {"lists of commands in words", times(1000, "A=\"$A; $A\"\n")},
      {"a quotient that overflows", "A=$(((9223372036854775807+1)/(0-1)))\n"},
      {"the least number over -1", "A=$(((0-9223372036854775807-1)/(0-1)))\n"},
      {"a product that overflows", "A=$((9223372036854775807*9223372036854775807))\n"},
      {"brackets in arithmetic", "A=$((" + times(kMany, "(") + "1" + times(kMany, ")") + "))\n"},
      {"defaults in defaults", times(kMany, "${A:-") + times(kMany, "}") + "\n"},
      {"quotes in brackets", times(kMany, "$(\"") + times(kMany, "\")") + "\n"},
      {"documents without an end", times(kMany, "<<EOF\n")},
      {"a layout that repeats", "torchrun pretrain_gpt.py --pipeline-model-parallel-layout \"" +
                                    times(kMany, "t*65536") + "\" --num-layers 32\n"},
      {"lists in lists", times(kMany, "[") + times(kMany, "]")},
      {"objects in objects", times(kMany, "{\"a\":") + "1" + times(kMany, "}")},
      {"rows of lists in lists", "[{\"a\":" + times(kMany, "[") + times(kMany, "]") + "}]"},
      {"objects side by side", "{\"runs\":[" + times(kLines, "{\"id\":\"a\"},") + "{}]}"},
      {"dotted keys", "a" + times(kMany, ".a") + " = 1\n"},
      {"indented maps",
       [] {
         std::string text;
         for (int i = 0; i < 2000; ++i)
           text += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
         return text;
       }()},
  };
  for (const char* open :
       {"(",  "[",  "{",  "${A:-",   "$((", "$(", "`", "\"", "'",  "{\"a\":", "[{",
        "- ", "? ", "<<", "a: &a [", "!!",  "#",  "|", "\\", "\n", "[[a]]\n", "x "})
    texts.emplace_back(std::string("many ") + open, times(kMany, open));
  return texts;
}

std::vector<std::string> with_odd_values(const std::string& text) {
  static const std::vector<std::string> kOdd{"0",
                                             "-1",
                                             "1",
                                             "0.5",
                                             "1e308",
                                             "-1e308",
                                             "1e999",
                                             "99999999999999999999",
                                             "2147483648",
                                             "-9223372036854775808",
                                             "9223372036854775807",
                                             "16777216",
                                             "nan",
                                             "NaN",
                                             "inf",
                                             "null",
                                             "true",
                                             "[]",
                                             "{}",
                                             "\"\"",
                                             "\"a\\nb\"",
                                             "\"0\"",
                                             "[0]",
                                             "[[[",
                                             "$(x)",
                                             "'",
                                             "\x1b[31m",
                                             "\xff\xfe",
                                             "#",
                                             ""};
  std::vector<std::string> all;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '"' && !is_of_word(text[at])) {
      ++at;
      continue;
    }
    const std::size_t end = end_of_value(text, at);
    for (const std::string& odd : kOdd) all.push_back(text.substr(0, at) + odd + text.substr(end));
    at = end;
  }
  return all;
}

}  // namespace llmsim::fuzz
