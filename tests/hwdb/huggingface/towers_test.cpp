// Towers for images and audio: what a config.json says of them, and whether they are counted.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "hwdb/huggingface/huggingface.h"
#include "hwdb/models/catalogue.h"
#include "sim/model/parameters.h"
#include "sim/model/tower.h"
#include "tests/temporary_folder.h"

namespace llmsim::hwdb {
namespace {

std::int64_t count(const std::string& file) {
  const sim::Transformer model = read_model_config(file, "config.json");
  return model.vision ? tower_parameters(*model.vision, model.hidden_size) : 0;
}

std::int64_t audio_count(const std::string& file) {
  const sim::Transformer model = read_model_config(file, "config.json");
  return model.audio ? tower_parameters(*model.audio, model.hidden_size) : 0;
}

// With the towers.
std::int64_t whole_count(const std::string& file) {
  return parameters(read_model_config(file, "config.json")).total() + count(file) +
         audio_count(file);
}

// As mlx-vlm's definitions of these models count them over shapes alone; of the last three what
// the weights on Hugging Face have more than their text parts (8,292,166,656, 8,291,375,616 and
// 7,063,427,072 in all).
TEST(ImageTowers, AreCountedExactly) {
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
  const sim::Transformer gemma = find_model("gemma-3-4b")->model;
  EXPECT_EQ(tower_parameters(*gemma.vision, gemma.hidden_size), 419'816'304);
  // Another shape of tower is left out, and the text part read.
  const sim::Transformer odd = read_model_config(
      R"({"model_type": "qwen3_vl", )" + text + R"("vision_config": {"depth": 27}})", "f");
  EXPECT_FALSE(odd.vision);
  EXPECT_EQ(odd.hidden_size, 4096);
}

// Weights on Hugging Face in all: Llama-4-Scout-17B-16E 108,641,793,536, Mistral-Small-3.1-24B
// 24,011,361,280.
TEST(ImageTowers, AreWhatTheWeightsHaveMoreThanTheirTextParts) {
  EXPECT_EQ(whole_count(R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
    "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
    "interleave_moe_layer_step": 1, "num_attention_heads": 40, "num_key_value_heads": 8,
    "num_hidden_layers": 48, "head_dim": 128, "num_local_experts": 16, "num_experts_per_tok": 1,
    "vocab_size": 202048}, "vision_config": {"hidden_size": 1408, "image_size": 336,
    "intermediate_size": 5632, "model_type": "llama4_vision_model", "num_attention_heads": 16,
    "num_hidden_layers": 34, "patch_size": 14, "pixel_shuffle_ratio": 0.5,
    "projector_input_dim": 4096, "projector_output_dim": 4096, "vision_output_dim": 4096}})"),
            108'641'793'536);
  EXPECT_EQ(whole_count(R"({"model_type": "mistral3", "spatial_merge_size": 2,
    "multimodal_projector_bias": false, "text_config": {"model_type": "mistral", "head_dim": 128,
    "hidden_size": 5120, "intermediate_size": 32768, "num_attention_heads": 32,
    "num_hidden_layers": 40, "num_key_value_heads": 8, "vocab_size": 131072},
    "vision_config": {"hidden_size": 1024, "image_size": 1540, "intermediate_size": 4096,
    "model_type": "pixtral", "num_attention_heads": 16, "num_hidden_layers": 24,
    "patch_size": 14}})"),
            24'011'361'280);
}

// What transformers' classes have, built without weights, where a file leaves sizes to them: a CLIP of
// 768 channels in patches of 32 (its own class, not LLaVA's), two images in a patch of Qwen's; and of
// Llama 4 a projector as wide as its MLP, whatever the hidden size.
TEST(ImageTowers, HaveTheSizesOfTheirOwnClass) {
  const std::string sizes = R"("vocab_size": 1000, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2})";
  EXPECT_EQ(count(R"({"model_type": "llava", "text_config": {"model_type": "llama", )" + sizes +
                  R"(, "vision_config": {"model_type": "clip_vision_model",
    "num_hidden_layers": 2}})"),
            16'630'656);
  EXPECT_EQ(count(R"({"model_type": "qwen3_vl", "text_config": {"model_type": "qwen3_vl_text", )" +
                  sizes + R"(, "vision_config": {"depth": 2, "hidden_size": 64,
    "intermediate_size": 96, "num_heads": 4, "patch_size": 14, "out_hidden_size": 64,
    "num_position_embeddings": 16, "deepstack_visual_indexes": [0], "spatial_merge_size": 2}})"),
            300'160);
  EXPECT_EQ(count(R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
    "intermediate_size_mlp": 128, "num_local_experts": 4, )" +
                  sizes + R"(, "vision_config": {"hidden_size": 64, "intermediate_size": 192,
    "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 56, "patch_size": 14,
    "vision_output_dim": 128, "projector_input_dim": 128, "projector_output_dim": 128}})"),
            171'648);
}

