#include "cli/parts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

std::string error_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Parts, CoverAllOnceAndDifferByOneRow) {
  for (const std::size_t rows : {0u, 1u, 7u, 24u}) {
    std::size_t next = 0;
    for (std::size_t number = 1; number <= 5; ++number) {
      const PartRange range = range_of({number, 5}, rows);
      EXPECT_EQ(range.first, next);
      EXPECT_LE(range.last - range.first, rows / 5 + 1);
      next = range.last;
    }
    EXPECT_EQ(next, rows);
  }
  const PartRange all = range_of(part_in(std::nullopt), 7);
  EXPECT_EQ(all.first, 0u);
  EXPECT_EQ(all.last, 7u);
}

TEST(Parts, WhatIsNoPartIsAnError) {
  for (const char* text : {"", "3", "0/2", "3/2", "a/b", "1/", "/1", "1/2/3", "-1/2"})
    EXPECT_EQ(
        error_of([&] { part_in(text); }),
        "--part = " + std::string(text) + ": K/N with K from 1 to N is expected, such as 3/16");
}

class JoinedParts : public Program {
 protected:
  // The files of all parts, by their names.
  std::string parts_of(const std::string& command, const std::string& to, int count) {
    std::string files;
    for (int part = 1; part <= count; ++part) {
      const std::string name = "part." + std::to_string(part) + ".csv";
      const Outcome one = run(command + " --part " + std::to_string(part) + "/" +
                              std::to_string(count) + " " + to + " " + name);
      EXPECT_EQ(one.status, 0) << one.messages;
      files = name + " " + files;  // the last one first
    }
    return files;
  }
};

TEST_F(JoinedParts, AreTheUndividedAnswerToTheByte) {
  const std::string sweep = "sweep --model gpt2 --gpus 8 --tp 1,2,3 --micro-batch 1,2";
  const std::string compare =
      "compare --model gpt2,llama3-8b --hardware h100,mi300x,a100 --gpus 8 --format csv";
  const std::string plan = "plan --model gpt2,llama3-70b --gpus 1,8 --recompute none --format csv";
  const std::string space = "plan --model gpt2 --gpus 8 --recompute none,full";
  for (const auto& [command, to] :
       {std::pair(sweep, "-o"), {compare, "-o"}, {plan, "-o"}, {space, "--space"}}) {
    ASSERT_EQ(run(command + " " + to + " whole.csv").status, 0) << command;
    for (const int count : {1, 3, 5}) {
      const Outcome joined = run("join " + parts_of(command, to, count) + "-o joined.csv");
      EXPECT_EQ(joined.status, 0) << joined.messages;
      EXPECT_EQ(text_of("joined.csv"), text_of("whole.csv")) << command << " in " << count;
    }
  }
}

TEST_F(JoinedParts, APartOnStandardOutputIsThatInAFile) {
  const std::string sweep = "sweep --model gpt2 --gpus 8 --tp 1,2,3 --part 2/3 ";
  ASSERT_EQ(run(sweep + "-o part.csv").status, 0);
  EXPECT_EQ(run(sweep + "--jobs 2").out, text_of("part.csv"));
  EXPECT_EQ(text_of("part.csv").find("# part 2 of 3: llmsim sweep "), 0u) << text_of("part.csv");
}

TEST_F(JoinedParts, APartOfASweepIsResumed) {
  const std::string sweep = "sweep --model gpt2 --gpus 8 --tp 1-8 --part 2/2 ";
  ASSERT_EQ(run(sweep + "-o part.csv").status, 0);
  const std::string whole = text_of("part.csv");
  for (std::size_t cut = 0; cut <= whole.size(); cut += whole.size() / 7) {
    write("part.csv", whole.substr(0, cut));
    const Outcome resumed = run(sweep + "--resume -o part.csv");
    EXPECT_EQ(resumed.status, 0) << cut << ": " << resumed.messages;
    EXPECT_EQ(text_of("part.csv"), whole) << cut;
  }
  const Outcome other = run("sweep --model gpt2 --gpus 8 --tp 1-8 --part 1/2 --resume -o part.csv");
  EXPECT_NE(other.messages.find("part.csv: has rows of another sweep"), std::string::npos);
  EXPECT_EQ(text_of("part.csv"), whole);
}

TEST_F(JoinedParts, AMissingOrDoubledPartIsAnErrorThatNamesIt) {
  const std::string sweep = "sweep --model gpt2 --gpus 8 --tp 1,2,3,4";
  parts_of(sweep, "-o", 4);
  const auto refused = [&](const std::string& files, const std::string& why) {
    const Outcome joined = run("join " + files + " -o joined.csv");
    EXPECT_EQ(joined.status, 1) << files;
    EXPECT_NE(joined.messages.find(why), std::string::npos) << joined.messages;
    EXPECT_FALSE(std::filesystem::exists(path("joined.csv")));
  };
  refused("part.2.csv part.4.csv", "of 4 parts these are missing: 1 3");
  refused("part.1.csv part.2.csv part.3.csv", "of 4 parts these are missing: 4");
  std::filesystem::copy(path("part.2.csv"), path("copy.csv"));
  refused("part.*.csv copy.csv", "part 2 of 4 is there twice: also in ");
  const std::string third = text_of("part.3.csv");
  write("part.3.csv", third.substr(0, third.find("# end")));
  refused("part.*.csv",
          "part.3.csv: part 3 of 4 is not complete: its last line is not "
          "\"# end of part 3 of 4\"");
  write("part.3.csv", third);
  ASSERT_EQ(run("sweep --model gpt2 --gpus 8 --tp 1,2,4,8 --part 3/4 -o part.3.csv").status, 0);
  refused("part.*.csv",
          "part.3.csv: part 3 of 4 of \"llmsim sweep --model=gpt2 --gpus=8 "
          "--tp=1,2,4,8\", but part.1.csv is part 1 of 4 of ");
  for (const char* text : {"", "a", "a,b\n1,2\n", "# part 1 of 1", "# part 1 of 0: x\na\n",
                           "# part 1 of 1: x\n", "# part 1 of 1: x\n# end of part 1 of 1\n"}) {
    write("odd.csv", text);
    refused("odd.csv", "odd.csv: ");
  }
  refused("/dev/zero", "/dev/zero: ");
}

TEST_F(JoinedParts, WhatHasNoPartsSaysSo) {
  const auto said = [&](const std::string& command) { return run(command).messages; };
  EXPECT_NE(said("sweep --model gpt2 --gpus 8 --part 1/2 --format table").find("--format csv"),
            std::string::npos);
  EXPECT_NE(said("compare gpt2-h100 --part 1/2").find("--format csv"), std::string::npos);
  EXPECT_NE(said("plan --model gpt2 --gpus 8 --part 1/2 --format csv").find("--space"),
            std::string::npos);
  EXPECT_NE(said("plan --model gpt2 --fit --part 1/2 --format csv").find("--fit"),
            std::string::npos);
}

}  // namespace
}  // namespace llmsim::cli
