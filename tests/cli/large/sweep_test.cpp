#include "cli/sweep_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "tests/cli/program.h"
#include "tests/error_of.h"

namespace llmsim::cli {
namespace {

RunOptions asked() {
  RunOptions options{.model = "gpt2,llama3-8b"};
  options.gpus = "8-32*2";
  options.strategy = {{"tp", "1,2"}, {"sharding", "zero1"}, {"stage_layers", "3,5"}};
  options.recompute = "none,full";
  return options;
}

TEST(SweepGrid, HasRanksOfAdapters) {
  RunOptions options{.model = "gpt2"};
  options.lora = "8,16", options.lora_targets = "q,v";
  const SweepGrid grid = grid_of(options);
  ASSERT_EQ(grid.size(), 2u);
  EXPECT_EQ(grid.run(1).lora, "16");
  EXPECT_EQ(grid.run(1).lora_targets, "q,v");
}

// Two models, three numbers of devices, two of tensor ranks, two ways to recompute; the layers of
// stages are one value.
TEST(SweepGrid, HasEveryCombinationOnce) {
  const SweepGrid grid = grid_of(asked());
  ASSERT_EQ(grid.axes.size(), 4u);
  ASSERT_EQ(grid.size(), 24u);
  std::set<std::vector<std::string>> points;
  for (std::size_t i = 0; i < grid.size(); ++i) points.insert(grid.values(i));
  EXPECT_EQ(points.size(), 24u);
  EXPECT_EQ(grid.values(0), (std::vector<std::string>{"gpt2", "8", "1", "none"}));
  EXPECT_EQ(grid.values(1), (std::vector<std::string>{"gpt2", "8", "1", "full"}));
  EXPECT_EQ(grid.values(23), (std::vector<std::string>{"llama3-8b", "32", "2", "full"}));
  const RunOptions last = grid.run(23);
  EXPECT_EQ(last.model, "llama3-8b");
  EXPECT_EQ(last.gpus, "32");
  EXPECT_EQ(last.strategy.at("tp"), "2");
  EXPECT_EQ(last.strategy.at("sharding"), "zero1");
  EXPECT_EQ(last.strategy.at("stage_layers"), "3,5");
  EXPECT_EQ(last.recompute, "full");
}

TEST(SweepGrid, WhatIsNoGridIsAnError) {
  RunOptions huge = asked();
  huge.strategy = {{"tp", "1-4096"}, {"pp", "1-4096"}, {"dp", "1-4096"}};
  EXPECT_EQ(error_of([&] { grid_of(huge); }),
            "the lists have more than 100000000 combinations; fewer values are expected");
}

constexpr const char* kSweep =
    "sweep --model gpt2 --gpus 8 --tp 1,2,3 --micro-batch 1,2 --sharding zero1 ";

TEST_F(Program, RowsOfASweepAreThoseOfPredict) {
  const Outcome sweep = run(kSweep);
  ASSERT_EQ(sweep.status, 0) << sweep.messages;
  std::stringstream lines(sweep.out);
  std::string header, row;
  std::getline(lines, header);
  for (const char* tp : {"1", "2", "3"}) {
    for (const char* micro : {"1", "2"}) {
      ASSERT_TRUE(std::getline(lines, row));
      const Outcome one = run(std::string("predict --model gpt2 --gpus 8 --sharding zero1 --tp ") +
                              tp + " --micro-batch " + micro + " --format csv");
      EXPECT_EQ(one.out, header + "\n" + row + "\n") << one.messages;
    }
  }
  EXPECT_FALSE(std::getline(lines, row));
}

TEST_F(Program, ASweepResumesToWhatOneGoWrites) {
  const Outcome whole = run(kSweep + ("-o '" + path("whole.csv") + "'"));
  ASSERT_EQ(whole.status, 0) << whole.messages;
  const std::string all = text_of("whole.csv");
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 7);
  for (const std::size_t cut : {std::size_t{0}, all.find('\n') + 1, all.size() / 2, all.size()}) {
    write("part.csv", all.substr(0, cut));
    const Outcome resumed = run(kSweep + ("--resume -o '" + path("part.csv") + "'"));
    EXPECT_EQ(resumed.status, 0) << resumed.messages;
    EXPECT_EQ(text_of("part.csv"), all) << cut;
  }
  const Outcome other =
      run("sweep --model gpt2 --gpus 8 --tp 2,4 --resume -o '" + path("part.csv") + "'");
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.messages.find("rows of another sweep"), std::string::npos) << other.messages;
  EXPECT_EQ(text_of("part.csv"), all);
}