// The weights of Qwen2-Audio-7B are 8,397,094,912.
TEST(AudioTowers, OfWhisperAreCountedWithTheirConvolutions) {
  const std::string qwen2 = R"({"model_type": "qwen2_audio", "text_config": {
    "model_type": "qwen2", "hidden_size": 4096, "intermediate_size": 11008,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
    "vocab_size": 156032}, "audio_config": {"model_type": "qwen2_audio_encoder",
    "d_model": 1280, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120,
    "encoder_layers": 32, "num_mel_bins": 128, "max_source_positions": 1500}})";
  EXPECT_EQ(whole_count(qwen2), 8'397'094'912);
  const sim::Transformer model = read_model_config(qwen2, "f");
  EXPECT_EQ(model.audio->patch_embedding, "2x384xh 3840xh");
  EXPECT_EQ(model.audio->patches, 1500);
  EXPECT_EQ(model.audio->merged_patches, 2);
  // Layers, convolutions with biases, positions and the last norm; of the layers the keys have no
  // biases.  Two matrices make a token of four frames.
  const std::int64_t d = 1280, layer = 4 * d * d + 3 * d + 8 * d * d + 5 * d + 4 * d,
                     whisper = 32 * layer + 384 * d + d + 3 * d * d + d + 1500 * d + 2 * d;
  EXPECT_EQ(audio_count(qwen2), whisper + d * 4096 + 4096);
  EXPECT_EQ(audio_count(R"({"model_type": "voxtral", "text_config": {"model_type": "llama",
    "hidden_size": 3072}, "audio_config": {"model_type": "voxtral_encoder", "hidden_size": 1280,
    "intermediate_size": 5120, "num_attention_heads": 20, "num_hidden_layers": 32}})"),
            whisper + 5120 * 3072 + 3072 * 3072);
}

// The weights of Gemma 4 E2B are 5,123,178,051, of which its text part has 4,628,569,379 and
// 18,880,512 more in layers that do not use their own keys and values, and images 168,544,256.
TEST(AudioTowers, OfGemma4HaveTheWeightsOfAConformer) {
  const std::string file = R"({"model_type": "gemma4", "text_config": {
    "model_type": "gemma4_text", "hidden_size": 1536, "intermediate_size": 6144,
    "num_attention_heads": 8, "num_hidden_layers": 5, "num_key_value_heads": 1,
    "vocab_size": 262144}, "audio_config": {"model_type": "gemma4_audio", "hidden_size": 1024,
    "attention_chunk_size": 12, "attention_context_left": 13, "attention_context_right": 0,
    "conv_kernel_size": 5, "num_attention_heads": 8, "num_hidden_layers": 12,
    "output_proj_dims": 1536, "subsampling_conv_channels": [128, 32]}})";
  EXPECT_EQ(audio_count(file), 5'123'178'051 - 4'628'569'379 - 18'880'512 - 168'544'256);
  EXPECT_EQ(read_model_config(file, "f").audio->window, 24);
}

