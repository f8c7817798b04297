#include "hwdb/runs/run_record.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

std::string record_error(const std::string& text) {
  try {
    RunFile file = parse_runs(text, "runs.json");
    return file.rejected.empty() ? "" : file.rejected.front().reason;
  } catch (const Error& error) {
    return error.what();
  }
}

std::vector<std::string> shipped_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(LLMSIM_SOURCE_DIR "/tests/validation/" + folder)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  }
  return files;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(RunRecord, AKeyThatStandsTwiceIsRefused) {
  const auto error = [](const std::string& text) {
    try {
      parse_runs(text, "runs.json");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(error(R"({"id": "a", "training": {"tp": 2, "dp": 1, "tp": 4}})"),
            "runs.json: \"tp\" stands twice in one object");
  // The same key in two objects side by side, or in one inside the other, is something else.
  EXPECT_EQ(error(R"({"runs": [{"id": "a"}, {"id": "b"}]})"), "none");
  EXPECT_EQ(
      error(
          R"({"id": "a", "model": {"name": "m", "moe": null}, "training": {"tp": 1}, "group": "a"})"),
      "none");
}

TEST(RunRecords, KeepWhatTheFileSaysAndLeaveTheRestUnknown) {
  const RunFile file =
      parse_runs(R"({"schema": 2, "group": "g", "runs": [{"id": "a", "date": "2024-10-14",
      "model": {"num_layers": 2, "gated_mlp": true, "position": null}, "hardware": {"num_devices": 8},
      "training": {"precision": "bf16", "recompute": {"kind": "every_n", "every_n": 3}},
      "measured": {"step_time_s": 1.5, "peak_memory_bytes": 2000, "outcome": "ok"}, "scored": {"step_time": true}}]})",
                 "runs.json");
  ASSERT_EQ(file.runs.size(), 1u);
  const RunRecord& run = file.runs.front();
  EXPECT_EQ(run.id, "a");
  EXPECT_EQ(run.group, "g");
  EXPECT_EQ(run.model.fields, (sim::PartialTransformer{{"num_layers", 2}, {"gated_mlp", true}}));
  EXPECT_FALSE(run.training.strategy.contains("micro_batch"));
  EXPECT_EQ(sim::stated<int>(run.training.strategy, "recompute.every_n"), 3);
  EXPECT_EQ(run.measured->step_time, sim::Seconds(1.5));
  EXPECT_EQ(run.measured->peak_memory, sim::Bytes(2000.0));
  EXPECT_TRUE(run.scored.step_time);
  EXPECT_FALSE(run.scored.memory);
}

TEST(RunRecords, OneRunMayStandAlone) {
  const RunFile file = parse_runs(
      R"({"model": {"name": "llama-3-8b"}, "training": {"global_batch": 8}})", "mine.json");
  ASSERT_EQ(file.runs.size(), 1u);
  EXPECT_EQ(file.runs.front().id, "number 1");
  EXPECT_FALSE(file.runs.front().measured);
}

TEST(RunRecords, AMisspelledKeyIsRefusedWithTheNearestKnownOne) {
  EXPECT_EQ(record_error(R"({"runs": [{"id": "a", "model": {"hiden_size": 8}}]})"),
            "runs.json: run a: model.hiden_size: unknown key; did you mean hidden_size?");
  EXPECT_EQ(record_error(R"({"runs": [{"id": "a", "hardwear": {}}]})"),
            "runs.json: run a: hardwear: unknown key; did you mean hardware?");
}

TEST(RunRecords, AnUnknownValueIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(record_error(R"({"runs": [{"id": "a", "training": {"sharding": "zero4"}}]})"),
            "runs.json: run a: training.sharding = \"zero4\": unknown value; did you mean zero1? "
            "(one of none, zero1, zero2, "
            "zero3, hsdp)");
}

