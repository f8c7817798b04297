#include "cli/table_options.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>

#include "tests/error_of.h"

namespace llmsim::cli {
namespace {

constexpr TableOptionsOf kOfRun = TableOptionsOf::Run;

TEST(TableOptions, AreThoseOfACommandLine) {
  const RunOptions run = run_options({{"model", "gpt2", 1},
                                      {"gpus", "8", 2},
                                      {"flash", "false", 3},
                                      {"compile", "true", 4},
                                      {"recompute", "every-n=4", 5},
                                      {"dropout", "0.1", 6}},
                                     kOfRun);
  EXPECT_EQ(run.model, "gpt2");
  EXPECT_EQ(run.gpus, "8");
  EXPECT_EQ(run.recompute, "every-n=4");
  EXPECT_EQ(run.strategy.at("flash_attention"), "false");
  EXPECT_EQ(run.strategy.at("compile"), "true");
  EXPECT_EQ(run.settings.size(), 1u);
}

TEST(TableOptions, TheLaterOneCountsUnderAnyOfItsNames) {
  const RunOptions run = run_options(
      {{"tp", "2", 1}, {"stack", "fsdp2", 2}, {"framework", "ddp", 3}, {"tp", "4", 4}}, kOfRun);
  EXPECT_EQ(run.strategy.at("tp"), "4");
  EXPECT_EQ(run.framework, "ddp");
}

std::string complaint(const hwdb::TableOption& option) {
  return error_of([&] { check_options({option}, kOfRun, "a.toml"); });
}

TEST(TableOptions, UnknownOnesAreToldWithTheNearest) {
  EXPECT_EQ(complaint({"micro-batsh", "2", 7}),
            "a.toml: line 7: unknown option micro-batsh; did you mean micro-batch?");
  EXPECT_THROW(check_options({{"tpp", "2", 7}}, kOfRun, "a.toml"), hwdb::UnknownKey);
  for (const char* key : {"", "help", "version", "format", "=", "--tp", " "})
    EXPECT_THROW(check_options({{key, "2", 7}}, kOfRun, "a.toml"), hwdb::UnknownKey) << key;
}

TEST(TableOptions, ValuesThatAnOptionCannotHaveAreToldWithTheirLine) {
  EXPECT_EQ(complaint({"tp", "", 3}), "a.toml: line 3: tp: a value is expected");
  EXPECT_EQ(complaint({"dropout", "much", 3}).rfind("a.toml: line 3: ", 0), 0u);
  EXPECT_EQ(complaint({"flash", "perhaps", 3}).rfind("a.toml: line 3: ", 0), 0u);
}

// Whatever the file says, an option is taken or refused by an Error that names the line.
TEST(TableOptions, AnyTextIsTakenOrRefused) {
  std::mt19937 random(20261124);
  const std::string alphabet = "0123456789-.eE\"'{}[]:,=#+%ntfabcxyz_ \n\t\xff\x80\\";
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const char* const keys[] = {"tp",        "gpus",     "flash",   "compile",
                                "recompute", "dropout",  "offload", "dp-overlap",
                                "model",     "sharding", "date",    ""};
    std::string key = keys[random() % std::size(keys)], value;
    for (std::size_t i = random() % 8; i > 0; --i) value += alphabet[random() % alphabet.size()];
    if (random() % 4 == 0) key += alphabet[random() % alphabet.size()];
    try {
      check_options({{key, value, 5}}, kOfRun, "f.toml");
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(std::string(error.what()).rfind("f.toml: line 5: ", 0), 0u) << error.what();
    }
  }
  EXPECT_GT(refused, 500);
}

// Of a search also lists.
TEST(TableOptions, OfASearchTakeLists) {
  const RunOptions run = run_options({{"tp", "1,2", 1}}, TableOptionsOf::Search);
  EXPECT_EQ(run.strategy.at("tp"), "1,2");
}

}  // namespace
}  // namespace llmsim::cli
