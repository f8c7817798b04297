// What a training program needs of a model and no cost depends on: rotary positions, the epsilon of
// norms, the activation.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hwdb/huggingface/huggingface.h"
#include "hwdb/launch/launch_file.h"
#include "hwdb/models/catalogue.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"
#include "sim/predict.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

sim::Transformer model_with(const std::string& type, const std::string& keys) {
  return read_model_config(
      R"({"model_type": ")" + type +
          R"(", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256,
                   "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
                   "max_position_embeddings": 8192, )" +
          keys + "}",
      "config.json");
}

sim::Run run_of(const sim::Transformer& model, const std::string& framework = "megatron-lm") {
  static const Database facts(":memory:");
  static RunResolver resolver(facts);
  RunRecord record;
  record.model = recorded(model);
  record.hardware.accelerator = "h100_sxm", record.hardware.num_devices = 8;
  record.training.framework = framework;
  record.training.strategy = {
      {"precision", "bf16"}, {"global_batch", 64}, {"tp", 8}, {"sharding", "zero1"}};
  return resolver.resolve(record);
}

std::vector<LaunchFile> megatron_files(const sim::Transformer& model) {
  static const Database facts(":memory:");
  static RunResolver resolver(facts);
  return launch_files(run_of(model), "megatron", resolver);
}

TEST(CostlessFields, MoveNoPrediction) {
  const sim::Transformer& known = find_model("llama-3.1-8b")->model;
  const sim::Prediction before = sim::predict(run_of(known));
  sim::Transformer other = known;
  other.rope = sim::Rope{.base = 5e6, .window_base = 1e4, .share = 0.25, .factor = 3.0};
  other.rope->scaling = sim::RopeScaling::Yarn, other.rope->trained_len = 100;
  other.norm_epsilon = 1e-12, other.activation = sim::Activation::Xielu;
  const sim::Prediction after = sim::predict(run_of(other));
  EXPECT_EQ(after.step_time, before.step_time);
  EXPECT_EQ(after.memory.peak, before.memory.peak);
  EXPECT_EQ(after.parameters.total(), before.parameters.total());
}

TEST(CostlessFields, AreReadWhereverAFileHasThem) {
  const sim::Transformer old =
      model_with("llama", R"("rope_theta": 500000.0, "rms_norm_eps": 1e-05, "hidden_act": "silu",
                  "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
                  "original_max_position_embeddings": 8192})");
  EXPECT_EQ(old.rope, (sim::Rope{.base = 500000,
                                 .window_base = {},
                                 .share = 1.0,
                                 .scaling = sim::RopeScaling::Llama3,
                                 .factor = 8.0,
                                 .trained_len = 8192}));
  EXPECT_EQ(old.norm_epsilon, 1e-5);
  EXPECT_EQ(old.activation, sim::Activation::Silu);
  const sim::Transformer newer = model_with(
      "llama", R"("rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 500000.0, "factor": 8.0,
                  "rope_type": "llama3", "original_max_position_embeddings": 8192})");
  EXPECT_EQ(newer.rope, old.rope);
  const sim::Transformer windows = model_with(
      "gemma3_text", R"("rope_theta": 1e6, "rope_local_base_freq": 10000, "rms_norm_eps": 1e-06,
                        "hidden_activation": "gelu_pytorch_tanh")");
  EXPECT_EQ(windows.rope->window_base, 10000);
  EXPECT_EQ(windows.activation, sim::Activation::GeluTanh);
  EXPECT_EQ(model_with("gpt_neox", R"("rotary_pct": 0.25, "hidden_act": "gelu")").rope->share,
            0.25);
}

TEST(CostlessFields, WithoutAKeyAreThoseOfMostClasses) {
  const sim::Transformer plain = model_with("llama", R"("tie_word_embeddings": false)");
  EXPECT_EQ(plain.rope, sim::Rope{});
  EXPECT_EQ(plain.norm_epsilon, std::nullopt);
  EXPECT_EQ(plain.activation, sim::Activation::Silu);
}

TEST(CostlessFields, WhatHasNoNameHereIsLeftToTheProgram) {
  const sim::Transformer odd = model_with(
      "llama", R"("hidden_act": "laplace", "rope_scaling": {"type": "su", "factor": 2.0})");
  EXPECT_EQ(odd.activation, std::nullopt);
  EXPECT_EQ(odd.rope->scaling, sim::RopeScaling::None);
}

