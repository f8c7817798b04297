#include "sim/model/catalogue.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "gtest/gtest.h"
#include "sim/model/parameters.h"

namespace llmsim::sim {
namespace {

struct Published {
  const char* name;
  std::int64_t parameters;
};

// What the publishers print: totals of the safetensors files on the model cards, or the papers' and
// repositories' own tables.
constexpr Published kPublished[] = {
    {"gpt2", 124'439'808},
    {"gpt2-medium", 354'823'168},
    {"gpt2-large", 774'030'080},
    {"gpt2-xl", 1'557'611'200},
    {"gpt-j-6b", 6'050'882'784},
    {"gpt-neox-20b", 20'554'567'680},
    {"pythia-70m", 70'426'624},
    {"pythia-160m", 162'322'944},
    {"pythia-410m", 405'334'016},
    {"pythia-1b", 1'011'781'632},
    {"pythia-1.4b", 1'414'647'808},
    {"pythia-2.8b", 2'775'208'960},
    {"pythia-6.9b", 6'857'302'016},
    {"pythia-12b", 11'846'072'320},
    {"opt-125m", 125'239'296},
    {"opt-1.3b", 1'315'758'080},
    {"opt-2.7b", 2'651'596'800},
    {"opt-6.7b", 6'658'473'984},
    {"opt-13b", 12'853'473'280},
    {"opt-30b", 29'974'540'288},
    {"bloom-560m", 559'214'592},
    {"bloom-1b1", 1'065'314'304},
    {"bloom-1b7", 1'722'408'960},
    {"bloom-3b", 3'002'557'440},
    {"bloom-7b1", 7'069'016'064},
    {"bloom-176b", 176'247'271'424},
    {"mpt-125m", 125'311'488},
    {"mpt-1b", 1'315'950'592},
    {"mpt-7b", 6'649'286'656},
    {"mpt-7b-throughput", 6'658'859'008},
    {"mpt-13b", 12'853'954'560},
    {"mpt-30b-throughput", 29'975'214'080},
    {"mpt-70b", 64'862'437'376},
    {"falcon-7b", 6'921'720'704},
    {"llama-7b", 6'738'415'616},
    {"llama-13b", 13'015'864'320},
    {"llama-33b", 32'528'943'616},
    {"llama-65b", 65'285'660'672},
    {"llama-2-7b", 6'738'415'616},
    {"llama-2-13b", 13'015'864'320},
    {"llama-2-70b", 68'976'648'192},
    {"llama-3-8b", 8'030'261'248},
    {"llama-3-70b", 70'553'706'496},
    {"llama-3.1-405b", 405'853'388'800},
    {"llama-3.2-1b", 1'235'814'400},
    {"llama-3.2-3b", 3'212'749'824},
    {"mistral-7b", 7'241'732'096},
    {"mistral-7b-v0.3", 7'248'023'552},
    {"mistral-nemo-12b", 12'247'782'400},
    {"mixtral-8x7b", 46'702'792'704},
    {"mixtral-8x22b", 140'620'634'112},
    {"yi-6b", 6'061'035'520},
    {"yi-34b", 34'388'917'248},
    {"deepseek-llm-7b", 6'910'365'696},
    {"smollm-135m", 134'515'008},
    {"smollm-360m", 361'821'120},
    {"smollm-1.7b", 1'711'376'384},
    {"smollm3-3b", 3'075'098'624},
    {"glm-4-9b", 9'399'951'360},
    {"glm-4-9b-0414", 9'400'279'040},
    {"glm-4-32b-0414", 32'566'081'536},
    {"command-r-35b", 34'980'831'232},
    {"command-r-32b", 32'296'476'672},
    {"command-r-plus-104b", 103'810'674'688},
    {"dbrx-132b", 131'596'523'520},
    {"phi-2", 2'779'683'840},
    {"phi-3-mini", 3'821'079'552},
    {"phi-4", 14'659'507'200},
    {"olmo-1b", 1'176'764'416},
    {"olmo-7b", 6'888'095'744},
    {"olmo-2-7b", 7'298'617'344},
    {"olmo-2-13b", 13'716'198'400},
    {"olmo-2-32b", 32'234'279'936},
    {"qwen-7b", 7'721'324'544},
    {"qwen-72b", 72'287'920'128},
    {"qwen1.5-32b", 32'512'218'112},
    {"qwen1.5-110b", 111'209'914'368},
    {"qwen1.5-moe-a2.7b", 14'315'784'192},
    {"qwen2-0.5b", 494'032'768},
    {"qwen2-1.5b", 1'543'714'304},
    {"qwen2.5-3b", 3'085'938'688},
    {"qwen2.5-7b", 7'615'616'512},
    {"qwen2.5-14b", 14'770'033'664},
    {"qwen2.5-32b", 32'763'876'352},
    {"qwen2.5-72b", 72'706'203'648},
    {"qwen3-8b", 8'190'735'360},
    {"qwen3-14b", 14'768'307'200},
    {"qwen3-32b", 32'762'123'264},
    {"qwen3-30b-a3b", 30'532'122'624},
    {"qwen3-235b-a22b", 235'093'634'560},
    {"gemma-2b", 2'506'172'416},
    {"gemma-7b", 8'537'680'896},
    {"gemma-2-2b", 2'614'341'888},
    {"gemma-2-9b", 9'241'705'984},
    {"gemma-2-27b", 27'227'128'320},
    {"gemma-3-1b", 999'885'952},
    {"deepseek-v2-lite", 15'706'484'224},
    {"deepseek-v2", 235'741'434'880},
    {"deepseek-v3", 671'026'419'200},
    {"gpt-oss-20b", 20'914'757'184},
    {"gpt-oss-120b", 116'829'156'672},
    {"nemotron-3-nano-30b-a3b", 31'577'937'344},
    {"nemotron-3-super-120b", 123'611'012'096},
    {"qwen3-next-80b-a3b", 79'674'391'296},
    {"jamba-mini", 51'570'323'328},
};

class PublishedCount : public ::testing::TestWithParam<Published> {};

TEST_P(PublishedCount, FollowsFromTheShape) {
  const CatalogueEntry* entry = find_model(GetParam().name);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(parameters(entry->model).total(), GetParam().parameters);
  EXPECT_EQ(entry->published_parameters, GetParam().parameters);
}

std::string test_name(const ::testing::TestParamInfo<Published>& test) {
  std::string name = test.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, PublishedCount, ::testing::ValuesIn(kPublished), test_name);

TEST(Catalogue, EveryEntryIsAValidShapeWithASource) {
  for (const CatalogueEntry& entry : catalogue()) {
    SCOPED_TRACE(entry.model.name);
    EXPECT_NO_THROW(entry.model.validate());
    EXPECT_FALSE(entry.source.empty());
    const std::int64_t total = parameters(entry.model).total();
    EXPECT_EQ(total, entry.published_parameters.value_or(total));
  }
}

TEST(Catalogue, NoNameOrAliasMeansTwoModels) {
  for (const CatalogueEntry& entry : catalogue()) {
    EXPECT_EQ(find_model(entry.model.name), &entry) << entry.model.name;
    for (const std::string& alias : entry.aliases) EXPECT_EQ(find_model(alias), &entry) << alias;
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
  const CatalogueEntry* llama = find_model("llama-3.1-70b");
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

TEST(FamilyOf, IsTheLettersThatANameStartsWith) {
  EXPECT_EQ(family_of("llama-3-70b"), "llama");
  EXPECT_EQ(family_of("gpt2-xl"), "gpt");
  EXPECT_EQ(family_of("grok"), "grok");
  EXPECT_EQ(family_of(""), "");
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
  const std::int64_t block = block_parameters(find_model("llama-3.1-70b")->model, 0).total();
  EXPECT_EQ(parameters(two).total() - parameters(one).total(), block);
  EXPECT_GT(parameters(one).head, block);
}

}  // namespace
}  // namespace llmsim::sim
