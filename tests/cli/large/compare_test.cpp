#include <gtest/gtest.h>

#include <string>

#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

using Compare = Program;

constexpr const char* kTable = R"(title = "Tiny"
cell = "step_time"
[common]
model = "gpt2"
gpus = 8
sharding = "zero1"
global_batch = 64
[[rows]]
label = "bf16"
[[rows]]
plus = "compile"
compile = true
[[columns]]
label = "micro-batch 1"
[[columns]]
label = "micro-batch 8"
micro_batch = 8
)";

std::string field(const std::string& csv, int row, const std::string& key) {
  const auto cut = [](std::string text, int lines, char end) {
    for (; lines > 0; --lines) text.erase(0, text.find(end) + 1);
    return text.substr(0, text.find(end));
  };
  const std::string header = cut(csv, 0, '\n');
  int column = 0;
  while (column < 100 && cut(header, column, ',') != key) ++column;
  std::string line = cut(csv, row, '\n'), plain;  // commas in quotes are none
  bool quoted = false;
  for (const char c : line) {
    quoted = quoted != (c == '"');
    plain += quoted && c == ',' ? ';' : c;
  }
  return cut(plain, column, ',');
}

TEST_F(Compare, ACellIsWhatPredictPrints) {
  write("tiny.toml", kTable);
  const Outcome table = run("compare tiny.toml --format csv");
  ASSERT_EQ(table.status, 0) << table.messages;
  int row = 0;
  for (const char* compile : {"", " --compile"}) {
    for (const char* micro_batch : {"", " --micro-batch 8"}) {
      const Outcome one = run(std::string("predict --model gpt2 --gpus 8 --sharding zero1 "
                                          "--global-batch 64 --format csv") +
                              compile + micro_batch);
      ++row;
      for (const char* key : {"step_time_s", "mfu", "tokens_per_s_per_device"}) {
        const std::string expected = field(one.out, 1, key);
        EXPECT_FALSE(expected.empty()) << key;
        EXPECT_EQ(field(table.out, row, key), expected) << key << compile << micro_batch;
      }
    }
  }
}

TEST_F(Compare, FormatsHaveTheSameCells) {
  write("tiny.toml", kTable);
  for (const char* format : {"table", "markdown", "latex", "html"}) {
    const Outcome outcome = run(std::string("compare tiny.toml --format ") + format);
    EXPECT_EQ(outcome.status, 0) << outcome.messages;
    for (const char* text : {"Tiny", "bf16", "+ compile", "micro-batch 8", " ms"})
      EXPECT_NE(outcome.out.find(text), std::string::npos) << format << ": " << text;
  }
  EXPECT_NE(run("compare tiny.toml --cell mfu --interval").out.find("] % MFU"), std::string::npos);
}

TEST_F(Compare, UnknownKeysAreUsageAndBadFilesErrors) {
  write("key.toml", std::string(kTable) + "micro_batsh = 2\n");
  const Outcome key = run("compare key.toml");
  EXPECT_EQ(key.status, 2);
  EXPECT_EQ(key.messages,
            "llmsim: key.toml: line 18: unknown option micro-batsh; did you mean micro-batch?\n");
  write("bad.toml", "title = \n");
  EXPECT_EQ(run("compare bad.toml").status, 1);
  EXPECT_EQ(run("compare nowhere.toml").status, 1);
  const Outcome name = run("compare gpt2-h10");
  EXPECT_EQ(name.status, 1);
  EXPECT_NE(name.messages.find("did you mean gpt2-h100"), std::string::npos) << name.messages;
  EXPECT_EQ(run("compare").status, 2);
  EXPECT_EQ(run("compare --model gpt2,gpt2-xl").status, 2);
  EXPECT_EQ(run("compare gpt2-h100 --tp 2").status, 2);
  EXPECT_EQ(run("compare gpt2-h100 --cell speed").status, 1);
  EXPECT_EQ(run("compare gpt2-h100 --convention mine").status, 1);
}

TEST_F(Compare, ATableSaysWhatItsRunsAre) {
  for (const char* option : {"--seq-len 100", "--document-len 100", "--lora 8", "--tp 2"})
    EXPECT_EQ(run(std::string("compare gpt2-h100 ") + option).status, 2) << option;
}

// The names that --list prints are all that a table needs.
TEST_F(Compare, ShippedTablesArePrintedByName) {
  const Outcome list = run("compare --list --format csv");
  EXPECT_EQ(list.status, 0) << list.messages;
  EXPECT_NE(list.out.find("\nh100-mi250x-mi300x,"), std::string::npos) << list.out;
  const Outcome table = run("compare gpt2-h100");
  EXPECT_EQ(table.status, 0) << table.messages;
  EXPECT_NE(table.out.find("  measured  "), std::string::npos) << table.out;
}

TEST_F(Compare, RunsOfOnesOwnAreNamed) {
  write("mine.json",
        R"({"id": "monday", "model": {"name": "gpt2"}, "hardware": {"accelerator": "h100_sxm",
  "num_devices": 8}, "training": {"framework": "ddp", "global_batch": 64, "micro_batch": 8},
 "measured": {"step_time_s": 0.5}})");
  const std::string table =
      "title = \"t\"\ncell = \"step_time\"\nRUNS[[rows]]\nlabel = \"r\"\n[[columns]]\n"
      "label = \"c\"\n[[cells]]\nrow = \"r\"\ncolumn = \"c\"\nrun = \"monday\"\n";
  std::string named = table, unnamed = table;
  named.replace(named.find("RUNS"), 4, "runs = \"mine.json\"\n");
  unnamed.replace(unnamed.find("RUNS"), 4, "");
  write("named.toml", named);
  write("unnamed.toml", unnamed);
  const Outcome outcome = run("compare named.toml");
  EXPECT_NE(outcome.out.find("measured  500 ms"), std::string::npos)
      << outcome.out << outcome.messages;
  EXPECT_EQ(run("compare unnamed.toml --runs mine.json").out, outcome.out);
  EXPECT_EQ(run("compare unnamed.toml").status, 1);
}

TEST_F(Compare, NothingThatFitsIsNo) {
  const Outcome no = run("compare --model llama-3-70b --gpus 1,2 --tp 1");
  EXPECT_EQ(no.status, 3);
  EXPECT_NE(no.out.find("out of memory, "), std::string::npos) << no.out;
}

}  // namespace
}  // namespace llmsim::cli
