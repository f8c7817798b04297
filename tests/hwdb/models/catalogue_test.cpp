#include "hwdb/models/catalogue.h"

#include <cstdint>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "sim/model/parameters.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

using sim::NamedModel;
using sim::Parameters;
using sim::parameters;
using sim::Transformer;

std::string document(const std::string& families) {
  return R"({"schema": 1, "about": "", "families": [)" + families + "]}";
}

// What is said of the one model of a family of Llama's block; `row` is the inside of its object.
std::string error_in(const std::string& row) {
  return error_of([&] {
    parse_models(
        document(R"({"name": "F", "gated_mlp": true, "models": [{"name": "m", )" + row + "}]}"),
        "models.json");
  });
}

const std::string small =
    R"("num_layers": 2, "hidden_size": 64, "num_heads": 4, "vocab_size": 100, "seq_len": 32, )"
    R"("source": "ours")";

TEST(ParseModels, ARowHasWhatItsFamilyHas) {
  const std::vector<NamedModel> models = parse_models(
      document(R"({"name": "A", "norm": "rmsnorm", "bias": {"qkv": true}, "source": "of A"},
                  {"name": "B", "like": "A", "num_heads": 4, "bias": {"mlp": true}, "models": [
                    {"name": "b1", "num_layers": 2, "hidden_size": 64, "vocab_size": 100,
                     "seq_len": 32, "aliases": ["first"], "num_parameters": 7},
                    {"name": "b2", "like": "b1", "hidden_size": 128, "bias": {"qkv": false}}]})"),
      "models.json");
  ASSERT_EQ(models.size(), 2u);
  const Transformer &first = models[0].model, &second = models[1].model;
  EXPECT_EQ(first.norm, sim::Norm::RmsNorm);
  EXPECT_EQ(first.bias, (sim::Biases{.qkv = true, .mlp = true}));
  EXPECT_EQ(models[0].source, "of A");
  EXPECT_EQ(second.num_layers, 2);
  EXPECT_EQ(second.bias, (sim::Biases{.mlp = true}));
  EXPECT_EQ(second.head_dim, 128 / 4);
  EXPECT_EQ(second.name, "b2");
  EXPECT_TRUE(models[1].aliases.empty());
  EXPECT_FALSE(models[1].published_parameters.has_value());
}

TEST(ParseModels, WhatNobodyStatesFollowsFromTheRest) {
  const Transformer model =
      parse_models(document(R"({"name": "F", "models": [{"name": "m", )" + small + "}]}"), "f")
          .front()
          .model;
  EXPECT_EQ(model.num_kv_heads, 4);
  EXPECT_EQ(model.head_dim, 64 / 4);
  EXPECT_EQ(model.ffn_size, 4 * 64);
}

TEST(ParseModels, AMistakeNamesRowAndField) {
  const std::string m = "models.json: m: ";
  EXPECT_EQ(error_in(small), m + "ffn_size = 0: dense layers need a width");
  EXPECT_EQ(error_in(R"("num_layers": 2)"), m + "hidden_size = 0 is out of range: 1 to 1048576");
  EXPECT_EQ(error_in(R"("num_layers": 2.5)"),
            m + "num_layers = 2.5: an integer from 1 to 4096 is expected");
  EXPECT_EQ(error_in(R"("norm": "rms")"), m + "norm = \"rms\": layernorm or rmsnorm is expected");
  EXPECT_EQ(error_in(R"("num_layer": 2)"), m + "num_layer: unknown key; did you mean num_layers?");
  EXPECT_EQ(error_in(R"("moe": {"experts": 2})"),
            m + "moe.experts: unknown key; did you mean moe.num_experts?");
  EXPECT_EQ(error_in(R"("bias": true)"), m + "bias: unknown key; did you mean bias.qkv?");
  EXPECT_EQ(error_in(small + R"(, "ffn_size": 8, "moe": {"num_experts": 2})"),
            m + "moe.top_k = 0 is out of range: 1 to 16384");
  EXPECT_EQ(error_in(R"("num_layers": 2, "num_layers": 3)"),
            "models.json: \"num_layers\" stands twice in one object");
}

