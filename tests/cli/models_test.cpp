#include "cli/commands.h"

#include <string>

#include "gtest/gtest.h"
#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

std::string shown(const ModelShowOptions& options) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_model_show(options), 0);
  return ::testing::internal::GetCapturedStdout();
}

template <class Function>
std::string complaint(Function run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ModelList, AFamilyListsOnlyItsModels) {
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_model_list({.family = "Bloom", .output = {}}), 0);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(contains(text, "bloom-176b"));
  EXPECT_FALSE(contains(text, "llama"));
}

TEST(ModelList, AnUnknownFamilySuggestsTheNearest) {
  const std::string text = complaint([] { run_model_list({.family = "lama", .output = {}}); });
  EXPECT_TRUE(contains(text, "--family = lama: unknown; did you mean llama? (bert, bloom, "));
}

TEST(ModelShow, AnAliasShowsItsModel) {
  const std::string text = shown({.name = "llama-70b", .seq_len = {}, .output = {}});
  EXPECT_TRUE(contains(text, "llama-3-70b"));
  EXPECT_TRUE(contains(text, "published: 70,553,706,496"));
}

TEST(ModelShow, TheSequenceLengthCanBeChosen) {
  EXPECT_TRUE(
      contains(shown({.name = "gpt2", .seq_len = "512", .output = {}}), "sequences of 512 tokens"));
}

TEST(ModelShow, BadNamesAndLengthsAreOneClearLine) {
  EXPECT_TRUE(contains(
      complaint([] { run_model_show({.name = "lama-3-70b", .seq_len = {}, .output = {}}); }),
      "model = lama-3-70b: neither a known model nor a config.json; did you mean llama-3-70b, "));
  EXPECT_EQ(complaint([] { run_model_show({.name = "none.json", .seq_len = {}, .output = {}}); }),
            "none.json: cannot be read");
  EXPECT_EQ(
      complaint([] { run_model_show({.name = "opt-125m", .seq_len = "4096", .output = {}}); }),
      "--seq-len = 4096: seq_len = 4096 is longer than the learned position table, max_positions = "
      "2050");
  EXPECT_NE(complaint([] { run_model_show({.name = "gpt2", .seq_len = "0", .output = {}}); }), "");
}

}  // namespace
}  // namespace llmsim::cli
