#include "hwdb/huggingface/huggingface.h"

#include <cstdint>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "hwdb/models/catalogue.h"
#include "sim/base/error.h"
#include "sim/model/parameters.h"
#include "tests/temporary_folder.h"

namespace llmsim::hwdb {
namespace {

// Without what no cost depends on, which costless_fields_test.cpp looks at.
sim::Transformer shape_of(sim::Transformer model) {
  model.rope.reset(), model.norm_epsilon.reset(), model.activation.reset();
  return model;
}

// What the publishers' files say about the shape; keys without a meaning for it are left out.
constexpr const char* kLlama31 =
    R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 128256})";
constexpr const char* kLlama1 =
    R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32,
  "num_hidden_layers": 32, "max_position_embeddings": 2048, "vocab_size": 32000, "tie_word_embeddings": false})";
constexpr const char* kMistral =
    R"({"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000})";
constexpr const char* kNemo =
    R"({"model_type": "mistral", "head_dim": 128, "hidden_size": 5120, "intermediate_size": 14336,
  "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
  "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 131072})";
constexpr const char* kMixtral =
    R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32000})";
constexpr const char* kQwen1 =
    R"({"model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "kv_channels": 128,
  "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32, "no_bias": true, "seq_length": 8192,
  "tie_word_embeddings": false, "vocab_size": 151936})";
constexpr const char* kQwen25 =
    R"({"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768,
  "max_window_layers": 24, "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2, "sliding_window": 32768,
  "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936})";
constexpr const char* kQwenMoe =
    R"({"model_type": "qwen2_moe", "decoder_sparse_step": 1, "hidden_size": 2048, "intermediate_size": 5632,
  "max_position_embeddings": 8192, "moe_intermediate_size": 1408, "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
  "num_hidden_layers": 24, "num_key_value_heads": 16, "shared_expert_intermediate_size": 5632, "tie_word_embeddings": false,
  "use_sliding_window": false, "vocab_size": 151936})";
constexpr const char* kQwen3 =
    R"({"model_type": "qwen3", "attention_bias": false, "head_dim": 128, "hidden_size": 4096,
  "intermediate_size": 12288, "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 36,
  "num_key_value_heads": 8, "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 151936})";
constexpr const char* kQwen3Moe =
    R"({"model_type": "qwen3_moe", "decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 2048,
  "intermediate_size": 6144, "max_position_embeddings": 40960, "mlp_only_layers": [], "moe_intermediate_size": 768,
  "num_attention_heads": 32, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
  "tie_word_embeddings": false, "vocab_size": 151936})";
constexpr const char* kGpt2Xl =
    R"({"model_type": "gpt2", "n_ctx": 1024, "n_embd": 1600, "n_head": 25, "n_layer": 48,
  "n_positions": 1024, "vocab_size": 50257})";
constexpr const char* kNeox =
    R"({"model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576,
  "max_position_embeddings": 2048, "num_attention_heads": 64, "num_hidden_layers": 44, "tie_word_embeddings": false,
  "vocab_size": 50432})";
constexpr const char* kGptj =
    R"({"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_inner": null, "n_layer": 28,
  "n_positions": 2048, "rotary_dim": 64, "tie_word_embeddings": false, "vocab_size": 50400})";
constexpr const char* kBloom =
    R"({"model_type": "bloom", "hidden_size": 14336, "n_head": 112, "n_layer": 70, "seq_length": 2048,
  "vocab_size": 250880})";
constexpr const char* kOpt =
    R"({"model_type": "opt", "do_layer_norm_before": true, "ffn_dim": 3072, "hidden_size": 768,
  "max_position_embeddings": 2048, "num_attention_heads": 12, "num_hidden_layers": 12, "vocab_size": 50272,
  "word_embed_proj_dim": 768})";
constexpr const char* kFalcon =
    R"({"model_type": "falcon", "alibi": false, "bias": false, "hidden_size": 4544, "multi_query": true,
  "new_decoder_architecture": false, "num_attention_heads": 71, "num_hidden_layers": 32, "parallel_attn": true,
  "vocab_size": 65024})";
constexpr const char* kMpt =
    R"({"model_type": "mpt", "attn_config": {"alibi": true, "attn_type": "multihead_attention"}, "d_model": 4096,
  "expansion_ratio": 4, "max_seq_len": 2048, "n_heads": 32, "n_layers": 32, "no_bias": true, "vocab_size": 50432})";
constexpr const char* kGemma =
    R"({"model_type": "gemma", "head_dim": 256, "hidden_size": 3072, "intermediate_size": 24576,
  "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 16,
  "vocab_size": 256000})";
constexpr const char* kGemma2 =
    R"({"model_type": "gemma2", "head_dim": 256, "hidden_size": 3584, "intermediate_size": 14336,
  "max_position_embeddings": 8192, "num_attention_heads": 16, "num_hidden_layers": 42, "num_key_value_heads": 8,
  "sliding_window": 4096, "vocab_size": 256000})";
constexpr const char* kGemma3 =
    R"({"model_type": "gemma3_text", "head_dim": 256, "hidden_size": 1152, "intermediate_size": 6912,
  "max_position_embeddings": 32768, "num_attention_heads": 4, "num_hidden_layers": 26, "num_key_value_heads": 1,
  "sliding_window": 512, "sliding_window_pattern": 6, "vocab_size": 262144})";
constexpr const char* kPhi2 =
    R"({"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "max_position_embeddings": 2048,
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "qk_layernorm": false,
  "tie_word_embeddings": false, "vocab_size": 51200})";
