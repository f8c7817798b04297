#include "cli/validate.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sim/base/error.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;

std::string error_of(const std::vector<std::string>& paths) {
  try {
    run_files(paths);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class RunFiles : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    for (const char* name : {"b.json", "a.json", "notes.md"}) std::ofstream(folder_ / name) << "{}";
  }
  void TearDown() override { fs::remove_all(folder_); }

  const fs::path folder_ = fs::path(testing::TempDir()) / "llmsim_run_files";
};

TEST_F(RunFiles, OfAFolderAreItsJsonFilesInAlphabeticalOrder) {
  EXPECT_EQ(run_files({folder_.string()}), (std::vector{(folder_ / "a.json").string(), (folder_ / "b.json").string()}));
}

TEST_F(RunFiles, NamedOnesStayAsTheyAreWhateverTheirName) {
  const std::string notes = (folder_ / "notes.md").string();
  EXPECT_EQ(run_files({notes}), (std::vector{notes}));
}

TEST_F(RunFiles, ThatDoNotExistAreNamed) { EXPECT_EQ(error_of({"no/such"}), "no/such: no such file or folder"); }

TEST_F(RunFiles, AFolderWithoutThemIsRefused) {
  fs::remove(folder_ / "a.json");
  fs::remove(folder_ / "b.json");
  EXPECT_EQ(error_of({folder_.string()}), folder_.string() + ": no *.json file in this folder");
}

}  // namespace
}  // namespace llmsim::cli
