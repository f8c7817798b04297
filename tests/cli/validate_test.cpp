#include "cli/commands.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sim/base/error.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

namespace llmsim::cli {
namespace {

namespace fs = std::filesystem;

std::string run_files_error(const std::vector<std::string>& paths) {
  return error_of([&] { run_files(paths); });
}

class RunFiles : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"b.json", "a.json", "notes.md"}) std::ofstream(folder_ / name) << "{}";
  }

  const TemporaryFolder folder_;
};

TEST_F(RunFiles, OfAFolderAreItsJsonFilesInAlphabeticalOrder) {
  EXPECT_EQ(run_files({folder_.path()}), (std::vector{folder_ / "a.json", folder_ / "b.json"}));
}

TEST_F(RunFiles, NamedOnesStayAsTheyAreWhateverTheirName) {
  const std::string notes = folder_ / "notes.md";
  EXPECT_EQ(run_files({notes}), (std::vector{notes}));
}

TEST_F(RunFiles, ThatDoNotExistAreNamed) {
  EXPECT_EQ(run_files_error({"no/such"}), "no/such: no such file or folder");
}

TEST_F(RunFiles, AFolderWithoutThemIsRefused) {
  fs::remove(folder_ / "a.json");
  fs::remove(folder_ / "b.json");
  EXPECT_EQ(run_files_error({folder_.path()}), folder_.path() + ": no *.json file in this folder");
}

}  // namespace
}  // namespace llmsim::cli