// Two towers beside the text part of the thinker; the talker is left out with a word.
TEST(AudioTowers, OfQwenOmniStandBesideImages) {
  const TemporaryFolder folder;
  const std::string path = folder / "config.json";
  const std::string file = R"({"model_type": "qwen3_omni_moe", "talker_config": {"a": 1},
    "thinker_config": {"model_type": "qwen3_omni_moe_thinker",
    "text_config": {"model_type": "qwen3_omni_moe_text", "hidden_size": 2048, "head_dim": 128,
    "intermediate_size": 768, "moe_intermediate_size": 768, "num_attention_heads": 32,
    "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
    "num_key_value_heads": 4, "vocab_size": 152064},
    "audio_config": {"d_model": 1280, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120,
    "encoder_layers": 32, "num_mel_bins": 128, "downsample_hidden_size": 480, "n_window": 50,
    "n_window_infer": 800, "output_dim": 2048},
    "vision_config": {"deepstack_visual_indexes": [8, 16, 24], "depth": 27, "hidden_size": 1152,
    "in_channels": 3, "intermediate_size": 4304, "num_heads": 16,
    "num_position_embeddings": 2304, "out_hidden_size": 2048, "patch_size": 16,
    "spatial_merge_size": 2, "temporal_patch_size": 2}}})";
  std::ofstream(path) << file;
  const std::int64_t d = 1280, layer = 4 * d * d + 4 * d + 8 * d * d + 5 * d + 4 * d,
                     convolutions = 9 * 480 + 2 * 9 * 480 * 480 + 3 * 480 + 480 * 16 * d,
                     projector = d * d + d + d * 2048 + 2048;
  EXPECT_EQ(audio_count(file), 32 * layer + convolutions + 2 * d + projector);
  const sim::NamedModel read = load_model_config(path);
  ASSERT_TRUE(read.model.vision && read.model.audio);
  EXPECT_EQ(read.model.audio->patch_embedding, "256x9x480 64x4320x480 16x4320x480 7680xh");
  EXPECT_EQ(read.model.audio->patches, 104);
  EXPECT_EQ(read.notes,
            (std::vector<std::string>{
                "audio_config is counted where --audio-tokens says how many tokens of a sequence "
                "it makes",
                "vision_config is counted where --image-tokens says how many tokens of a "
                "sequence it makes",
                "thinker_config.text_config alone is read: other parts of this model are not "
                "counted"}));
}

// Windows of 8 by 8 patches in all layers but each eighth.
TEST(ImageTowers, OfQwen25HaveWindows) {
  const sim::Transformer model = read_model_config(R"({"model_type": "qwen2_5_vl",
    "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28,
    "num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 152064,
    "vision_config": {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420,
    "fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112,
    "num_heads": 16, "out_hidden_size": 3584, "patch_size": 14}})",
                                                   "f");
  EXPECT_EQ(model.vision->window, 64);
  EXPECT_EQ(model.vision->window_interval, 8);
  EXPECT_TRUE(model.vision->rotary);
}

// Of a tower that no formula holds for the text part is read; the other tower too.
TEST(Towers, OfAnotherShapeAreLeftOutWithAWord) {
  const TemporaryFolder folder;
  const std::string path = folder / "config.json";
  const auto file = [&](int heads) {
    std::ofstream(path) << R"({"model_type": "gemma3", "text_config": {
    "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
    "num_attention_heads": 8, "num_hidden_layers": 34, "num_key_value_heads": 4},
    "vision_config": {"hidden_size": 1152, "image_size": 896, "intermediate_size": 4304,
    "num_hidden_layers": 27, "patch_size": 14, "num_attention_heads": )" +
                               std::to_string(heads) + "}}";
    return load_model_config(path);
  };
  EXPECT_TRUE(file(16).model.vision);
  const sim::NamedModel odd = file(7);
  EXPECT_FALSE(odd.model.vision);
  EXPECT_EQ(odd.model.hidden_size, 2560);
  EXPECT_EQ(odd.notes.front(),
            "vision_config is not counted: of this model the text part alone is read");
}

TEST(Towers, OfMalformedFilesAreLeftOut) {
  for (const char* tower : {"[1]", "7", "\"clip\"", "null", "{}", "{\"model_type\": [1]}"}) {
    const sim::Transformer model = read_model_config(
        std::string(R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text",
    "hidden_size": 2560, "intermediate_size": 10240, "num_attention_heads": 8,
    "num_hidden_layers": 34, "num_key_value_heads": 4}, "vision_config": )") +
            tower + "}",
        "f");
    EXPECT_FALSE(model.vision) << tower;
    EXPECT_EQ(model.hidden_size, 2560) << tower;
  }
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