constexpr const char* kPhi3 =
    R"({"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "max_position_embeddings": 4096,
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "rope_scaling": null, "sliding_window": 2047,
  "tie_word_embeddings": false, "vocab_size": 32064})";
constexpr const char* kOlmo =
    R"({"model_type": "olmo", "hidden_size": 4096, "intermediate_size": 11008, "max_position_embeddings": 2048,
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "tie_word_embeddings": false,
  "vocab_size": 50304})";
constexpr const char* kOlmo2 =
    R"({"model_type": "olmo2", "hidden_size": 5120, "intermediate_size": 27648, "max_position_embeddings": 4096,
  "num_attention_heads": 40, "num_hidden_layers": 64, "num_key_value_heads": 8, "tie_word_embeddings": false,
  "vocab_size": 100352})";
constexpr const char* kDeepSeekV2 =
    R"({"model_type": "deepseek_v2", "first_k_dense_replace": 1, "hidden_size": 2048,
  "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840, "moe_intermediate_size": 1408,
  "moe_layer_freq": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16, "num_experts_per_tok": 6,
  "num_hidden_layers": 27, "num_key_value_heads": 16, "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
  "rope_scaling": {"original_max_position_embeddings": 4096, "type": "yarn"}, "tie_word_embeddings": false,
  "topk_method": "greedy", "v_head_dim": 128, "vocab_size": 102400})";
constexpr const char* kDeepSeekV3 =
    R"({"model_type": "deepseek_v3", "first_k_dense_replace": 3, "hidden_size": 7168,
  "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840, "moe_intermediate_size": 2048,
  "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128, "num_experts_per_tok": 8, "topk_group": 4,
  "num_hidden_layers": 61, "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "rope_scaling": {"original_max_position_embeddings": 4096, "type": "yarn"},
  "tie_word_embeddings": false, "topk_method": "noaux_tc", "v_head_dim": 128, "vocab_size": 129280})";
constexpr const char* kGptOss =
    R"({"model_type": "gpt_oss", "attention_bias": true, "experts_per_token": 4, "head_dim": 64,
  "hidden_size": 2880, "initial_context_length": 4096, "intermediate_size": 2880,
  "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
  "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
  "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention",
  "sliding_attention", "full_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"],
  "max_position_embeddings": 131072, "num_attention_heads": 64, "num_hidden_layers": 24, "num_key_value_heads": 8,
  "num_local_experts": 32, "sliding_window": 128, "tie_word_embeddings": false, "vocab_size": 201088})";
constexpr const char* kScout =
    R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text", "attention_chunk_size": 8192,
  "head_dim": 128, "hidden_size": 5120, "interleave_moe_layer_step": 1, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
  "max_position_embeddings": 10485760, "num_attention_heads": 40, "num_experts_per_tok": 1, "num_hidden_layers": 48,
  "num_key_value_heads": 8, "num_local_experts": 16, "rope_scaling": {"original_max_position_embeddings": 8192},
  "vocab_size": 202048}, "vision_config": {"hidden_size": 1408, "model_type": "llama4_vision_model"}})";
constexpr const char* kStarcoder2 =
    R"({"model_type": "starcoder2", "hidden_size": 3072, "intermediate_size": 12288,
  "max_position_embeddings": 16384, "num_attention_heads": 24, "num_hidden_layers": 30, "num_key_value_heads": 2, "sliding_window": 4096,
  "use_bias": true, "vocab_size": 49152})";
constexpr const char* kStableLm =
    R"({"model_type": "stablelm", "hidden_size": 2048, "intermediate_size": 5632,
  "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 24, "num_key_value_heads": 32,
  "tie_word_embeddings": false, "use_qkv_bias": true, "vocab_size": 100352})";

constexpr const char* kCommandRPlus =
    R"({"model_type": "cohere", "attention_bias": false, "hidden_size": 12288, "intermediate_size": 33792, "logit_scale": 0.833,
  "max_position_embeddings": 8192, "num_attention_heads": 96, "num_hidden_layers": 64, "num_key_value_heads": 8,
  "use_qk_norm": true, "vocab_size": 256000})";
constexpr const char* kSmolLm3 =
    R"({"model_type": "smollm3", "attention_bias": false, "hidden_size": 2048, "intermediate_size": 11008,
  "max_position_embeddings": 65536, "max_window_layers": 28, "mlp_bias": false, "no_rope_layer_interval": 4, "num_attention_heads": 16,
  "num_hidden_layers": 36, "num_key_value_heads": 4, "sliding_window": null, "use_sliding_window": false, "vocab_size": 128256})";
constexpr const char* kGlm4Chat =
    R"({"model_type": "chatglm", "add_bias_linear": false, "add_qkv_bias": true, "ffn_hidden_size": 13696, "hidden_size": 4096,
  "kv_channels": 128, "multi_query_attention": true, "multi_query_group_num": 2, "num_attention_heads": 32, "num_layers": 40,
  "padded_vocab_size": 151552, "rmsnorm": true, "seq_length": 131072, "tie_word_embeddings": false})";
constexpr const char* kGlm =
    R"({"model_type": "glm", "attention_bias": true, "head_dim": 128, "hidden_size": 4096, "intermediate_size": 13696,
  "max_position_embeddings": 131072, "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 2,
  "tie_word_embeddings": false, "vocab_size": 151552})";
constexpr const char* kGlm4 =
    R"({"model_type": "glm4", "attention_bias": false, "head_dim": 128, "hidden_size": 6144, "intermediate_size": 23040,
  "max_position_embeddings": 32768, "num_attention_heads": 48, "num_hidden_layers": 61, "num_key_value_heads": 2,
  "partial_rotary_factor": 0.5, "tie_word_embeddings": false, "vocab_size": 151552})";
