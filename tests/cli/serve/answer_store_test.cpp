#include "cli/serve/answer_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace llmsim::cli::serve {
namespace {

TEST(AnswerStore, FindsWhatWasPutByItsNameAlone) {
  AnswerStore store;
  const std::string id = store.put({"plan.html", "<p>"}), other = store.put({"a.txt", "b"});
  EXPECT_EQ(id.size(), 32U);
  EXPECT_NE(id, other);
  ASSERT_NE(store.find(id), nullptr);
  EXPECT_EQ(store.find(id)->body, "<p>");
  EXPECT_EQ(store.find(other)->name, "a.txt");
  for (const std::string& wrong : std::vector<std::string>{"", "../x", id.substr(1), id + "0"})
    EXPECT_EQ(store.find(wrong), nullptr) << wrong;
}

TEST(AnswerStore, KeepsTheLast128) {
  AnswerStore store;
  std::vector<std::string> ids;
  for (int i = 0; i < 129; ++i) ids.push_back(store.put({"a.txt", "x"}));
  EXPECT_EQ(store.find(ids[0]), nullptr);
  EXPECT_NE(store.find(ids[1]), nullptr);
  EXPECT_NE(store.find(ids[128]), nullptr);
}

TEST(AnswerStore, AFolderKeepsAnswersOfEveryServer) {
  const TemporaryFolder folder;
  const std::string id = AnswerStore(folder.path()).put({"plan.html", "<p>"});
  const AnswerStore later(folder.path());
  ASSERT_NE(later.find(id), nullptr);
  EXPECT_EQ(later.find(id)->name, "plan.html");
  EXPECT_EQ(later.find(id)->body, "<p>");
  EXPECT_EQ(later.find(std::string(32, '0')), nullptr);
}

TEST(QuestionFolder, IsItsUsersAloneAndGoesAway) {
  namespace fs = std::filesystem;
  const TemporaryFolder parent;
  fs::path path;
  {
    const QuestionFolder folder(parent.path());
    path = folder.path();
    std::ofstream(path / "log.txt") << "x";
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace llmsim::cli::serve
