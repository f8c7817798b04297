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

// Where so many questions may be answered at the same time.
struct Server {
  explicit Server(int count) : turns(count) {}

  const CLI::App program;
  const TemporaryFolder folder;
  AnswerStore store;
  std::counting_semaphore<> turns;
  const Means means{.program = program,
                    .limit = std::chrono::seconds(1),
                    .temporary = folder.path(),
                    .store = store,
                    .turns = turns};
};

TEST(AnswerInLines, WaitsForItsTurnUntilNobodyWaits) {
  Server server(0);
  Impatient client;
  answer_in_lines({.fields = {{"kind", "plan"}}}, server.means, client);
  EXPECT_EQ(client.heard, "{\"waiting\":true}\n");
  EXPECT_FALSE(server.turns.try_acquire());
}

TEST(AnswerInLines, GivesItsTurnBack) {
  Server server(1);
  Impatient client;
  const Form two{.files = {{"from", "a.sh", ""}, {"from", "b.sh", ""}}};
  answer_in_lines(two, server.means, client);
  EXPECT_EQ(client.heard,
            "{\"done\":{\"error\":\"from: one launch file or run record is expected\"}}\n");
  client.heard.clear();
  answer_in_lines({.files = {{"log", "a", ""}, {"profile", "a", ""}}}, server.means, client);
  EXPECT_NE(client.heard.find("a: two files have this name"), std::string::npos);
  EXPECT_TRUE(server.turns.try_acquire());
}

}  // namespace
}  // namespace llmsim::cli::serve
