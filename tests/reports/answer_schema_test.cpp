#include "reports/schemas/answer_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace llmsim::reports {
namespace {

using nlohmann::json;

constexpr const char* kRuns = R"({"$defs": {"run": {"properties": {"model": {"$ref":
    "#/$defs/model"}}}, "model": {}, "hardware": {}, "training": {}, "file": {}}})";

json schema_of(const std::string& name) { return json::parse(answer_schema(name, kRuns)); }

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

TEST(AnswerSchema, HasWhatItRefersToAndNoMore) {
  EXPECT_EQ(keys_of(schema_of("comparison")["$defs"]), std::set<std::string>());
  EXPECT_EQ(keys_of(schema_of("explanation")["$defs"]), std::set<std::string>({"rows"}));
  const std::set<std::string> of_prediction = keys_of(schema_of("prediction")["$defs"]);
  for (const char* name : {"run", "model", "memory", "amounts", "job"})
    EXPECT_TRUE(of_prediction.contains(name)) << name;
  for (const char* name : {"file", "hardware", "one_plan"})
    EXPECT_FALSE(of_prediction.contains(name)) << name;
}

TEST(AnswerSchema, NamesItsDialectAndItself) {
  for (const char* name : {"prediction", "plan", "comparison", "explanation"}) {
    EXPECT_EQ(schema_of(name)["$id"], "llmsim:" + std::string(name) + ":1");
    EXPECT_EQ(schema_of(name)["$schema"], "https://json-schema.org/draft/2020-12/schema");
  }
}

// Every object with keys of its own says whether it has others.
void expect_closed(const json& part, const std::string& place) {
  if (!part.is_structured()) return;
  if (part.is_object() && part.contains("properties") && part["properties"].is_object()) {
    EXPECT_TRUE(part.contains("additionalProperties")) << place;
  }
  for (const auto& [key, value] : part.items()) expect_closed(value, place + "/" + key);
}

TEST(AnswerDefinitions, LeaveNoObjectOpen) { expect_closed(json::parse(answer_definitions()), ""); }

}  // namespace
}  // namespace llmsim::reports