TEST(ParseModels, ARowNeedsASource) {
  const std::string unsourced = small.substr(0, small.find(R"(, "source")"));
  EXPECT_EQ(error_in(unsourced + R"(, "ffn_size": 8)"), "models.json: m: source is missing");
}

TEST(ParseModels, LikeIsTheNameOfARowAboveAndNoNameStandsTwice) {
  EXPECT_EQ(error_in(R"("like": "n")"), "models.json: m: like = n: no row above has that name");
  EXPECT_EQ(error_in(small + R"(, "ffn_size": 8}, {"name": "m")"),
            "models.json: m: this name stands twice");
}

TEST(Catalogue, EveryEntryIsAValidShapeWithASource) {
  for (const NamedModel& entry : catalogue()) {
    SCOPED_TRACE(entry.model.name);
    EXPECT_NO_THROW(entry.model.validate());
    EXPECT_FALSE(entry.source.empty());
    const std::int64_t total = parameters(entry.model).total();
    EXPECT_EQ(total, entry.published_parameters.value_or(total));
  }
}

TEST(Catalogue, NoNameOrAliasMeansTwoModels) {
  for (const NamedModel& entry : catalogue()) {
    EXPECT_EQ(find_model(entry.model.name), &entry) << entry.model.name;
    for (const std::string& alias : entry.aliases) EXPECT_EQ(find_model(alias), &entry) << alias;
  }
}

// Without layers of multi-token prediction and towers: weights of the published checkpoints.
TEST(Catalogue, MainModelsOf2026AreExact) {
  const std::map<std::string, std::int64_t> counts = {
      {"qwen3-coder-480b-a35b", 480154875392},
      {"qwen3.5-27b", 26895998464},
      {"qwen3.5-35b-a3b", 34660610688},
      {"qwen3.5-122b-a10b", 122111526912},
      {"qwen3.5-397b-a17b", 396346350336},
      {"nemotron-3-ultra-550b", 549308993536},
      {"qwen3-vl-235b-a22b", 235093634560},
      {"olmo-3-7b", 7298011136},
      {"kimi-k2.5", 1026408232448},
  };
  for (const auto& [name, expected] : counts) {
    const Parameters own = parameters(find_model(name)->model);
    EXPECT_EQ(own.total() - own.mtp, expected) << name;
  }
}

// Where only rounded figures are published the count must round to them: "true size" of the OLMo
// log, papers and model cards.
TEST(Catalogue, OtherCountsRoundToThePublishedFigures) {
  const std::map<std::string, double> billions = {
      {"olmo-log-1.2b", 1.11}, {"olmo-log-7b", 5.58},       {"olmo-log-70b", 54.1},
      {"megatron-18b", 18.4},  {"megatron-145b", 145.6},    {"megatron-530b", 529.6},
      {"megatron-1t", 1008.0}, {"gpt3-175b", 174.6},        {"opt-66b", 65.7},
      {"falcon-180b", 178.6},  {"llama-4-maverick", 400.0}, {"kimi-k2", 1030.0},
      {"gemma-3-27b", 27.0},   {"deepseek-llm-67b", 67.4},  {"qwen2-57b-a14b", 57.4},
  };
  for (const auto& [name, expected] : billions) {
    EXPECT_NEAR(static_cast<double>(parameters(find_model(name)->model).total()) / 1e9, expected,
                0.006 * expected)
        << name;
  }
}