TEST(RunRecords, AWrongTypeOrRangeIsRefusedWithWhatIsExpected) {
  EXPECT_EQ(record_error(R"({"id": "a", "model": {"num_layers": -3}})"),
            "runs.json: run a: model.num_layers = -3: an integer from 1 to 4096 is expected");
  EXPECT_EQ(record_error(R"({"id": "a", "model": {"num_layers": 1.5}})"),
            "runs.json: run a: model.num_layers = 1.5: an integer from 1 to 4096 is expected");
  EXPECT_EQ(record_error(R"({"id": "a", "training": {"compile": "yes"}})"),
            "runs.json: run a: training.compile = \"yes\": true or false is expected");
  EXPECT_EQ(record_error(R"({"id": "a", "model": 3})"),
            "runs.json: run a: model = 3: an object { ... } is expected");
  EXPECT_EQ(record_error(R"({"id": "a", "training": {"dropout": 10}})"),
            "runs.json: run a: training.dropout = 10: a number from 0 to 0.999 is expected");
  EXPECT_EQ(record_error(R"({"id": "a", "date": "May 2021"})"),
            "runs.json: run a: date = \"May 2021\": a date as \"YYYY-MM-DD\" is expected");
}

// A line feed in a name would begin a command in an exported script.
TEST(RunRecords, ControlCharactersInATextAreRefusedWithTheField) {
  const std::string rule =
      ": line feeds, tabs and other control characters are not allowed in a text";
  EXPECT_EQ(record_error(R"({"id": "a", "model": {"name": "gpt2\nrm -r ."}})"),
            "runs.json: run a: model.name" + rule);
  EXPECT_EQ(record_error(R"({"id": "a", "training": {"framework_version": "1\t"}})"),
            "runs.json: run a: training.framework_version" + rule);
  EXPECT_EQ(record_error(R"({"id": "a", "model": {"lora": {"targets": ["q", "v\u007f"]}}})"),
            "runs.json: run a: model.lora.targets[1]" + rule);
  EXPECT_EQ(record_error(R"({"id": "a\rb"})"), "runs.json: run number 1: id" + rule);
  EXPECT_EQ(record_error(R"({"group": "a\nb", "runs": []})"), "runs.json: group" + rule);
  EXPECT_EQ(record_error(R"({"runs": [{"id": "a", "notes": "\u0000"}]})"),
            "runs.json: run a: notes" + rule);
  EXPECT_EQ(record_error(R"({"id": "a", "notes": "K\u00f6ln: 5 \u00b5s \\n"})"), "");
}

TEST(RunRecords, ATextWithALineFeedRefusesItsRunOnly) {
  const RunFile file =
      parse_runs(R"({"runs": [{"id": "a", "notes": "x\ny"}, {"id": "b"}]})", "runs.json");
  ASSERT_EQ(file.runs.size(), 1u);
  EXPECT_EQ(file.runs[0].id, "b");
  ASSERT_EQ(file.rejected.size(), 1u);
  EXPECT_EQ(file.rejected[0].id, "a");
}

TEST(RunRecords, ABiasIsOneWordOrALayerEach) {
  const auto model = [](const std::string& bias) {
    return parse_runs(R"({"id": "a", "model": {"bias": )" + bias + "}}", "runs.json")
        .runs.at(0)
        .model;
  };
  EXPECT_EQ(model("true").bias, true);
  EXPECT_TRUE(model("true").fields.empty());
  EXPECT_FALSE(model(R"({"qkv": true})").bias);
  EXPECT_EQ(sim::stated<bool>(model(R"({"qkv": true})").fields, "bias.qkv"), true);
  EXPECT_EQ(sim::stated<bool>(model(R"({"qkv": true})").fields, "bias.mlp"), false);
}

TEST(RunRecords, AnObjectOfAModelNeedsItsSizes) {
  EXPECT_EQ(record_error(R"({"id": "a", "model": {"moe": {"num_experts": 8, "top_k": 2}}})"),
            "runs.json: run a: model.moe.expert_ffn_size: is missing; moe needs it");
}