// A file whose rows are not those of the grid in their order is not gone on with: the line is named
// and the file stays as it is.
TEST_F(Program, ASweepResumesNoFileWithADoubledMissingOrCutRow) {
  const std::string all = run(kSweep).out;
  std::vector<std::string> lines;  // with their ends; line 1 is the header
  std::stringstream stream(all);
  for (std::string line; std::getline(stream, line);) lines.push_back(line + "\n");
  ASSERT_EQ(lines.size(), 7u);
  const auto refused = [&](const std::vector<std::string>& kept, const std::string& place) {
    std::string text;
    for (const std::string& line : kept) text += line;
    write("odd.csv", text);
    const Outcome resumed = run(kSweep + ("--resume -o '" + path("odd.csv") + "'"));
    EXPECT_EQ(resumed.status, 1) << text;
    EXPECT_NE(resumed.messages.find(place), std::string::npos) << resumed.messages;
    EXPECT_EQ(text_of("odd.csv"), text);
  };
  const auto& l = lines;
  refused({l[0], l[1], l[1], l[3], l[4]}, "odd.csv:3: the row of tp 1, micro_batch 2 is expected");
  refused({l[0], l[1], l[2], l[3], l[3]}, "odd.csv:5: the row of tp 2, micro_batch 2 is expected");
  refused({l[0], l[2], l[3]}, "odd.csv:2: ");
  refused({l[0], l[1].substr(0, l[1].size() / 2) + "\n", l[2]}, "odd.csv:2: ");
  refused({l[0], l[1], l[1].substr(0, l[1].size() / 2) + l[2], l[3]}, "odd.csv:3: ");
  refused({l[0], l[1], l[0], l[1]}, "odd.csv:3: ");
  refused({l[0], l[1], "\n", l[2]}, "odd.csv:3: ");
  refused({l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[6]}, "odd.csv:8: more rows than");
  std::string other = l[2];
  other.replace(other.find("yes,0.") + 6, 1, "9");
  refused({l[0], l[1], other}, "odd.csv:3: the row of tp 1, micro_batch 2 has other values");
}

TEST_F(Program, ASweepPrintsAJobArray) {
  const Outcome script = run(kSweep + std::string("--slurm 4 -o grid.csv"));
  ASSERT_EQ(script.status, 0) << script.messages;
  for (const char* line :
       {"#SBATCH --array=1-4\n", "llmsim sweep --model gpt2 --gpus 8 --tp 1,2,3 ",
        "--part \"$SLURM_ARRAY_TASK_ID\"/4 --resume -o grid.\"$SLURM_ARRAY_TASK_ID\".csv\n",
        "# llmsim join grid.{1..4}.csv -o grid.csv\n"})
    EXPECT_NE(script.out.find(line), std::string::npos) << line << "\n" << script.out;
  EXPECT_NE(run(kSweep + std::string("--slurm 4 --db my.db")).out.find(" --db my.db "),
            std::string::npos);
}

// A shell takes the file's name whole, in the job and in the line that joins.
TEST_F(Program, AJobArrayRunsNothingOfItsFilesName) {
  const std::string name = "o$(touch ran) 'x;y.csv";
  write("name", name);
  const Outcome script = run(kSweep + std::string("--slurm 2 -o \"$(cat name)\""));
  ASSERT_EQ(script.status, 0) << script.messages;
  std::string job = script.out;
  for (std::size_t at; (at = job.find("\nllmsim sweep")) != job.npos;)
    job.replace(at + 1, 6, "printf '<%s>'");
  write("job.sh", job);
  const Outcome done = shell("SLURM_ARRAY_TASK_ID=2 bash job.sh");
  EXPECT_NE(done.out.find("<-o><o$(touch ran) 'x;y.2.csv>"), std::string::npos) << done.out;
  const std::string joins = script.out.substr(script.out.find("# llmsim join") + 8);
  write("join.sh", "printf '<%s>'" + joins);
  EXPECT_EQ(shell("bash join.sh").out,
            "<join><o$(touch ran) 'x;y.1.csv><o$(touch ran) 'x;y.2.csv><-o><" + name + ">");
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
  EXPECT_EQ(run(kSweep + std::string("--slurm 2 -o \"$(printf \"a\\nb\")\"")).status, 1);
}

TEST_F(Program, WhatIsWrongWithAllOfASweepIsAnError) {
  const Outcome unknown = run("sweep --model gpt9 --gpus 8");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_NE(unknown.messages.find("gpt9"), std::string::npos) << unknown.messages;
  const Outcome one = run("sweep --model gpt2,gpt9 --gpus 8");
  EXPECT_EQ(one.status, 0) << one.messages;
  EXPECT_NE(one.out.find("gpt9: neither a known model"), std::string::npos) << one.out;
}

}  // namespace
}  // namespace llmsim::cli
