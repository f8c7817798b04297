// The program as people start it: exit codes, messages, and files that survive what happens to it.
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/temporary_folder.h"

namespace llmsim::runtime {
namespace {

class Program : public testing::Test {
 protected:
  std::string errors() const { return content_of(folder_ / "errors"); }
  std::vector<std::string> lines() const {
    std::istringstream text(content_of(results_));
    std::vector<std::string> all;
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }

  // The exit code.
  int run(const std::string& arguments) const {
    const std::string command = std::string(LLMSIM_RUNTIME_PROGRAM) + " " + arguments + " > " +
                                folder_ / "output" + " 2> " + folder_ / "errors";
    return WEXITSTATUS(std::system(command.c_str()));
  }
  std::string measuring(const std::string& more = "") const {
    return "--quick --kernels --device cpu --threads 1 --budget 1 --output " + results_ + " " +
           more;
  }

  const TemporaryFolder folder_;
  const std::string results_ = folder_ / "results.jsonl";
};

TEST_F(Program, ExplainsItself) {
  EXPECT_EQ(run("--help"), 0);
  EXPECT_NE(content_of(folder_ / "output").find("--resume"), std::string::npos);
}

TEST_F(Program, TellsUsageFromErrors) {
  EXPECT_EQ(run("--nonsense"), 2);
  EXPECT_EQ(run("--quick"), 2);
  EXPECT_EQ(run("--output x unexpected"), 2);
  EXPECT_EQ(run("--output x --budget much"), 1);
  EXPECT_EQ(errors(), "llmsim-runtime: --budget = much: a number above 0 is expected\n");
  EXPECT_EQ(run("--output x --device nowhere"), 1);
  EXPECT_EQ(errors(), "llmsim-runtime: --device = nowhere: cpu, cuda or cuda:N is expected\n");
}

TEST_F(Program, NamesTheDeviceWithoutMeasuring) {
  const auto printed = [&](const std::string& arguments) {
    EXPECT_EQ(run(arguments), 0) << errors();
    return content_of(folder_ / "output");
  };
  EXPECT_EQ(printed("--name --device cpu"), "local_cpu\n");
  EXPECT_EQ(printed("--name --device cpu --id node7"), "node7\n");
  EXPECT_EQ(run("--name --id Node7"), 1);
  EXPECT_EQ(
      errors(),
      "llmsim-runtime: --id = Node7: 1 to 64 lower-case letters, digits and '_' are expected\n");
}

TEST_F(Program, GoesOnFromAnEarlierRun) {
  ASSERT_EQ(run(measuring()), 0) << errors();
  const std::vector<std::string> first = lines();
  ASSERT_GT(first.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(first.front())["type"], "header");
  EXPECT_EQ(run(measuring()), 1);
  ASSERT_EQ(run(measuring("--resume")), 0) << errors();
  const std::vector<std::string> second = lines();
  ASSERT_GE(second.size(), first.size());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), second.begin()));
}

TEST_F(Program, AKilledRunLeavesWholeRecords) {
  std::vector<std::string> words{LLMSIM_RUNTIME_PROGRAM,
                                 "--kernels",
                                 "--device",
                                 "cpu",
                                 "--threads",
                                 "1",
                                 "--output",
                                 results_};
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, pointers.front(), nullptr, nullptr, pointers.data(), environ), 0);
  for (int i = 0; i < 6000 && lines().size() < 5; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_GE(lines().size(), 5U);
  EXPECT_EQ(run(measuring("--resume")), 0) << errors();
  for (const std::string& line : lines()) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

}  // namespace
}  // namespace llmsim::runtime
