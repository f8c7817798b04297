// Image towers: what a config.json says of them, and whether they are counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "hwdb/huggingface/huggingface.h"
#include "hwdb/models/catalogue.h"
#include "sim/model/vision_tower.h"
#include "tests/temporary_folder.h"

namespace llmsim::hwdb {
namespace {

// As mlx-vlm's definitions of these models count them over shapes alone; of the last three what
// the weights on Hugging Face have more than their text parts (8,292,166,656, 8,291,375,616 and
// 7,063,427,072 in all).
TEST(ImageTowers, AreCountedExactly) {
  const auto count = [](const std::string& file) {
    return sim::vision_parameters(read_model_config(file, "config.json"));
  };
  const std::string text = R"("text_config": {"model_type": "qwen3", "hidden_size": 4096,
    "intermediate_size": 12288, "num_attention_heads": 32, "num_hidden_layers": 36,
    "num_key_value_heads": 8, "vocab_size": 151936, "max_position_embeddings": 4096}, )";
  EXPECT_EQ(count(R"({"model_type": "qwen3_vl", )" + text + R"("vision_config": {
    "deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_size": 1152, "in_channels": 3,
    "intermediate_size": 4304, "num_heads": 16, "num_position_embeddings": 2304,
    "out_hidden_size": 4096, "patch_size": 16, "spatial_merge_size": 2,
    "temporal_patch_size": 2}})"),
            576'388'336);
  EXPECT_EQ(count(R"({"model_type": "gemma3", "mm_tokens_per_image": 256, "text_config": {
    "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
    "num_attention_heads": 8, "num_hidden_layers": 34, "num_key_value_heads": 4},
    "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
    "model_type": "siglip_vision_model", "num_attention_heads": 16, "num_hidden_layers": 27,
    "patch_size": 14}})"),
            419'816'304);
  const std::string qwen2 = R"("hidden_size": 3584, "intermediate_size": 18944,
    "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
    "vocab_size": 152064, "max_position_embeddings": 32768, )";
  EXPECT_EQ(count(R"({"model_type": "qwen2_5_vl", )" + qwen2 + R"("mtp_num_hidden_layers": 1,
    "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420,
    "num_heads": 16, "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2,
    "temporal_patch_size": 2}})"),
            8'292'166'656 - 7'615'616'512);
  EXPECT_EQ(count(R"({"model_type": "qwen2_vl", )" + qwen2 + R"("vision_config": {"depth": 32,
    "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "hidden_size": 3584, "patch_size": 14,
    "spatial_merge_size": 2, "temporal_patch_size": 2}})"),
            8'291'375'616 - 7'615'616'512);
  EXPECT_EQ(count(R"({"model_type": "llava", "text_config": {"model_type": "llama",
    "vocab_size": 32064}, "vision_config": {"model_type": "clip_vision_model",
    "hidden_size": 1024, "image_size": 336, "intermediate_size": 4096,
    "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14}})"),
            7'063'427'072 - 6'738'939'904);
  EXPECT_EQ(sim::vision_parameters(find_model("gemma-3-4b")->model), 419'816'304);
  // Another shape of tower is left out, and the text part read.
  const sim::Transformer odd = read_model_config(
      R"({"model_type": "qwen3_vl", )" + text + R"("vision_config": {"depth": 27}})", "f");
  EXPECT_FALSE(odd.vision);
  EXPECT_EQ(odd.hidden_size, 4096);
}

// A known tower does not hide what else a file has that is not counted.
TEST(ImageTowers, LeaveOtherNotesOfAFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "config.json";
  std::ofstream(path) << R"({"model_type": "qwen2_5_vl", "hidden_size": 3584,
    "intermediate_size": 18944, "num_attention_heads": 28, "num_hidden_layers": 28,
    "num_key_value_heads": 4, "vocab_size": 152064, "mtp_num_hidden_layers": 1,
    "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420,
    "num_heads": 16, "out_hidden_size": 3584, "patch_size": 14}})";
  const sim::NamedModel model = load_model_config(path);
  ASSERT_TRUE(model.model.vision);
  const auto notes = [&](const char* word) {
    return std::ranges::any_of(
        model.notes, [&](const std::string& note) { return note.find(word) != std::string::npos; });
  };
  EXPECT_TRUE(notes("--image-tokens"));
  EXPECT_TRUE(notes("mtp_num_hidden_layers"));
  const auto tower = std::ranges::find(model.keys, "vision_config", &sim::ModelKey::key);
  ASSERT_NE(tower, model.keys.end());
  EXPECT_EQ(tower->outcome, "read");
}

}  // namespace
}  // namespace llmsim::hwdb
