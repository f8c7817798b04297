// llmsim calibrate log: from a training log and its run file to a run file with what was measured.
#include <string>

#include "hwdb/runs/run_record.h"
#include "tests/cli/program.h"

namespace llmsim::cli {
namespace {

constexpr const char* kRun = R"({
 "id": "our-7b", "date": "2025-03-01",
 "model": {"name": "llama-2-7b", "seq_len": 4096},
 "hardware": {"accelerator": "h100_sxm", "num_devices": 64, "devices_per_node": 8},
 "training": {"framework": "torchtitan", "precision": "bf16", "optimizer": "adamw", "micro_batch": 2,
  "global_batch": 512, "dp": 64, "sharding": "zero3"},
 "notes": "the second week"
})";

// 32768 tokens of a device in a step: 6,554 tokens/s are 5.0 s.
std::string log_text() {
  std::string text;
  for (int step = 1; step <= 120; step += 10)
    text +=
        "[rank0]:[titan] 2025-01-10 10:00:10,001 - root - INFO - step: " + std::to_string(step) +
        "  loss: 12.2721  memory: 47.65GiB(60.2%)  tps: " + (step == 1 ? "1,024" : "6,554") +
        "  tflops: 379.00  mfu: 38.32%\n";
  return text;
}

class CalibrateLog : public Program {
 protected:
  CalibrateLog() {
    write("run.json", kRun);
    write("train.log", log_text());
  }

  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }
};

TEST_F(CalibrateLog, WritesARunFileThatValidateReads) {
  const Outcome outcome =
      run("calibrate log train.log --run run.json -o measured.json --group our-cluster");
  EXPECT_EQ(outcome.status, 0) << outcome.messages;
  EXPECT_TRUE(has(outcome.out, "torchtitan")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "llmsim validate measured.json")) << outcome.out;
  const hwdb::RunRecord record = hwdb::read_run(path("measured.json"));
  EXPECT_EQ(record.id, "our-7b");
  EXPECT_EQ(record.group, "our-cluster");
  EXPECT_EQ(record.notes, "the second week");
  ASSERT_TRUE(record.measured);
  EXPECT_NEAR(record.measured->step_time->value(), 32768.0 / 6554.0, 1e-5);
  EXPECT_EQ(record.measured->step_time_derived_from, "tokens_per_s_per_device");
  EXPECT_NEAR(record.measured->peak_memory->value(), 47.65 * 1024.0 * 1024.0 * 1024.0, 1.0);
  EXPECT_EQ(record.measured->memory_kind, "reserved");
  EXPECT_EQ(record.measured->outcome, "ok");
  EXPECT_TRUE(record.scored.step_time && record.scored.memory && record.scored.outcome);
  EXPECT_NEAR(*record.noise, 0.5 / 6554.0, 1e-9);
  const Outcome validated = run("validate measured.json");
  EXPECT_EQ(validated.status, 0) << validated.messages;
  EXPECT_TRUE(has(validated.out, "all, each       1")) << validated.out;
}

TEST_F(CalibrateLog, WritesBesideTheRunByDefault) {
  EXPECT_EQ(run("calibrate log train.log --run run.json --id monday").status, 0);
  EXPECT_EQ(hwdb::read_run(path("run.measured.json")).id, "monday");
  EXPECT_EQ(hwdb::read_run(path("run.measured.json")).group, "own-runs");
}

TEST_F(CalibrateLog, FitsAScreenOfAHundredColumns) {
  const std::string out = run("calibrate log train.log --run run.json").out;
  for (std::size_t begin = 0; begin < out.size();) {
    const std::size_t end = out.find('\n', begin);
    EXPECT_LE(end - begin, 100U) << out.substr(begin, end - begin);
    begin = end + 1;
  }
}

TEST_F(CalibrateLog, NeverWritesOverALog) {
  const Outcome outcome = run("calibrate log train.log --run run.json -o ./train.log");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome.messages, "is a log that is to be read")) << outcome.messages;
  EXPECT_EQ(text_of("train.log"), log_text());
}

TEST_F(CalibrateLog, WarnsOfARunThatIsAnother) {
  write("train.log",
        "completed step: 1, seconds: 5.0, TFLOP/s/device: 1.0, Tokens/s/device: 9000\n");
  const Outcome outcome = run("calibrate log train.log --run run.json");
  EXPECT_TRUE(has(outcome.messages, "warning: by the printed tokens/s of one device a step takes"))
      << outcome.messages;
}

TEST_F(CalibrateLog, WithoutAStepNamesWhatItLookedFor) {
  write("train.log", "hello\n");
  const Outcome outcome = run("calibrate log train.log --run run.json");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome.messages, "no training step in 1 lines; looked for Megatron-LM"))
      << outcome.messages;
}

TEST_F(CalibrateLog, IsNamedByImport) {
  const Outcome outcome = run("calibrate import train.log");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(has(outcome.messages,
                  "is a training log (torchtitan), no result file of llmsim-runtime; read it with "
                  "llmsim calibrate log train.log --run RUN.json"))
      << outcome.messages;
}

TEST_F(CalibrateLog, ExamplesOfItsHelpRun) {
  EXPECT_EQ(run("calibrate log train.log --run run.json -o measured.json").status, 0);
  EXPECT_EQ(run("validate measured.json").status, 0);
}

}  // namespace
}  // namespace llmsim::cli
