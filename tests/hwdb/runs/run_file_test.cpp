#include "hwdb/runs/run_file.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

constexpr const char* kRun = R"({
  "id": "a", "notes": "kept", "model": {"name": "gpt2", "seq_len": 1024},
  "hardware": {"accelerator": "h100_sxm", "num_devices": 8},
  "training": {"framework": "ddp", "global_batch": 64, "dropout": 0.1},
  "measured": {"step_time_s": 9.0, "reported_mfu": 0.5}, "noise": 0.5
})";

RunResult result() {
  RunResult result{.id = "b", .group = "mine", .source = "train.log", .measured = {}, .scored = {}};
  result.measured.step_time = sim::Seconds(1.25);
  result.measured.peak_memory = sim::Bytes(12345678901.0);
  result.measured.memory_kind = "reserved";
  result.measured.outcome = "ok";
  result.scored.step_time = true;
  result.noise = 0.01;
  return result;
}

TEST(RunFile, HasTheRunAndWhatWasMeasuredInPlaceOfAnEarlierResult) {
  const RunRecord run = parse_run(run_file_with(result(), kRun, "run.json"), "out.json");
  EXPECT_EQ(run.id, "b");
  EXPECT_EQ(run.group, "mine");
  EXPECT_EQ(run.source, "train.log");
  EXPECT_EQ(run.notes, "kept");
  EXPECT_EQ(run.model.name, "gpt2");
  EXPECT_EQ(run.training.settings.count("dropout"), 1U);
  EXPECT_EQ(run.measured->step_time->value(), 1.25);
  EXPECT_EQ(run.measured->peak_memory->value(), 12345678901.0);
  EXPECT_FALSE(run.measured->reported_mfu);
  EXPECT_EQ(run.noise, 0.01);
  EXPECT_TRUE(run.scored.step_time);
  EXPECT_FALSE(run.scored.memory);
}

TEST(RunFile, OfAFileOfOneRunKeepsWhatHoldsForTheFile) {
  const std::string text = std::string(R"({"schema": 2, "group": "g", "description": "Own cluster",
      "caveats": ["shared nodes"], "runs": [)") +
                           kRun + "]}";
  const std::string written = run_file_with(result(), text, "runs.json");
  EXPECT_NE(written.find("Own cluster"), std::string::npos);
  EXPECT_NE(written.find("shared nodes"), std::string::npos);
  EXPECT_EQ(parse_run(written, "out.json").id, "b");
}

TEST(RunFile, OfTextThatIsNoJsonIsRefused) {
  EXPECT_NE(error_of([] { run_file_with(result(), "{", "run.json"); }).find("run.json:1"),
            std::string::npos);
}

}  // namespace
}  // namespace llmsim::hwdb
