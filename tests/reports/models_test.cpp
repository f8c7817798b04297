#include "reports/models.h"

#include <string>

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"
#include "tests/catalogue.h"

namespace llmsim::reports {
namespace {

using nlohmann::json;

const sim::NamedModel& known(const char* name) { return *sim::find_model(name); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CatalogueTable, HasARowForEveryEntryWithItsCount) {
  const Table table = catalogue_table({&known("gpt2"), &known("mixtral-8x7b")});
  const json rows = json::parse(render(table, Format::Json));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["name"], "gpt2");
  EXPECT_EQ(rows[0]["num_parameters"], 124'439'808);
  EXPECT_TRUE(rows[0]["active_parameters"].is_null());
  EXPECT_EQ(rows[1]["num_experts"], 8);
  EXPECT_EQ(rows[1]["active_parameters"], 12'879'925'248);
}

// GPT-2 small: 50257 * 768 tied, 1024 * 768 positions, twelve blocks of 7,087,872, a final norm of
// 2 * 768.
TEST(ParametersTable, PartsAddUpToTheTotal) {
  const json rows = json::parse(render(parameters_table(known("gpt2")), Format::Json));
  std::int64_t sum = 0;
  for (const json& row : rows) {
    if (row["part"] == "total") break;
    sum += row["parameters"].get<std::int64_t>();
  }
  EXPECT_EQ(sum, 50257 * 768 + 1024 * 768 + 12 * 7'087'872 + 2 * 768);
  EXPECT_EQ(sum, 124'439'808);
}

TEST(ShapeTable, TellsOnlyWhatTheModelHas) {
  const std::string dense = render(shape_table(known("gpt2")), Format::Markdown);
  EXPECT_FALSE(contains(dense, "experts"));
  EXPECT_FALSE(contains(dense, "sliding window"));
  EXPECT_TRUE(contains(dense, "HF openai-community/gpt2"));
  const std::string moe = render(shape_table(known("deepseek-v3-mtp")), Format::Markdown);
  EXPECT_TRUE(contains(
      moe, "8 of 256, width 2048; in 4 of 8 groups; shared: 1, width 2048; first 3 layers dense"));
  EXPECT_TRUE(contains(moe, "61 + 1 MTP"));
  EXPECT_TRUE(contains(moe, "queries rank 1536, keys and values rank 512"));
  EXPECT_TRUE(contains(render(shape_table(known("gemma-3-1b")), Format::Markdown),
                       "512 tokens, one full layer in 6"));
}

// One layer of Llama 3.1 70B at 4096 tokens: N = 2,957,008,896, of which 1,050,673,152 are the
// embedding; attention is 12 * 8192 * 4096.
TEST(TrainingFlops, TheProxysConventionsDifferByTheEmbeddingAndHalfTheAttention) {
  const json flops = json::parse(model_json(known("llama-3.1-70b-proxy")))["flops_per_token"];
  EXPECT_DOUBLE_EQ(flops["6N"], 6.0 * 2957008896);
  EXPECT_DOUBLE_EQ(flops["6N_no_embedding"], 6.0 * (2957008896.0 - 1050673152.0));
  EXPECT_DOUBLE_EQ(flops["palm"], 6.0 * 2957008896 + 12.0 * 8192 * 4096);
  EXPECT_DOUBLE_EQ(flops["gemm_causal"], 6.0 * 1906311168 + 6.0 * 8192 * 4096);
  EXPECT_FALSE(flops.contains("hardware"));
}

TEST(ModelJson, HasTheModelBlockOfARun) {
  const json document = json::parse(model_json(known("qwen3-30b-a3b")));
  EXPECT_EQ(document["family"], "qwen");
  EXPECT_EQ(document["model"]["head_dim"], 128);
  EXPECT_EQ(document["model"]["moe"]["top_k"], 8);
  EXPECT_TRUE(document["model"]["mla"].is_null());
  EXPECT_EQ(document["model"]["num_parameters"], document["published_parameters"]);
  EXPECT_EQ(document["parameters"]["total"], 30'532'122'624);
}

}  // namespace
}  // namespace llmsim::reports
