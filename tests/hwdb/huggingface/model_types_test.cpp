#include "hwdb/huggingface/model_types.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "hwdb/huggingface/own_model_types.h"
#include "hwdb/text/input_file.h"
#include "tests/error_of.h"
#include "tests/temporary_folder.h"

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
  return model_of_type(all.rows.at(type), nlohmann::json::parse(config), "f", nested).model;
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
  EXPECT_GT(model_types().rows.size(), 60u);
  EXPECT_TRUE(find_model_type("llama"));
  EXPECT_FALSE(find_model_type("rotary"));
  EXPECT_EQ(find_model_type("t5")->refused, "an encoder-decoder");
}

// Rows of one's own are like shipped ones, are stored whole, and are there when the file is read.
TEST(OwnModelTypes, AreStoredAndReadOverTheShippedOnes) {
  const TemporaryFolder folder;
  const char* const before = std::getenv("XDG_DATA_HOME");
  setenv("XDG_DATA_HOME", folder.path().c_str(), 1);
  const std::string path = own_model_types_path().value();
  EXPECT_EQ(path, folder / "llmsim/model_types.json");
  const std::string mine = R"({"types": [{"type": "mine", "like": "llama", "gated_mlp": false}]})";
  EXPECT_EQ(add_model_types(mine, "mine.json", false), std::vector<std::string>{"mine"});
  EXPECT_EQ(add_model_types(mine, "mine.json", false), std::vector<std::string>{"mine"});
  const ModelTypes stored = parse_model_types(content_of_file(path), path, model_types());
  EXPECT_EQ(stored.rows.size(), 1u);
  EXPECT_FALSE(model_of_type(stored.rows.at("mine"), nlohmann::json::parse(R"({"hidden_size": 64,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
      "vocab_size": 100})"),
                             "f", false)
                   .model.gated_mlp);
  EXPECT_EQ(error_of([&] {
              add_model_types(R"({"types": [{"type": "llama", "like": "mistral"}]})", "x.json",
                              false);
            }),
            "x.json: llama: exists already; --replace lets this row hide it");
  EXPECT_EQ(error_of([&] { add_model_types(R"({"types": []})", "x.json", false); }),
            "x.json: \"types\" has no row");
  EXPECT_EQ(error_of([&] {
              add_model_types(R"({"types": [{"type": "a", "like": "nobody"}]})", "x.json", false);
            }),
            "x.json: like = nobody: no row above has that name");
  before ? setenv("XDG_DATA_HOME", before, 1) : unsetenv("XDG_DATA_HOME");
}

}  // namespace
}  // namespace llmsim::hwdb
