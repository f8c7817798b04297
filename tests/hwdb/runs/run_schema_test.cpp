#include "hwdb/runs/run_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hwdb/frameworks/settings.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

const json& definitions() {
  static const json schema = json::parse(run_schema());
  return schema["$defs"];
}

// Whether a section has a key; a dot stands for an object in it.
bool has(const char* section, const std::string& key) {
  const json* part = &definitions()[section]["properties"];
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) return part->contains(key);
  const std::string object = key.substr(0, dot);
  return part->contains(object) && (*part)[object]["properties"].contains(key.substr(dot + 1));
}

TEST(RunSchema, HasEveryFieldAndSetting) {
  for (const sim::TransformerField& field : sim::transformer_fields())
    EXPECT_TRUE(has("model", field.key)) << field.key;
  for (const sim::StrategyField& field : sim::strategy_fields())
    EXPECT_TRUE(has("training", field.key)) << field.key;
  for (const Setting& setting : run_settings()) EXPECT_TRUE(has("training", setting.key));
  EXPECT_FALSE(has("training", "no_such_key"));
}

TEST(RunSchema, ObjectsHaveWhatTheyNeed) {
  const json& moe = definitions()["model"]["properties"]["moe"];
  EXPECT_EQ(moe["required"], json::parse(R"(["num_experts", "top_k", "expert_ffn_size"])"));
  EXPECT_EQ(moe["properties"]["top_k"]["type"], "integer");
  EXPECT_EQ(moe["properties"]["num_groups"]["type"], json::parse(R"(["integer", "null"])"));
  EXPECT_EQ(definitions()["model"]["properties"]["bias"]["type"],
            json::parse(R"(["object", "boolean", "null"])"));
}

TEST(RunSchema, SaysWhatSettingsMean) {
  const json& dropout = definitions()["training"]["properties"]["dropout"];
  EXPECT_EQ(dropout["description"], "probability of dropout");
  EXPECT_EQ(dropout["maximum"], 0.999);
}

}  // namespace
}  // namespace llmsim::hwdb
