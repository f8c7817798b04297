#include "hwdb/huggingface/model_types.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

constexpr const char* kSizes =
    R"("num_layers": "layers", "hidden_size": "width", "num_heads": "heads | 4",
       "num_kv_heads": "@num_heads", "head_dim": "@hidden_size / @num_heads",
       "ffn_size": "4 * @hidden_size", "vocab_size": "rows", "seq_len": 512)";

std::string document(const std::string& rows) {
  return R"({"schema": 1, "types": [)" + rows + "]}";
}

std::string base(const std::string& more = "") {
  return std::string(R"({"type": "plain", )") + kSizes + more + "}";
}

sim::Transformer read(const std::string& rows, const std::string& type, const char* config,
                      bool nested = false) {
  const ModelTypes all = parse_model_types(document(rows), "types.json");
  for (const ModelType& one : all.types) {
    if (one.names == std::vector{type})
      return model_of_type(one, nlohmann::json::parse(config), "f", nested).model;
  }
  return {};
}

constexpr const char* kConfig = R"({"layers": 2, "width": 64, "rows": 100})";

TEST(ModelTypes, ARowWorksOutEveryField) {
  const sim::Transformer model = read(base(), "plain", kConfig);
  EXPECT_EQ(model.num_layers, 2);
  EXPECT_EQ(model.head_dim, 16);
  EXPECT_EQ(model.ffn_size, 256);
  EXPECT_EQ(model.seq_len, 512);
}

TEST(ModelTypes, ARowHasWhatTheOneItIsLikeHas) {
  const std::string rows = base() + R"(, {"type": "other", "like": "plain", "ffn_size": "rows",
      "bias": {"mlp": true}})";
  const sim::Transformer model = read(rows, "other", kConfig);
  EXPECT_EQ(model.ffn_size, 100);
  EXPECT_TRUE(model.bias.mlp);
  EXPECT_EQ(model.head_dim, 16);
}

TEST(ModelTypes, AnObjectIsThereWhereItsConditionHolds) {
  const std::string rows = base(R"(, "when": {"moe": "experts > 1"}, "moe": {
      "num_experts": "experts", "top_k": 2, "expert_ffn_size": "@ffn_size"})");
  EXPECT_FALSE(read(rows, "plain", kConfig).moe);
  EXPECT_EQ(read(rows, "plain", R"({"layers": 2, "width": 64, "rows": 9, "experts": 8})")
                .moe->expert_ffn_size,
            256);
}

TEST(ModelTypes, SizesOfTheClassAreThoseOfATextPart) {
  const std::string rows = base(R"(, "class_defaults": {"rows": 77})");
  const char* config = R"({"layers": 2, "width": 64})";
  EXPECT_EQ(read(rows, "plain", config, true).vocab_size, 77);
  EXPECT_EQ(error_of([&] { read(rows, "plain", config); }), "f: rows: missing");
}

TEST(ModelTypes, RulesRefuseWithKeyAndReason) {
  const std::string rows = base(R"(, "refuse": [{"if": "odd | false", "key": "odd",
      "because": "odd layers are not modelled"}])");
  EXPECT_EQ(error_of([&] {
              read(rows, "plain", R"({"layers": 2, "width": 64, "rows": 9, "odd": true})");
            }),
            "f: odd = true: odd layers are not modelled");
}

TEST(ModelTypes, FaultsOfRowsNameThem) {
  const auto fault = [](const std::string& rows) {
    return error_of([&] { parse_model_types(document(rows), "types.json"); });
  };
  EXPECT_EQ(fault(R"({"like": "x"})"), "types.json: like = x: no row above has that name");
  EXPECT_EQ(fault("{}"), "types.json: a row has neither type nor base");
  EXPECT_EQ(fault(base() + "," + base()), "types.json: plain: stands twice");
  EXPECT_EQ(fault(R"({"type": "x", "layers": 1})"),
            "types.json: x: layers: is no field of a model");
  EXPECT_NE(fault(R"({"type": "x", "num_layers": "a |"})").find("types.json: x: num_layers: "),
            std::string::npos);
  EXPECT_NE(fault(R"({"type": "x", "num_layers": -1})").find("num_layers = -1"), std::string::npos);
  EXPECT_NE(error_of([&] {
              read(base(R"(, "norms_per_layer": "@norms_per_layer")"), "plain", kConfig);
            }).find("needs itself"),
            std::string::npos);
}

TEST(ModelTypes, ShippedOnesAreReadAndKnown) {
  EXPECT_GT(model_types().types.size(), 60u);
  EXPECT_TRUE(find_model_type("llama"));
  EXPECT_FALSE(find_model_type("rotary"));
  EXPECT_EQ(find_model_type("t5")->refused, "an encoder-decoder");
}

}  // namespace
}  // namespace llmsim::hwdb