// DeepSeek-V3's report: 37 billion of 671 billion are active; Mixtral's 12.9 of 46.7; GPT-OSS 5.1
// of 117 without the embedding.
TEST(Catalogue, ActiveCountsAreThePublishedOnes) {
  EXPECT_NEAR(static_cast<double>(parameters(find_model("deepseek-v3")->model).active()) / 1e9,
              37.0, 0.6);
  EXPECT_NEAR(static_cast<double>(parameters(find_model("mixtral")->model).active()) / 1e9, 12.9,
              0.05);
  EXPECT_NEAR(static_cast<double>(parameters(find_model("qwen3-235b-a22b")->model).active()) / 1e9,
              22.0, 0.25);
  const Parameters oss = parameters(find_model("gpt-oss-120b")->model);
  EXPECT_NEAR(static_cast<double>(oss.active() - oss.embedding) / 1e9, 5.13, 0.01);
}

TEST(FindModel, KnowsTheNamesPeopleType) {
  const std::map<std::string, std::string> expected = {
      {"llama-70b", "llama-3-70b"},   {"llama3-8b", "llama-3-8b"},
      {"llama-7b", "llama-7b"},       {"gpt2-xl", "gpt2-xl"},
      {"gpt2-1.5b", "gpt2-xl"},       {"bloom", "bloom-176b"},
      {"bloom-176b", "bloom-176b"},   {"olmo-7b", "olmo-7b"},
      {"olmo-70b", "olmo-log-70b"},   {"llama-3.1-70b-proxy", "llama-3.1-70b-proxy"},
      {"mixtral", "mixtral-8x7b"},    {"deepseek-v3", "deepseek-v3"},
      {"qwen2.5-72b", "qwen2.5-72b"}, {"gpt3", "gpt3-175b"},
      {"gpt-1t", "megatron-1t"},
  };
  for (const auto& [typed, name] : expected) {
    ASSERT_NE(find_model(typed), nullptr) << typed;
    EXPECT_EQ(find_model(typed)->model.name, name);
  }
}

TEST(FindModel, SpellingOfSeparatorsAndCaseDoesNotMatter) {
  const NamedModel* llama = find_model("llama-3.1-70b");
  ASSERT_NE(llama, nullptr);
  EXPECT_EQ(find_model("Llama-3.1-70B"), llama);
  EXPECT_EQ(find_model("llama_3_1_70b"), llama);
  EXPECT_EQ(find_model("llama3.1-70b"), llama);
  EXPECT_EQ(find_model("meta-llama/Llama-3.1-70B"), llama);
}

TEST(FindModel, ADotBetweenDigitsKeepsItsMeaning) {
  EXPECT_NE(find_model("opt-1.3b"), find_model("opt-13b"));
  EXPECT_EQ(find_model("opt-1.3b")->model.num_layers, 24);
  EXPECT_EQ(find_model("opt-13b")->model.num_layers, 40);
}

TEST(FindModel, AnUnknownNameIsNull) {
  EXPECT_EQ(find_model("llama-9000b"), nullptr);
  EXPECT_EQ(find_model(""), nullptr);
  EXPECT_EQ(find_model("/"), nullptr);
}

TEST(NearestModels, AMisspelledNameFindsItsModelFirst) {
  EXPECT_EQ(nearest_models("lama-3-70b", 1), std::vector<std::string>{"llama-3-70b"});
  EXPECT_EQ(nearest_models("mixtrall-8x7b", 1), std::vector<std::string>{"mixtral-8x7b"});
  EXPECT_EQ(nearest_models("gpt2-x", 3).size(), 3u);
  EXPECT_TRUE(nearest_models("gpt2", 0).empty());
}

// The one-layer proxy differs from the two-layer one by exactly one block, and its vocabulary ends
// outweigh that block.
TEST(Catalogue, ProxiesAreLayersOfLlama70B) {
  const Transformer& one = find_model("llama-3.1-70b-proxy")->model;
  const Transformer& two = find_model("llama-3.1-70b-proxy2")->model;
  const std::int64_t block = sim::block_parameters(find_model("llama-3.1-70b")->model, 0).total();
  EXPECT_EQ(parameters(two).total() - parameters(one).total(), block);
  EXPECT_GT(parameters(one).head, block);
}

}  // namespace
}  // namespace llmsim::hwdb
