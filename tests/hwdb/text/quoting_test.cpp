// What anyone may have written stays one text, or one line of a comment, in every language.
#include "hwdb/text/quoting.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>
#include <array>
#include <cstdio>
#include <random>

#include "hwdb/text/toml.h"

namespace llmsim::hwdb {
namespace {

const std::vector<std::string>& hostile_names() {
  static const std::vector<std::string> all{"",
                                            "plain-1.5_b",
                                            "two words",
                                            "it's",
                                            "a\"b",
                                            "$(touch x)",
                                            "`touch x`",
                                            "${HOME}",
                                            "$HOME",
                                            "-rf",
                                            "--help",
                                            "a\nrm -rf x",
                                            "a\r\nb",
                                            "\ttab",
                                            "a\\",
                                            "\\",
                                            "'",
                                            "''",
                                            "\"\"\"",
                                            "#c",
                                            "a # b",
                                            "a: b",
                                            "- a",
                                            "[a]",
                                            "{a: 1}",
                                            "*a",
                                            "&a",
                                            "!!python/object",
                                            "%d",
                                            "@x",
                                            "| pipe",
                                            "> file",
                                            "null",
                                            "true",
                                            "1e3",
                                            "~",
                                            "a;b",
                                            "a&b",
                                            "a\x1b[31mred",
                                            "\x7f",
                                            "caf\xc3\xa9",
                                            "\xc2\x9b"
                                            "31m",
                                            "\xe2\x80\xae"
                                            "evil",
                                            "\xe2\x80\xa8line",
                                            "a\xff"
                                            "b",
                                            std::string("nul\0l", 5),
                                            "*",
                                            "?",
                                            "a b  c "};
  return all;
}

std::string random_name(std::mt19937& random) {
  static const std::string kSigns = "abc 019'\"\\$`(){}[]<>|&;#!%*?~:=,-\n\t\x1b";
  std::string name;
  for (std::size_t i = random() % 12; i > 0; --i) name += kSigns[random() % kSigns.size()];
  return name;
}

std::vector<std::string> names() {
  std::vector<std::string> all = hostile_names();
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) all.push_back(random_name(random));
  return all;
}

std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string all;
  std::array<char, 256> part{};
  for (std::size_t n = 0; (n = fread(part.data(), 1, part.size(), pipe)) > 0;)
    all.append(part.data(), n);
  pclose(pipe);
  return all;
}

TEST(Quoting, AShellReadsTheSameWord) {
  std::string command = "printf '%s\\n.\\n'", expected;
  for (const std::string& name : names()) {
    if (name.find('\0') != std::string::npos) continue;  // no shell has such a word
    command += " " + shell_quoted(name);
    expected += name + "\n.\n";
  }
  EXPECT_EQ(output_of(command), expected);
  for (const std::string& name : names())
    EXPECT_EQ(shell_quoted(name).find("\n", 0) == std::string::npos,
              name.find('\n') == std::string::npos);
}

TEST(Quoting, TomlReadsTheSameText) {
  for (const std::string& name : names()) {
    if (name.find('\xff') != std::string::npos) continue;  // no text of TOML
    const toml::table read = parse_toml("a = " + toml_quoted(name) + "\nb = 1\n");
    EXPECT_EQ(read["a"].value<std::string>(), name);
    EXPECT_EQ(read["b"].value<int>(), 1);
    EXPECT_EQ(read.size(), 2u);
  }
}

TEST(Quoting, YamlReadsTheSameText) {
  for (const std::string& name : names()) {
    if (name.find('\xff') != std::string::npos) continue;  // no text of YAML
    const YAML::Node read = YAML::Load("a: " + yaml_quoted(name) + "\nb: 1\n");
    EXPECT_EQ(read["a"].as<std::string>(), name) << yaml_quoted(name);
    EXPECT_EQ(read["b"].as<int>(), 1);
    EXPECT_EQ(read.size(), 2u);
  }
}

TEST(Quoting, ACommentEndsWithItsLine) {
  for (const std::string& name : names()) {
    const std::string text = comment_text(name);
    for (const char* sign : {"\n", "\r", "\x1b", "\xe2\x80\xae", "\xe2\x80\xa8", "\xc2\x9b"})
      EXPECT_EQ(text.find(sign), std::string::npos) << name;
  }
  EXPECT_EQ(comment_text("Llama 3.1 8B (caf\xc3\xa9)"), "Llama 3.1 8B (caf\xc3\xa9)");
}

}  // namespace
}  // namespace llmsim::hwdb
