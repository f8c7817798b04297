#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

class Plot : public Program {
 protected:
  void sweep() const {
    const Outcome outcome =
        run("sweep --model gpt2 --gpus 8-64*2 --tp 1,2 --sharding zero1 -o sweep.csv");
    ASSERT_EQ(outcome.status, 0) << outcome.messages;
  }
};

int count(const std::string& text, const std::string& piece) {
  int n = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1))
    ++n;
  return n;
}

// Eight rows: two lines of four marks each, however the sweep was written.
TEST_F(Plot, OfASweepIsTheSameFromBothMachineFormats) {
  sweep();
  const Outcome csv = run("plot sweep.csv");
  ASSERT_EQ(csv.status, 0) << csv.messages;
  EXPECT_EQ(count(csv.out, "<polyline"), 2);
  EXPECT_EQ(count(csv.out, "r=\"3.5\""), 8);
  ASSERT_EQ(run("sweep --model gpt2 --gpus 8-64*2 --tp 1,2 --sharding zero1 --format json -o "
                "sweep.json")
                .status,
            0);
  EXPECT_EQ(run("plot sweep.json").out, csv.out);
}

TEST_F(Plot, ExamplesOfTheHelpDraw) {
  sweep();
  EXPECT_EQ(run("plot sweep.csv -o sweep.svg").status, 0);
  EXPECT_TRUE(text_of("sweep.svg").starts_with("<svg xmlns="));
  EXPECT_EQ(run("plot sweep.csv --x gpus --y tp --value step_time_s -o map.svg").status, 0);
  EXPECT_EQ(count(text_of("map.svg"), "<rect x="), 8);
}

TEST_F(Plot, OfAValidationHasAMarkForEveryScoredRun) {
  write("runs.json", R"({"id": "a", "model": {"name": "gpt2"}, "hardware": {"accelerator":
 "h100_sxm", "num_devices": 8}, "training": {"framework": "ddp", "global_batch": 64, "micro_batch":
 8}, "measured": {"step_time_s": 0.1},
 "scored": {"step_time": true, "memory": false, "outcome": false}})");
  const Outcome validation = run("validate runs.json --scope all --format json");
  ASSERT_EQ(validation.status, 0) << validation.messages;
  write("validation.json", validation.out);
  const Outcome drawn = run("plot validation.json");
  ASSERT_EQ(drawn.status, 0) << drawn.messages;
  EXPECT_EQ(count(drawn.out, "r=\"3.5\""), 1);
}

TEST_F(Plot, WhatIsWrongIsOneLine) {
  sweep();
  const auto why = [&](const std::string& arguments) {
    const Outcome outcome = run("plot " + arguments);
    EXPECT_EQ(outcome.status, 1) << arguments;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(count(outcome.messages, "\n"), 1) << outcome.messages;
    return outcome.messages;
  };
  EXPECT_NE(why("nothing.csv").find("nothing.csv"), std::string::npos);
  EXPECT_NE(why("sweep.csv --x tpp").find("no such column; did you mean tp?"), std::string::npos);
  EXPECT_NE(why("sweep.csv --where tp").find("KEY=VALUE is expected"), std::string::npos);
  EXPECT_NE(why("sweep.csv --log z").find("x, y or x,y is expected"), std::string::npos);
  EXPECT_NE(why("sweep.csv -o no/such/folder.svg").find("cannot be written"), std::string::npos);
  write("text.csv", "a,b\n1\n");
  EXPECT_EQ(why("text.csv"), "llmsim: text.csv: row 1 has 1 fields, the header 2\n");
  EXPECT_EQ(run("plot").status, 2);
}

}  // namespace
}  // namespace llmsim::cli