constexpr const char* kDbrx =
    R"({"model_type": "dbrx", "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "model_type": "", "rope_theta": 500000},
  "d_model": 6144, "ffn_config": {"ffn_hidden_size": 10752, "model_type": "", "moe_num_experts": 16, "moe_top_k": 4},
  "max_seq_len": 32768, "n_heads": 48, "n_layers": 40, "tie_word_embeddings": false, "vocab_size": 100352})";

std::int64_t count(const std::string& text) {
  return sim::parameters(read_model_config(text, "config.json")).total();
}

std::string complaint(const std::string& text) {
  try {
    read_model_config(text, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

// The totals of the safetensors files on the model cards.
TEST(ModelConfig, CountsOfEveryFamilyAreThePublishedOnes) {
  EXPECT_EQ(count(kLlama31), 8'030'261'248);
  EXPECT_EQ(count(kLlama1), 6'738'415'616);
  EXPECT_EQ(count(kMistral), 7'241'732'096);
  EXPECT_EQ(count(kNemo), 12'247'782'400);
  EXPECT_EQ(count(kMixtral), 46'702'792'704);
  EXPECT_EQ(count(kQwen1), 7'721'324'544);
  EXPECT_EQ(count(kQwen25), 494'032'768);
  EXPECT_EQ(count(kQwenMoe), 14'315'784'192);
  EXPECT_EQ(count(kQwen3), 8'190'735'360);
  EXPECT_EQ(count(kQwen3Moe), 30'532'122'624);
  EXPECT_EQ(count(kGpt2Xl), 1'557'611'200);
  EXPECT_EQ(count(kNeox), 20'554'567'680);
  EXPECT_EQ(count(kGptj), 6'050'882'784);
  EXPECT_EQ(count(kBloom), 176'247'271'424);
  EXPECT_EQ(count(kOpt), 125'239'296);
  EXPECT_EQ(count(kFalcon), 6'921'720'704);
  EXPECT_EQ(count(kMpt), 6'649'286'656);
  EXPECT_EQ(count(kGemma), 8'537'680'896);
  EXPECT_EQ(count(kGemma2), 9'241'705'984);
  EXPECT_EQ(count(kGemma3), 999'885'952);
  EXPECT_EQ(count(kPhi2), 2'779'683'840);
  EXPECT_EQ(count(kPhi3), 3'821'079'552);
  EXPECT_EQ(count(kOlmo), 6'888'095'744);
  EXPECT_EQ(count(kOlmo2), 32'234'279'936);
  EXPECT_EQ(count(kDeepSeekV2), 15'706'484'224);
  EXPECT_EQ(count(kGptOss), 20'914'757'184);
  EXPECT_EQ(count(kStarcoder2), 3'030'371'328);
  EXPECT_EQ(count(kStableLm), 1'644'515'328);
  EXPECT_EQ(count(kCommandRPlus), 103'810'674'688);
  EXPECT_EQ(count(kSmolLm3), 3'075'098'624);
  EXPECT_EQ(count(kGlm4Chat), 9'399'951'360);
  EXPECT_EQ(count(kGlm), 9'399'951'360);
  EXPECT_EQ(count(kGlm4), 32'566'081'536);
  EXPECT_EQ(count(kDbrx), 131'596'523'520);
}

TEST(ModelConfig, DeepSeekV3IsItsMainModelAndOneMoreLayer) {
  const sim::Parameters p = sim::parameters(read_model_config(kDeepSeekV3, "config.json"));
  EXPECT_EQ(p.total() - p.mtp, 671'026'419'200);
  EXPECT_GT(p.mtp, 11'000'000'000);
}

// Every field equals the catalogue's, whose files say the same in other words.
TEST(ModelConfig, AgreesWithTheCatalogueFieldByField) {
  const auto same = [](const char* text, const char* name, int seq_len) {
    sim::Transformer expected = find_model(name)->model;
    sim::Transformer read = read_model_config(text, "config.json");
    EXPECT_EQ(read.seq_len, seq_len) << name;
    read.name = expected.name;
    read.seq_len = expected.seq_len;
    EXPECT_EQ(shape_of(read), shape_of(expected)) << name;
  };
  same(kLlama31, "llama-3.1-8b", 8192);
  same(kMistral, "mistral-7b", 4096);
  same(kMixtral, "mixtral-8x7b", 4096);
  same(kQwen1, "qwen-7b", 8192);
  same(kQwen25, "qwen2.5-0.5b", 4096);
  same(kQwenMoe, "qwen1.5-moe-a2.7b", 4096);
  same(kQwen3, "qwen3-8b", 4096);
  same(kQwen3Moe, "qwen3-30b-a3b", 4096);
  same(kGpt2Xl, "gpt2-xl", 1024);
  same(kNeox, "gpt-neox-20b", 2048);
  same(kGptj, "gpt-j-6b", 2048);
  same(kBloom, "bloom-176b", 2048);
  same(kOpt, "opt-125m", 2048);
  same(kFalcon, "falcon-7b", 2048);
  same(kMpt, "mpt-7b", 2048);
  same(kGemma2, "gemma-2-9b", 4096);
  same(kGemma3, "gemma-3-1b", 4096);
  same(kPhi2, "phi-2", 2048);
  same(kPhi3, "phi-3-mini", 4096);
  same(kOlmo, "olmo-7b", 2048);
  same(kOlmo2, "olmo-2-32b", 4096);
  same(kDeepSeekV2, "deepseek-v2-lite", 4096);
  same(kDeepSeekV3, "deepseek-v3-mtp", 4096);
  same(kGptOss, "gpt-oss-20b", 4096);
  same(kScout, "llama-4-scout", 8192);
  same(kCommandRPlus, "command-r-plus", 4096);
  same(kSmolLm3, "smollm3", 4096);
  same(kGlm4Chat, "glm-4-9b", 4096);
  same(kGlm, "glm-4-9b", 4096);
  same(kGlm4, "glm-4-32b", 4096);
  same(kDbrx, "dbrx", 4096);
}

TEST(ModelConfig, OmittedKeysTakeTheFamilysDefaults) {
  EXPECT_EQ(read_model_config(kLlama1, "f").num_kv_heads, 32);
  EXPECT_EQ(read_model_config(kGpt2Xl, "f").ffn_size, 4 * 1600);
  EXPECT_TRUE(read_model_config(kGpt2Xl, "f").tied_embeddings);
  EXPECT_EQ(
      read_model_config(replaced(kMistral, "\"sliding_window\": 4096,", ""), "f").sliding_window,
      4096);
  EXPECT_EQ(read_model_config(kNemo, "f").sliding_window, std::nullopt);
}

// The multimodal Gemma's file, where all that equals its class's defaults is left out: gemma-3-4b.
TEST(ModelConfig, TheTextPartOfAVisionLanguageModelIsRead) {
  const sim::Transformer m =
      read_model_config(R"({"model_type": "gemma3", "text_config": {"hidden_size": 2560,
    "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024},
    "vision_config": {"hidden_size": 1152}})",
                        "f");
  EXPECT_EQ(sim::parameters(m).total(), sim::parameters(find_model("gemma-3-4b")->model).total());
  EXPECT_EQ(m.name, "gemma3");
}

TEST(ModelConfig, TheNameIsTheLastPartOfTheRepositorys) {
  EXPECT_EQ(read_model_config(
                replaced(kGpt2Xl, "{", R"({"_name_or_path": "openai-community/gpt2-xl", )"), "f")
                .name,
            "gpt2-xl");
  EXPECT_EQ(read_model_config(kGpt2Xl, "f").name, "gpt2");
}

// llm-train-bench: 1024 ceil(1.3 * 8/3 * 8192 / 1024) = 1024 ceil(27.7) = 28672, and 256 ceil(8/3 *
// 4096 / 256) = 256 * 43 = 11008.
TEST(ModelConfig, TrainBenchRoundsTheMlpWidth) {
  const std::string proxy =
      R"({"n_layers": 1, "n_heads": 64, "n_kv_heads": 8, "d_embd": 8192, "max_seq_len": 4096, "vocab_size": 128256,
    "ffn_mult": 1.3, "ffn_factor": 1024, "rope_base": 500000.0, "norm_eps": 1e-05, "arch_name": "llama_3.1"})";
  sim::Transformer read = read_model_config(proxy, "f");
  EXPECT_EQ(read.name, "llama_3.1");
  read.name = "llama-3.1-70b-proxy";
  EXPECT_EQ(shape_of(read), shape_of(find_model("llama-3.1-70b-proxy")->model));
  const std::string llama2 =
      R"({"n_layers": 32, "n_heads": 32, "n_kv_heads": 32, "d_embd": 4096, "max_seq_len": 4096,
    "vocab_size": 32000, "ffn_mult": 1.0, "ffn_factor": 256})";
  EXPECT_EQ(sim::parameters(read_model_config(llama2, "f")).total(), 6'738'415'616);
}

TEST(ModelConfig, TrainBenchWithoutAnMlpWidthIsAGpt) {
  const std::string gpt =
      R"({"max_seq_len": 1024, "vocab_size": 50257, "n_layers": 48, "n_heads": 25, "d_embd": 1600, "p_drop": 0.1})";
  EXPECT_EQ(count(gpt.c_str()), 1'557'611'200);
}

TEST(ModelConfig, ADeclaredUnknownModelTypeSuggestsTheNearest) {
  EXPECT_EQ(complaint(R"({"model_type": "lama"})"),
            "config.json: model_type = \"lama\": unknown; did you mean llama?");
}

// 30,522 rows, 512 positions and 2 segments of 768, a norm, 12 blocks of 7,087,872; the head's
// dense layer, norm and bias; with the pooler and two classes where sentences are told apart.
TEST(ModelConfig, BertHasTheHeadOfItsClass) {
  const std::string base =
      R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 768, "num_hidden_layers": 12,
          "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512,
          "type_vocab_size": 2})";
  EXPECT_EQ(count(base.c_str()), 109'514'298);
  EXPECT_EQ(count(replaced(base.c_str(), "BertForMaskedLM", "BertForPreTraining").c_str()),
            110'106'428);
  EXPECT_EQ(count(replaced(base.c_str(), "BertForMaskedLM", "BertModel").c_str()), 109'482'240);
  EXPECT_EQ(
      count(replaced(base.c_str(), "BertForMaskedLM", "BertForSequenceClassification").c_str()),
      109'483'778);
  EXPECT_EQ(count(replaced(base.c_str(), "BertForMaskedLM", "BertForTokenClassification").c_str()),
            108'893'186);
  EXPECT_EQ(
      complaint(replaced(base.c_str(), "\"vocab_size\"", "\"is_decoder\": true, \"vocab_size\"")),
      "config.json: is_decoder = true: a decoder of this family is not modelled; false is");
}

TEST(ModelConfig, RobertaHasTwoPositionsThatAreNoTokens) {
  const sim::Transformer model = read_model_config(
      R"({"model_type": "roberta", "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
          "intermediate_size": 3072, "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1})",
      "config.json");
  EXPECT_EQ(sim::parameters(model).total(), 124'697'433);
  EXPECT_EQ(model.seq_len, 512);
}

TEST(ModelConfig, OtherEncodersAndHybridsAreRefusedForWhatTheyAre) {
  const std::string rule = ", which is not modelled";
  EXPECT_EQ(complaint(R"({"model_type": "electra"})"),
            "config.json: model_type = \"electra\": an encoder that is trained beside a generator" +
                rule);
  EXPECT_EQ(complaint(R"({"model_type": "t5"})"),
            "config.json: model_type = \"t5\": an encoder-decoder" + rule);
}

// nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16, keys of the shape.
constexpr const char* kNemotron3Nano = R"({
  "model_type": "nemotron_h", "hidden_size": 2688, "num_hidden_layers": 52,
  "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
  "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "intermediate_size": 1856,
  "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
  "conv_kernel": 4, "chunk_size": 128, "mamba_proj_bias": false, "mlp_bias": false,
  "attention_bias": false, "n_routed_experts": 128, "n_shared_experts": 1,
  "num_experts_per_tok": 6, "moe_intermediate_size": 1856,
  "moe_shared_expert_intermediate_size": 3712, "n_group": 1, "topk_group": 1,
  "max_position_embeddings": 262144, "tie_word_embeddings": false, "vocab_size": 131072})";

TEST(ModelConfig, NemotronHIsAHybrid) {
  sim::Transformer model = read_model_config(kNemotron3Nano, "config.json");
  EXPECT_EQ(sim::parameters(model).total(), 31'577'940'288);  // with 23 * 128 biases
  sim::Transformer known = find_model("nemotron-3-nano")->model;
  model.name = known.name, model.seq_len = known.seq_len;
  EXPECT_EQ(shape_of(model), shape_of(known));
}

// Qwen/Qwen3-Next-80B-A3B-Instruct, keys of the shape.
TEST(ModelConfig, Qwen3NextIsAHybrid) {
  sim::Transformer model = read_model_config(
      R"({"model_type": "qwen3_next", "hidden_size": 2048, "num_hidden_layers": 48,
          "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
          "intermediate_size": 5120, "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
          "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
          "linear_value_head_dim": 128, "decoder_sparse_step": 1, "mlp_only_layers": [],
          "num_experts": 512, "num_experts_per_tok": 10, "moe_intermediate_size": 512,
          "shared_expert_intermediate_size": 512, "max_position_embeddings": 262144,
          "tie_word_embeddings": false, "vocab_size": 151936})",
      "config.json");
  EXPECT_EQ(sim::parameters(model).total(), 79'674'391'296);  // as Hugging Face counts it
  EXPECT_EQ(model.layer_pattern, "GGG*");
  const sim::Transformer& known = find_model("qwen3-next")->model;
  model.name = known.name, model.seq_len = known.seq_len;
  EXPECT_EQ(shape_of(model), shape_of(known));
}

// ai21labs/Jamba-v0.1, keys of the shape.
constexpr const char* kJamba = R"({
  "model_type": "jamba", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
  "num_key_value_heads": 8, "intermediate_size": 14336, "attn_layer_period": 8,
  "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1, "num_experts": 16,
  "num_experts_per_tok": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
  "mamba_dt_rank": 256, "mamba_conv_bias": true, "mamba_proj_bias": false,
  "mamba_inner_layernorms": true, "max_position_embeddings": 262144,
  "tie_word_embeddings": false, "vocab_size": 65536})";

TEST(ModelConfig, JambaIsAHybrid) {
  sim::Transformer model = read_model_config(kJamba, "config.json");
  EXPECT_EQ(sim::parameters(model).total(), 51'570'323'328);  // half the bytes of its weights
  sim::Transformer known = find_model("jamba-v0.1")->model;
  model.name = known.name, model.seq_len = known.seq_len;
  EXPECT_EQ(shape_of(model), shape_of(known));
  // JambaConfig's own rank of the steps is a sixteenth of the width.
  const std::string automatic =
      replaced(kJamba, "\"mamba_dt_rank\": 256", "\"mamba_dt_rank\": \"auto\"");
  EXPECT_EQ(read_model_config(automatic, "config.json").mamba1->dt_rank, 256);
}

TEST(ModelConfig, JambaWithOneExpertHasMlps) {
  const sim::Transformer model = read_model_config(
      replaced(kJamba, "\"num_experts\": 16", "\"num_experts\": 1"), "config.json");
  EXPECT_FALSE(model.moe);
  EXPECT_EQ(model.ffn_size, 14336);
}

// 28 layers of 32 have a mixer with norms of 256 + 2 * 16 values.
TEST(ModelConfig, JambaMayBeWithoutItsNorms) {
  EXPECT_EQ(count(kJamba) - count(replaced(kJamba, "\"mamba_inner_layernorms\": true",
                                           "\"mamba_inner_layernorms\": false")
                                      .c_str()),
            28 * 288);
  EXPECT_EQ(complaint(replaced(kJamba, "\"attn_layer_offset\": 4", "\"attn_layer_offset\": 8")),
            "config.json: attn_layer_offset = 8: less than attn_layer_period is expected");
}

TEST(ModelConfig, HybridsOfOtherKindsAreRefused) {
  EXPECT_EQ(
      complaint(replaced(kNemotron3Nano, "\"num_hidden_layers\": 52", "\"num_hidden_layers\": 50")),
      "config.json: hybrid_override_pattern = \"MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEME...: a "
      "letter for each of 50 layers is expected");
  EXPECT_NE(complaint(replaced(kNemotron3Nano, "MEMEM*E", "XEMEM*E")).find("X is no kind of layer"),
            std::string::npos);
}

TEST(ModelConfig, MissingAndAbsurdFiguresNameFileAndKey) {
  EXPECT_EQ(complaint("{}"),
            "config.json: model_type: missing; is this the config.json of a model?");
  EXPECT_EQ(complaint(replaced(kLlama1, "\"vocab_size\": 32000,", "")),
            "config.json: vocab_size: missing");
  EXPECT_EQ(complaint(replaced(kGpt2Xl, "\"n_layer\": 48,", "")),
            "config.json: n_layer: missing, and so is num_hidden_layers or num_layers or n_layers");
  EXPECT_EQ(complaint(replaced(kLlama1, "32000", "-1")),
            "config.json: vocab_size = -1: an integer from 1 to 134217728 is expected");
  EXPECT_EQ(complaint(replaced(kLlama1, "32000", "\"many\"")),
            "config.json: vocab_size = \"many\": an integer from 1 to 134217728 is expected");
  EXPECT_EQ(
      complaint(replaced(kLlama1, "\"num_attention_heads\": 32", "\"num_attention_heads\": 33")),
      "config.json: head_dim: head_dim would be 124.12121212121212, which is no whole number: "
      "head_dim | "
      "kv_channels | @hidden_size / @num_heads");
  EXPECT_EQ(
      complaint(replaced(kLlama31, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 5")),
      "config.json: num_kv_heads = 5 does not divide num_heads = 32 (1, 2, 4, 8, 16, 32 do)");
}

TEST(ModelConfig, WhatCannotBeDescribedIsRefused) {
  EXPECT_NE(
      complaint(replaced(kOpt, "\"word_embed_proj_dim\": 768", "\"word_embed_proj_dim\": 512"))
          .find("word_embed_proj_dim = 512"),
      std::string::npos);
  EXPECT_NE(complaint(replaced(kGptOss, "\"full_attention\"", "\"linear_attention\""))
                .find("layers of the kind \"linear_attention\" are not modelled"),
            std::string::npos);
}

// Of each family that is made of parts which others have, against the weights of a published file.
TEST(ModelConfig, TypesOfKnownPartsAreRows) {
  // Qwen3-VL-8B's text part is Qwen3-8B, whose tables are not tied as the whole model says.
  EXPECT_EQ(count(R"({"model_type": "qwen3_vl", "tie_word_embeddings": false, "text_config": {
    "model_type": "qwen3_vl_text", "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288,
    "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
    "max_position_embeddings": 262144, "vocab_size": 151936}})"),
            8'190'735'360);
  EXPECT_EQ(count(R"({"model_type": "olmoe", "hidden_size": 2048, "intermediate_size": 1024,
    "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 8, "num_hidden_layers": 16,
    "max_position_embeddings": 4096, "tie_word_embeddings": false, "vocab_size": 50304})"),
            6'919'161'856);
  EXPECT_EQ(count(R"({"model_type": "minimax_m2", "num_hidden_layers": 62, "hidden_size": 3072,
    "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 1536,
    "vocab_size": 200064, "num_experts_per_tok": 8, "num_local_experts": 256,
    "max_position_embeddings": 196608, "tie_word_embeddings": false})"),
            228'689'764'864);
  EXPECT_EQ(count(R"({"model_type": "deepseek", "first_k_dense_replace": 1, "hidden_size": 2048,
    "intermediate_size": 10944, "max_position_embeddings": 4096, "moe_intermediate_size": 1408,
    "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16,
    "num_experts_per_tok": 6, "num_hidden_layers": 28, "vocab_size": 102400})"),
            16'375'728'128);
}

// OLMo-7B under the keys of its publisher's own code, whose gated MLP has both halves in one width.
TEST(ModelConfig, OlmoIsReadUnderItsPublishersKeysToo) {
  const char* own = R"({"model_type": "olmo", "d_model": 4096, "embedding_size": 50304,
    "max_sequence_length": 2048, "mlp_hidden_size": 22016, "n_heads": 32, "n_layers": 32,
    "vocab_size": 50280, "weight_tying": false})";
  EXPECT_EQ(count(own), count(kOlmo));
}

// transformers 5 names the kind of each layer in words.
TEST(ModelConfig, NemotronHIsReadByItsListOfLayersToo) {
  const std::string pattern = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME";
  std::string words;
  for (const char letter : pattern) {
    words += words.empty() ? "" : ", ";
    words += letter == 'M' ? "\"mamba\"" : letter == 'E' ? "\"moe\"" : "\"attention\"";
  }
  const std::string text = replaced(replaced(kNemotron3Nano, "\"num_hidden_layers\": 52,", ""),
                                    "\"hybrid_override_pattern\": \"" + pattern + "\"",
                                    "\"layers_block_type\": [" + words + "]");
  EXPECT_EQ(read_model_config(text, "f"), read_model_config(kNemotron3Nano, "f"));
}

// What the text part of a model leaves out is said.
TEST(ModelConfig, PartsThatAreNotCountedAreNoted) {
  const TemporaryFolder folder;
  const auto notes = [&](const char* text) {
    std::ofstream(folder / "config.json") << text;
    return load_model_config(folder / "config.json").notes;
  };
  EXPECT_EQ(notes(kLlama31), std::vector<std::string>{});
  EXPECT_EQ(notes(kScout),
            std::vector<std::string>{
                "vision_config is not counted: of this model the text part alone is read"});
  EXPECT_EQ(notes(R"({"model_type": "vipllava", "text_config": {"model_type": "llama"}})"),
            std::vector<std::string>{
                "text_config alone is read: other parts of this model are not counted"});
  EXPECT_EQ(notes(R"({"model_type": "phi3_v", "hidden_size": 3072, "intermediate_size": 8192,
    "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32064,
    "img_processor": {"name": "clip_vision_model"}})"),
            std::vector<std::string>{
                "img_processor is not counted: of this model the text part alone is read"});
}

// InternVL and Ovis have it under llm_config, DeepSeek-VL under language_config, Qwen's Omni inside
// the configuration of its thinker.
TEST(ModelConfig, TextPartsStandUnderOtherKeysToo) {
  const std::string part = std::string(kQwen25);
  const std::int64_t parameters = count(kQwen25);
  for (const std::string key : {"text_config", "llm_config", "language_config"})
    EXPECT_EQ(count((R"({"model_type": "seeing", ")" + key + "\": " + part + "}").c_str()),
              parameters)
        << key;
  EXPECT_EQ(count((R"({"model_type": "omni", "thinker_config": {"text_config": )" + part +
                   R"(, "audio_config": {"d_model": 8}}})")
                      .c_str()),
            parameters);
  EXPECT_EQ(complaint(R"({"model_type": "seeing", "llm_config": {"hidden_size": 8}})"),
            "config.json: llm_config: model_type = \"seeing\": unknown");
}

TEST(ModelConfig, LayersAheadThatAreNotCountedAreNoted) {
  const TemporaryFolder folder;
  const auto notes = [&](const std::string& text) {
    std::ofstream(folder / "config.json") << text;
    return load_model_config(folder / "config.json").notes;
  };
  const std::string note = ": layers of multi-token prediction are not counted";
  EXPECT_EQ(
      notes(replaced(kQwen3, "\"head_dim\"", "\"num_nextn_predict_layers\": 2, \"head_dim\"")),
      std::vector{"num_nextn_predict_layers = 2" + note});
  EXPECT_EQ(notes(kDeepSeekV3), std::vector<std::string>{});
}

// One more layer of attention with its gate, (64, 128 + 32 + 32), norms of q and k, an output and an
// MLP; a projection of two states, and three norms.  Megatron-Bridge maps all of them.
TEST(ModelConfig, Qwen35TrainsItsLayersAhead) {
  const sim::Transformer model = read_model_config(
      R"({"model_type": "qwen3_5_text", "hidden_size": 64, "num_hidden_layers": 4,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 1000,
          "intermediate_size": 128, "linear_num_key_heads": 2, "linear_key_head_dim": 16,
          "linear_num_value_heads": 4, "linear_value_head_dim": 16, "mtp_num_hidden_layers": 1})",
      "config.json");
  EXPECT_EQ(model.mtp_layers, 1);
  EXPECT_EQ(sim::parameters(model).mtp,
            64 * 192 + 32 + 64 * 64 + 3 * 64 * 128 + 2 * 64 + 2 * 64 * 64 + 3 * 64);
}

// transformers writes a text_config without the keys that its class has the same: LLaVA of Vicuna 7B.
TEST(ModelConfig, ATextPartHasTheSizesOfItsClass) {
  EXPECT_EQ(count(R"({"model_type": "vipllava", "text_config": {"model_type": "llama",
    "max_position_embeddings": 4096, "vocab_size": 32064}})"),
            6'738'939'904);
  EXPECT_EQ(complaint(R"({"model_type": "llama", "vocab_size": 32064})"),
            "config.json: num_hidden_layers: missing, and so is n_layer or num_layers");
}

TEST(ModelConfig, GptOssHasTheHeadsOfItsClass) {
  EXPECT_EQ(count(replaced(kGptOss, "\"head_dim\": 64,", "").c_str()), 20'914'757'184);
}

TEST(ModelConfig, ClassesThatTrainSomethingElseAreRefused) {
  const auto with_class = [](const std::string& name) {
    return replaced(kLlama31, "LlamaForCausalLM", name);
  };
  EXPECT_EQ(complaint(with_class("LlamaForRewardModel")),
            "config.json: architectures = [\"LlamaForRewardModel\"]: a head of its publisher's own "
            "code is not modelled; one of ForSequenceClassification is");
  EXPECT_NE(complaint(with_class("LlamaForCausalLMEagle3")).find("a draft model"),
            std::string::npos);
}

// Llama 3.1 8B without its head of 128,256 rows of 4,096; a class and a reward have no bias, spans
// begin and end.
TEST(ModelConfig, AClassMayHaveAnotherHead) {
  const std::int64_t body = count(kLlama31) - 128'256LL * 4096;
  const auto with_class = [](const std::string& name, const std::string& labels) {
    return count(replaced(replaced(kLlama31, "LlamaForCausalLM", name), "\"hidden_act\"",
                          labels + "\"hidden_act\"")
                     .c_str());
  };
  EXPECT_EQ(with_class("LlamaForSequenceClassification", ""), body + 2 * 4096);
  EXPECT_EQ(with_class("LlamaForSequenceClassification", "\"num_labels\": 1, "), body + 4096);
  EXPECT_EQ(with_class("LlamaForTokenClassification",
                       "\"id2label\": {\"0\": \"O\", \"1\": \"B\", \"2\": \"I\"}, "),
            body + 3 * 4097);
  EXPECT_EQ(with_class("LlamaForQuestionAnswering", ""), body + 2 * 4097);
  EXPECT_EQ(with_class("LlamaModel", ""), body);
}

// Experts of a type whose row has none would be lost.
TEST(ModelConfig, PartsThatARowDoesNotHaveAreRefused) {
  EXPECT_EQ(complaint(replaced(kLlama31, "\"hidden_size\": 4096",
                               "\"hidden_size\": 4096, \"num_experts\": 8")),
            "config.json: num_experts = 8: experts are not known of this model_type");
  EXPECT_EQ(count(replaced(kLlama31, "\"hidden_size\": 4096",
                           "\"hidden_size\": 4096, \"num_experts\": 0")),
            count(kLlama31));
}

// MiniCPM-2B ties its tables without saying so; MiniCPM-MoE-8x2B is of the same type.
TEST(ModelConfig, MiniCpmTiesItsTables) {
  const std::string dense = R"({"model_type": "minicpm", "hidden_size": 2304,
    "intermediate_size": 5760, "max_position_embeddings": 2048, "num_attention_heads": 36,
    "num_hidden_layers": 40, "num_key_value_heads": 36, "vocab_size": 122753})";
  const std::int64_t layer = 4LL * 2304 * 2304 + 3LL * 2304 * 5760 + 2 * 2304;
  EXPECT_EQ(count(dense), 122753LL * 2304 + 40 * layer + 2304);  // 2.72 billion
  EXPECT_EQ(count(replaced(dense, "40,", "40, \"num_experts\": 8, \"num_experts_per_tok\": 2,")),
            count(dense) + 40 * (7LL * 3 * 2304 * 5760 + 8 * 2304));
}

// What became of the keys of a file: sizes, what nobody said, what no size depends on, what no row
// knows.
TEST(ModelConfig, EveryKeyIsReadAssumedOrIgnored) {
  const std::string path = testing::TempDir() + "keys.json";
  std::ofstream(path) << R"({"model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 2,
    "num_attention_heads": 32, "intermediate_size": 2048, "vocab_size": 1000, "rope_theta": 1000000, "rope_ratio": 1,
    "hidden_act": "silu", "bos_token_id": 1, "frobnicate": true})";
  std::map<std::string, std::string> outcomes;
  for (const sim::ModelKey& key : load_model_config(path).keys)
    outcomes[key.key] = key.outcome + ": " + key.why;
  EXPECT_EQ(outcomes["hidden_size"], "read: hidden_size");
  EXPECT_EQ(outcomes["head_dim"], "assumed: head_dim");
  EXPECT_EQ(outcomes["num_key_value_heads"], "assumed: num_kv_heads");
  EXPECT_EQ(outcomes["rope_theta"], "read: rope.base");
  EXPECT_EQ(outcomes["rope_ratio"], "ignored: how queries and keys are turned: the same cost");
  EXPECT_EQ(outcomes["bos_token_id"], "ignored: no size");
  EXPECT_EQ(outcomes["frobnicate"], "ignored: not known");
  EXPECT_FALSE(outcomes.contains("model_type"));
}

TEST(ModelConfig, NumbersThatPythonWritesAreNone) {
  EXPECT_EQ(count(replaced(kLlama31, "1e-05", "Infinity, \"a\": [0.0, -Infinity, NaN]").c_str()),
            8'030'261'248);
  EXPECT_EQ(complaint(replaced(kLlama1, "32000", "NaN")),
            "config.json: vocab_size = null: missing");
}

TEST(ModelConfig, MalformedJsonNamesTheLine) {
  EXPECT_EQ(complaint("{\"model_type\": \"llama\",\n\"vocab_size\": }")
                .rfind("config.json:2: malformed JSON", 0),
            0u);
  EXPECT_EQ(complaint("").rfind("config.json:1: malformed JSON", 0), 0u);
  EXPECT_EQ(complaint("[1, 2]"), "config.json: [1,2]: an object { ... } is expected");
}

TEST(ModelConfig, AFileThatCannotBeReadIsNamed) {
  for (const std::string path : {"no/such/config.json", "."}) {
    try {
      load_model_config(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), path + ": cannot be read");
    }
  }
}

// One to four bytes of a valid file are replaced by others.  Each result is a valid shape or one
// clear line, never another exception.
TEST(ModelConfig, MutatedFilesAreReadOrRefusedInOneLine) {
  std::mt19937 random(20240517);
  const auto pick = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const std::string alphabet = "0123456789-.eE\"{}[]:,ntfabcxyz_ \n\t\xff\x80\\";
  int refused = 0;
  for (const char* original :
       {kLlama31, kMistral, kQwenMoe, kGpt2Xl, kMpt, kGemma3, kDeepSeekV3, kGptOss, kScout}) {
    for (int round = 0; round < 500; ++round) {
      std::string text = original;
      for (std::size_t i = 0, n = 1 + pick(4); i < n; ++i)
        text[pick(text.size())] = alphabet[pick(alphabet.size())];
      try {
        EXPECT_GT(sim::parameters(read_model_config(text, "f.json")).total(), 0);
      } catch (const Error& error) {
        ++refused;
        const std::string message = error.what();
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        EXPECT_EQ(message.rfind("f.json", 0), 0u) << message;
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(ModelConfig, TruncatedFilesAreMalformed) {
  const std::string text = kDeepSeekV3;
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_NE(complaint(text.substr(0, length)).find("malformed JSON"), std::string::npos)
        << length;
  }
}

}  // namespace
}  // namespace llmsim::hwdb