TEST(CostlessFields, ModelsWithoutRotaryPositionsHaveNoRope) {
  for (const sim::NamedModel& entry : catalogue())
    EXPECT_EQ(entry.model.rope.has_value(), entry.model.position == sim::Position::Rope)
        << entry.model.name;
  EXPECT_FALSE(model_with("bloom", R"("n_layer": 2)").rope);
}

// As the publishers' config.json have them.
TEST(CostlessFields, OfTheCatalogueAreThePublishedOnes) {
  const auto check = [](const char* name, double base, double epsilon, const char* activation) {
    const sim::Transformer& model = find_model(name)->model;
    EXPECT_EQ(model.rope->base, base) << name;
    EXPECT_EQ(model.norm_epsilon, epsilon) << name;
    EXPECT_STREQ(name_of(*model.activation), activation) << name;
  };
  check("llama-7b", 1e4, 1e-6, "silu");
  check("llama-65b", 1e4, 1e-5, "silu");
  check("llama-3.1-405b", 5e5, 1e-5, "silu");
  check("mixtral-8x22b", 1e6, 1e-5, "silu");
  check("yi-6b", 5e6, 1e-5, "silu");
  check("qwen1.5-4b", 5e6, 1e-6, "silu");
  check("qwen3-235b-a22b", 1e6, 1e-6, "silu");
  check("gemma-2-27b", 1e4, 1e-6, "gelu-tanh");
  check("deepseek-v3", 1e4, 1e-6, "silu");
  check("kimi-k2", 5e4, 1e-6, "silu");
  check("gpt-oss-20b", 1.5e5, 1e-5, "silu");
  check("qwen3-next", 1e7, 1e-6, "silu");
  check("pythia-1b", 1e4, 1e-5, "gelu");
}

TEST(CostlessFields, StandInALaunchFileAndComeBack) {
  for (const char* name : {"llama-3-70b", "llama-3.1-8b", "deepseek-v3", "gpt2-xl", "qwen3-8b"}) {
    const sim::Transformer& model = find_model(name)->model;
    std::vector<LaunchFile> files;
    ASSERT_EQ(error_of([&] { files = megatron_files(model); }), "") << name;
    EXPECT_TRUE(files.back().unsaid.empty()) << name << ": " << files.back().unsaid.front();
    const RunRecord read = parse_launch(files.back().text, files.back().name).record;
    if (!model.rope) continue;
    EXPECT_EQ(sim::stated<double>(read.model.fields, "rope.base"), model.rope->base) << name;
    EXPECT_EQ(sim::stated<sim::RopeScaling>(read.model.fields, "rope.scaling"), model.rope->scaling)
        << name;
    EXPECT_EQ(sim::stated<double>(read.model.fields, "norm_epsilon"), model.norm_epsilon) << name;
  }
}

TEST(CostlessFields, WithoutAKeyOfTheTargetAreNamed) {
  sim::Transformer model = find_model("llama-3-8b")->model;
  model.rope->window_base = 1e4;
  EXPECT_EQ(megatron_files(model).back().unsaid,
            std::vector<std::string>{"model.rope.window_base = 10000"});
}

TEST(CostlessFields, WhatATargetWouldTrainOtherwiseIsRefused) {
  sim::Transformer model = find_model("llama-3-8b")->model;
  model.activation = sim::Activation::GeluTanh;
  EXPECT_EQ(error_of([&] { megatron_files(model); }),
            "megatron cannot express model.gated_mlp = true, model.activation = gelu-tanh");
}

// The text part is what a program without a tower trains; one that gets images is refused.
TEST(LaunchFiles, AreOfTheTextPartOfAModelThatSees) {
  sim::Transformer model = find_model("llama-3-8b")->model;
  model.vision = find_model("gemma-3-4b")->model.vision;
  ASSERT_TRUE(model.vision);
  EXPECT_EQ(error_of([&] { megatron_files(model); }), "");
  model.vision->tokens = 256;
  EXPECT_EQ(error_of([&] { megatron_files(model); }),
            "megatron cannot express model.vision.tokens = 256");
}

}  // namespace
}  // namespace llmsim::hwdb