TEST(RunRecords, MalformedJsonIsRefusedWithItsLine) {
  const std::string error = record_error("{\n\"runs\": [\n{]}");
  EXPECT_EQ(error.substr(0, 35), "runs.json:3: malformed JSON: syntax");
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(RunRecords, AnotherSchemaIsRefused) {
  EXPECT_EQ(record_error(R"({"schema": 1, "runs": []})"),
            "runs.json: schema = 1: this program reads schema 2; tests/validation/convert_runs.py "
            "IN OUT converts schema 1");
}

TEST(RunRecords, TheGoodRunsOfAFileAreReadBesideABadOne) {
  const RunFile file = parse_runs(
      R"({"runs": [{"id": "a"}, {"id": "b", "x": 1}, {"id": "a"}, {"id": "c"}]})", "runs.json");
  EXPECT_EQ(file.runs.size(), 2u);
  ASSERT_EQ(file.rejected.size(), 2u);
  EXPECT_EQ(file.rejected[0].id, "b");
  EXPECT_EQ(file.rejected[1].reason, "runs.json: run a: this id appears twice");
}

TEST(RunRecords, HybridsHaveAPatternAndTheSizesOfTheirMixers) {
  const RunFile file = parse_runs(
      R"({"id": "a", "model": {"architecture": "hybrid", "layer_pattern": "MG*-", "attention_gate": true,
          "mamba": {"num_heads": 64, "head_dim": 64, "state_size": 128}, "moe": {"num_experts": 8,
          "top_k": 2, "expert_ffn_size": 512, "latent_size": 256}, "gated_delta_net": {"num_key_heads": 8,
          "key_head_dim": 128, "num_value_heads": 16, "value_head_dim": 128}}})",
      "runs.json");
  ASSERT_EQ(file.runs.size(), 1u);
  const sim::PartialTransformer& fields = file.runs.front().model.fields;
  EXPECT_EQ(sim::stated<std::string>(fields, "layer_pattern"), "MG*-");
  EXPECT_EQ(sim::stated<int>(fields, "mamba.state_size"), 128);
  EXPECT_EQ(sim::stated<int>(fields, "moe.latent_size"), 256);
  EXPECT_EQ(sim::stated<int>(fields, "gated_delta_net.num_value_heads"), 16);
  EXPECT_EQ(record_error(R"({"id": "a", "model": {"mamba": {"num_heads": 64, "head_dim": 64}}})"),
            "runs.json: run a: model.mamba.state_size: is missing; mamba needs it");
}

TEST(RunRecords, AMissingFileIsNamed) {
  EXPECT_THROW(
      try { read_run("no/such.json"); } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "no/such.json: cannot be read");
        throw;
      },
      Error);
}

TEST(RunRecords, EveryShippedRunIsRead) {
  std::size_t runs = 0;
  for (const std::string& path : shipped_files("runs")) {
    const RunFile file = read_runs(path);
    runs += file.runs.size();
    for (const RejectedRun& rejected : file.rejected) ADD_FAILURE() << rejected.reason;
  }
  EXPECT_EQ(runs, 3332u);  // as the index of the runs says
}

// Six rows, none of them scored, do not say how wide their experts or latents are.
TEST(RunRecords, EveryRunOfFirstContactIsReadOrSaysWhatIsMissing) {
  std::size_t runs = 0, rejected = 0;
  for (const std::string& path : shipped_files("first_contact")) {
    const RunFile file = read_runs(path);
    runs += file.runs.size();
    rejected += file.rejected.size();
    for (const RejectedRun& run : file.rejected)
      EXPECT_NE(run.reason.find(" needs "), std::string::npos) << run.reason;
  }
  EXPECT_EQ(runs, 1049u);
  EXPECT_EQ(rejected, 6u);
}

// Whatever a file holds: runs, or an Error of one line.
TEST(RunRecords, DamagedFilesNeverBreakTheReader) {
  const std::string good = text_of(LLMSIM_SOURCE_DIR "/tests/validation/runs/nanogpt.json");
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text = good;
    for (int change = 0; change < 3; ++change)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    if (round % 4 == 0) text.resize(random() % text.size());
    const std::string error = record_error(text);
    ASSERT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace llmsim::hwdb
