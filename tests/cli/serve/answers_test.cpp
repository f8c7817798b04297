#include "cli/serve/answers.h"

#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <string>

#include "tests/temporary_folder.h"

namespace llmsim::cli::serve {
namespace {

// Goes as soon as it hears something.
class Impatient : public Client {
 public:
  bool send(std::string_view piece) override {
    heard += piece;
    return true;
  }
  bool is_gone() override { return !heard.empty(); }

  std::string heard;
};

TEST(AnswerInLines, WaitsForItsTurnUntilNobodyWaits) {
  const CLI::App program;
  const TemporaryFolder folder;
  AnswerStore store;
  std::counting_semaphore<> turns(0);
  const Means means{.program = program,
                    .limit = std::chrono::seconds(1),
                    .temporary = folder.path(),
                    .store = store,
                    .turns = turns};
  Impatient client;
  answer_in_lines({.fields = {{"kind", "plan"}}}, means, client);
  EXPECT_EQ(client.heard, "{\"waiting\":true}\n");
  EXPECT_FALSE(turns.try_acquire());
}

TEST(AnswerInLines, GivesItsTurnBack) {
  const CLI::App program;
  const TemporaryFolder folder;
  AnswerStore store;
  std::counting_semaphore<> turns(1);
  const Means means{.program = program,
                    .limit = std::chrono::seconds(1),
                    .temporary = folder.path(),
                    .store = store,
                    .turns = turns};
  Impatient client;
  const Form two{.files = {{"from", "a.sh", ""}, {"from", "b.sh", ""}}};
  answer_in_lines(two, means, client);
  EXPECT_EQ(client.heard,
            "{\"done\":{\"error\":\"from: one launch file or run record is expected\"}}\n");
  client.heard.clear();
  answer_in_lines({.files = {{"log", "a", ""}, {"profile", "a", ""}}}, means, client);
  EXPECT_NE(client.heard.find("a: two files have this name"), std::string::npos);
  EXPECT_TRUE(turns.try_acquire());
}

}  // namespace
}  // namespace llmsim::cli::serve
