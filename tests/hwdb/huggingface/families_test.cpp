// Families that are read by a row of known parts, each with a file of a published model, or of a
// small one where none is known, and its exact count.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwdb/huggingface/huggingface.h"
#include "sim/model/parameters.h"
#include "tests/error_of.h"

namespace llmsim::hwdb {
namespace {

struct Family {
  std::string config;
  std::int64_t parameters;  // of the text part, without layers ahead
};

// A list of the kinds of layers that the letters name, over and over.
std::string layers(const std::string& letters, int times) {
  const std::map<char, std::string> kinds = {{'M', "mamba"},
                                             {'G', "global"},
                                             {'O', "local"},
                                             {'D', "dense"},
                                             {'S', "sparse"},
                                             {'A', "attention"},
                                             {'W', "sliding_attention"},
                                             {'F', "full_attention"},
                                             {'L', "linear_attention"}};
  std::string all;
  for (int i = 0; i < times; ++i) {
    for (const char letter : letters) {
      const auto kind = kinds.find(letter);
      all += all.empty() ? "" : ", ";
      all += kind == kinds.end() ? std::string(1, letter) : '"' + kind->second + '"';
    }
  }
  return '[' + all + ']';
}

void expect_counts(const std::vector<Family>& families) {
  for (const Family& family : families) {
    const sim::Parameters count = sim::parameters(read_model_config(family.config, "config.json"));
    EXPECT_EQ(count.total() - count.mtp, family.parameters) << family.config;
  }
}

// The tensors of mlx-lm's definition of each (ml-explore/mlx-lm mlx_lm/models), which are also the
// totals of the published weights where these are known.
TEST(Families, HaveTheParametersThatMlxLmGivesThem) {
  expect_counts({
      // Ling-lite
      {R"({"model_type": "bailing_moe", "hidden_size": 2048, "intermediate_size": 5632,
      "max_position_embeddings": 16384, "moe_intermediate_size": 1408, "num_experts": 64,
      "num_shared_experts": 2, "num_attention_heads": 16, "num_experts_per_tok": 6,
      "num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 126464,
      "first_k_dense_replace": 0, "use_bias": false, "use_qkv_bias": false,
      "tie_word_embeddings": false})",
       16'801'974'272},
      // Ling-mini-2.0
      {R"({"model_type": "bailing_moe_v2", "hidden_size": 2048, "intermediate_size": 5120,
      "max_position_embeddings": 32768, "moe_intermediate_size": 512, "num_experts": 256,
      "num_shared_experts": 1, "num_attention_heads": 16, "num_experts_per_tok": 8,
      "num_hidden_layers": 20, "num_key_value_heads": 4, "vocab_size": 157184,
      "first_k_dense_replace": 1, "use_bias": false, "use_qkv_bias": false,
      "use_qk_norm": true, "head_dim": 128, "n_group": 8, "topk_group": 4,
      "moe_router_enable_expert_bias": true, "num_nextn_predict_layers": 0,
      "tie_word_embeddings": false})",
       16'255'643'392},
      // ERNIE-4.5-21B-A3B, with the correction biases of its routers, 27 * 64
      {R"({"model_type": "ernie4_5_moe", "hidden_size": 2560, "intermediate_size": 12288,
      "max_position_embeddings": 131072, "moe_intermediate_size": 1536, "moe_k": 6,
      "moe_layer_interval": 1, "moe_layer_start_index": 1, "moe_num_experts": 64,
      "moe_num_shared_experts": 2, "moe_use_aux_free": true, "num_attention_heads": 20,
      "num_hidden_layers": 28, "num_key_value_heads": 4, "num_nextn_predict_layers": 1,
      "tie_word_embeddings": true, "use_bias": false, "vocab_size": 103424,
      "head_dim": 128})",
       21'825'437'888},
      // Granite 4.0 H Tiny
      {R"({"model_type": "granitemoehybrid", "hidden_size": 1536, "intermediate_size": 512,
      "num_hidden_layers": 40, "layer_types": )" +
           layers("MMMMMAMMMM", 4) +
           R"(, "max_position_embeddings": 131072, "num_attention_heads": 12,
      "num_key_value_heads": 4, "attention_bias": false, "num_local_experts": 64,
      "num_experts_per_tok": 6, "shared_intermediate_size": 1024, "mamba_n_heads": 48,
      "mamba_d_head": 64, "mamba_proj_bias": false, "mamba_d_state": 128,
      "mamba_d_conv": 4, "mamba_n_groups": 1, "mamba_conv_bias": true, "mamba_expand": 2,
      "position_embedding_type": "nope", "tie_word_embeddings": true,
      "vocab_size": 100352})",
       6'939'037'248},
      // Granite 4.0 H Micro
      {R"({"model_type": "granitemoehybrid", "hidden_size": 2048, "intermediate_size": 8192,
      "num_hidden_layers": 40, "layer_types": )" +
           layers("MMMMMAMMMM", 4) +
           R"(, "max_position_embeddings": 131072, "num_attention_heads": 32,
      "num_key_value_heads": 8, "attention_bias": false, "num_local_experts": 0,
      "num_experts_per_tok": 0, "shared_intermediate_size": 8192, "mamba_n_heads": 64,
      "mamba_d_head": 64, "mamba_proj_bias": false, "mamba_d_state": 128,
      "mamba_d_conv": 4, "mamba_n_groups": 1, "mamba_conv_bias": true, "mamba_expand": 2,
      "position_embedding_type": "nope", "tie_word_embeddings": true,
      "vocab_size": 100352})",
       3'191'396'096},
      // Phi-3.5-MoE
      {R"({"model_type": "phimoe", "attention_bias": true, "hidden_size": 4096,
      "intermediate_size": 6400, "lm_head_bias": true, "max_position_embeddings": 131072,
      "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
      "num_key_value_heads": 8, "num_local_experts": 16, "sliding_window": 131072,
      "tie_word_embeddings": false, "vocab_size": 32064})",
       41'873'153'344},
      // MiniCPM3-4B with a head of its own
      {R"({"model_type": "minicpm3", "hidden_size": 2560, "num_hidden_layers": 62,
      "intermediate_size": 6400, "num_attention_heads": 40, "num_key_value_heads": 40,
      "vocab_size": 73448, "q_lora_rank": 768, "qk_nope_head_dim": 64,
      "qk_rope_head_dim": 32, "kv_lora_rank": 256, "max_position_embeddings": 32768,
      "tie_word_embeddings": false})",
       4'261'902'848},
      // InternLM3-8B
      {R"({"model_type": "internlm3", "hidden_size": 4096, "num_hidden_layers": 48,
      "intermediate_size": 10240, "num_attention_heads": 32, "num_key_value_heads": 2,
      "head_dim": 128, "vocab_size": 128512, "bias": false, "qkv_bias": false,
      "max_position_embeddings": 32768, "tie_word_embeddings": false})",
       8'804'241'408},
      // EXAONE 3.0 7.8B
      {R"({"model_type": "exaone", "hidden_size": 4096, "num_layers": 32,
      "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
      "head_dim": 128, "vocab_size": 102400, "max_position_embeddings": 4096,
      "tie_word_embeddings": false})",
       7'818'448'896},
      // EXAONE 3.5 2.4B
      {R"({"model_type": "exaone", "hidden_size": 2560, "num_layers": 30,
      "intermediate_size": 7168, "num_attention_heads": 32, "num_key_value_heads": 8,
      "head_dim": 80, "vocab_size": 102400, "max_position_embeddings": 32768,
      "tie_word_embeddings": true})",
       2'405'327'360},
      // K-EXAONE-236B-A23B
      {R"({"model_type": "exaone_moe", "hidden_size": 6144, "num_hidden_layers": 48,
      "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_attention_heads": 64,
      "num_key_value_heads": 8, "head_dim": 128, "num_experts": 128,
      "num_experts_per_tok": 8, "num_shared_experts": 1, "first_k_dense_replace": 1,
      "n_group": 1, "topk_group": 1, "vocab_size": 153600, "sliding_window": 128,
      "sliding_window_pattern": "LLLG", "layer_types": )" +
           layers("WWWF", 12) +
           R"(, "max_position_embeddings": 262144, "num_nextn_predict_layers": 1,
      "tie_word_embeddings": false})",
       236'571'156'352},
      // GLM-4.7-Flash, without the layer ahead
      {R"({"model_type": "glm4_moe_lite", "vocab_size": 154880, "hidden_size": 2048,
      "intermediate_size": 10240, "moe_intermediate_size": 1536, "num_hidden_layers": 47,
      "num_attention_heads": 20, "num_key_value_heads": 20, "n_shared_experts": 1,
      "n_routed_experts": 64, "kv_lora_rank": 512, "q_lora_rank": 768,
      "qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "v_head_dim": 256,
      "num_experts_per_tok": 4, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
      "max_position_embeddings": 202752, "num_nextn_predict_layers": 1,
      "tie_word_embeddings": false, "attention_bias": false})",
       29'943'393'920},
      // Solar Open 100B
      {R"({"model_type": "solar_open", "vocab_size": 196608, "hidden_size": 4096,
      "moe_intermediate_size": 1280, "num_hidden_layers": 48, "num_attention_heads": 64,
      "num_key_value_heads": 8, "head_dim": 128, "n_shared_experts": 1,
      "n_routed_experts": 128, "num_experts_per_tok": 8, "first_k_dense_replace": 0,
      "max_position_embeddings": 131072, "tie_word_embeddings": false,
      "use_qk_norm": false, "n_group": 1, "topk_group": 1})",
       102'651'799'552},
      // nanochat, d20
      {R"({"model_type": "nanochat", "hidden_size": 1280, "num_hidden_layers": 20,
      "num_attention_heads": 10, "num_key_value_heads": 10, "vocab_size": 65536,
      "max_position_embeddings": 2048, "intermediate_size": 5120})",
       560'988'160},
      // of the size of TeleChat3-36B
      {R"({"model_type": "telechat3", "hidden_size": 6144, "intermediate_size": 24576,
      "max_position_embeddings": 32768, "num_attention_heads": 48, "num_hidden_layers": 64,
      "num_key_value_heads": 48, "vocab_size": 131072, "head_dim": 128,
      "tie_word_embeddings": false})",
       40'266'110'976},
      // Youtu-LLM-2B
      {R"({"model_type": "youtu_llm", "vocab_size": 128256, "hidden_size": 2048,
      "intermediate_size": 6144, "num_hidden_layers": 32, "num_attention_heads": 16,
      "num_key_value_heads": 16, "kv_lora_rank": 512, "q_lora_rank": 1536,
      "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128,
      "max_position_embeddings": 131072, "tie_word_embeddings": true})",
       1'961'560'064},
      // of the size of Mellum 2 12B
      {R"({"model_type": "mellum", "hidden_size": 2304, "num_hidden_layers": 28,
      "intermediate_size": 7168, "num_attention_heads": 32, "num_experts": 64,
      "num_experts_per_tok": 8, "moe_intermediate_size": 896, "vocab_size": 98304,
      "num_key_value_heads": 4, "head_dim": 128, "tie_word_embeddings": false,
      "max_position_embeddings": 131072, "sliding_window": 1024, "layer_types": )" +
           layers("WWWF", 7) + R"(})",
       12'149'923'072},
      // Mamba-Codestral-7B
      {R"({"model_type": "mamba2", "num_heads": 128, "head_dim": 64, "vocab_size": 32768,
      "hidden_size": 4096, "intermediate_size": 8192, "state_size": 128,
      "num_hidden_layers": 64, "conv_kernel": 4, "n_groups": 8, "use_bias": false,
      "use_conv_bias": true, "tie_word_embeddings": false, "chunk_size": 256})",
       7'285'403'648},
      // phixtral-2x2_8
      {R"({"model_type": "phi-msft", "n_embd": 2560, "n_head": 32, "n_layer": 32,
      "n_inner": null, "n_head_kv": null, "n_positions": 2048, "num_local_experts": 2,
      "num_experts_per_tok": 2, "vocab_size": 51200, "tie_word_embeddings": false})",
       4'457'978'880},
      // small
      {R"({"model_type": "phixtral", "num_vocab": 1000, "model_dim": 96, "num_heads": 4,
      "num_layers": 3, "num_experts_per_tok": 2, "num_local_experts": 5})",
       1'420'072},
      // of the size of PLaMo-13B
      {R"({"model_type": "plamo", "hidden_size": 5120, "num_hidden_layers": 40,
      "intermediate_size": 13824, "num_attention_heads": 40, "n_shared_head": 5,
      "vocab_size": 50432})",
       11'526'681'600},
      // of the size of Lille 130M
      {R"({"model_type": "lille-130m", "block_size": 512, "n_embd": 640, "n_head": 10,
      "n_kv_heads": 2, "n_layer": 24, "vocab_size": 32768})",
       127'171'200},
      // Hunyuan-A13B
      {R"({"model_type": "hunyuan_v1_moe", "vocab_size": 128167, "hidden_size": 4096,
      "num_hidden_layers": 32, "intermediate_size": 3072, "num_attention_heads": 32,
      "num_key_value_heads": 8, "attention_head_dim": 128, "head_dim": 128,
      "attention_bias": false, "moe_topk": )" +
           layers("8", 32) + R"(, "num_experts": 64, "num_shared_expert": )" + layers("1", 32) +
           R"(, "use_mixed_mlp_moe": true, "use_qk_norm": true, "use_cla": false,
      "moe_intermediate_size": 3072, "moe_layer_num_skipped": 0,
      "tie_word_embeddings": true, "max_position_embeddings": 32768})",
       80'393'183'232},
      // Mistral Small 3.1
      {R"({"model_type": "mistral3", "text_config": {"model_type": "mistral",
      "hidden_size": 5120, "head_dim": 128, "intermediate_size": 32768,
      "max_position_embeddings": 131072, "num_attention_heads": 32,
      "num_hidden_layers": 40, "num_key_value_heads": 8, "sliding_window": null,
      "vocab_size": 131072}})",
       23'572'403'200},
      // Ministral 3 14B
      {R"({"model_type": "mistral3", "text_config": {"model_type": "ministral3",
      "hidden_size": 5120, "head_dim": 128, "intermediate_size": 16384,
      "max_position_embeddings": 262144, "num_attention_heads": 32,
      "num_hidden_layers": 40, "num_key_value_heads": 8, "sliding_window": null,
      "vocab_size": 131072, "tie_word_embeddings": false}})",
       13'506'073'600},
      // Kimi-VL-A3B, whose text part need not say its type
      {R"({"model_type": "kimi_vl", "text_config": {"vocab_size": 163840,
      "max_position_embeddings": 131072, "hidden_size": 2048, "intermediate_size": 11264,
      "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
      "n_shared_experts": 2, "n_routed_experts": 64, "kv_lora_rank": 512,
      "q_lora_rank": null, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "qk_nope_head_dim": 128, "n_group": 1, "topk_group": 1, "num_experts_per_tok": 6,
      "moe_layer_freq": 1, "first_k_dense_replace": 1, "num_key_value_heads": 16}})",
       15'960'110'208},
      // Qwen2-VL-7B, whose file has no text_config
      {R"({"model_type": "qwen2_vl", "hidden_size": 3584, "intermediate_size": 18944,
      "max_position_embeddings": 32768, "max_window_layers": 28, "num_attention_heads": 28,
      "num_hidden_layers": 28, "num_key_value_heads": 4, "sliding_window": 32768,
      "tie_word_embeddings": false, "use_sliding_window": false, "vocab_size": 152064})",
       7'615'616'512},
      // DeepSeek-OCR, without MLA
      {R"({"model_type": "deepseek_vl_v2", "language_config": {"model_type": "deepseek_v2",
      "hidden_size": 1280, "intermediate_size": 6848, "kv_lora_rank": null,
      "q_lora_rank": null, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0,
      "use_mla": false, "num_attention_heads": 10, "num_key_value_heads": 10,
      "num_hidden_layers": 12, "n_routed_experts": 64, "n_shared_experts": 2,
      "num_experts_per_tok": 6, "moe_intermediate_size": 896, "first_k_dense_replace": 1,
      "n_group": 1, "topk_group": 1, "vocab_size": 129280,
      "max_position_embeddings": 8192}})",
       2'934'734'080},
      // small, as DeepSeek-VL2, whose routers have a bias: 12 parameters of three layers
      {R"({"model_type": "deepseek_vl_v2", "language_config": {"model_type": "deepseek_v2",
      "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 2, "moe_intermediate_size": 32,
      "n_shared_experts": 1, "n_routed_experts": 4, "num_experts_per_tok": 2,
      "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 1, "topk_group": 1,
      "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
      "qk_nope_head_dim": 16, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
      "max_position_embeddings": 1024}})",
       218'572},
      // small, with heads of each kind of layer
      {R"({"model_type": "laguna", "vocab_size": 10000, "hidden_size": 128,
      "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "head_dim": 32, "sliding_window": 4, "num_experts": 8,
      "num_experts_per_tok": 2, "moe_intermediate_size": 128,
      "shared_expert_intermediate_size": 128, "layer_types": ["full_attention",
      "sliding_attention", "sliding_attention", "sliding_attention"],
      "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
      "num_attention_heads_per_layer": [4, 6, 6, 6], "max_position_embeddings": 512})",
       4'238'488},
      // small, with windows by a word
      {R"({"model_type": "exaone4", "hidden_size": 128, "intermediate_size": 128,
      "num_attention_heads": 4, "vocab_size": 1000, "num_hidden_layers": 4,
      "max_position_embeddings": 1000, "num_key_value_heads": 2, "head_dim": 32,
      "tie_word_embeddings": false, "sliding_window": 8, "sliding_window_pattern": "LLGL"})",
       650'624},
      // small
      {R"({"model_type": "exaone_moe", "vocab_size": 1000, "hidden_size": 128,
      "intermediate_size": 256, "moe_intermediate_size": 64, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "num_experts": 4,
      "num_experts_per_tok": 2, "num_shared_experts": 1, "n_group": 1, "topk_group": 1,
      "sliding_window": 32, "max_position_embeddings": 1000,
      "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention",
      "full_attention"], "is_moe_layer": [false, true, true, true],
      "tie_word_embeddings": false})",
       922'508},
      // small, with the sizes of its class
      {R"({"model_type": "youtu_llm", "vocab_size": 1000, "hidden_size": 128,
      "intermediate_size": 128, "num_hidden_layers": 4, "kv_lora_rank": 128,
      "q_lora_rank": 256})",
       6'848'128},
      // small, with an MLP in its first layer
      {R"({"model_type": "qwen3_next", "hidden_size": 128, "num_hidden_layers": 4,
      "intermediate_size": 128, "num_attention_heads": 8, "num_key_value_heads": 4,
      "vocab_size": 1000, "linear_num_value_heads": 4, "linear_num_key_heads": 4,
      "linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 3,
      "num_experts": 4, "num_experts_per_tok": 2, "decoder_sparse_step": 1,
      "shared_expert_intermediate_size": 128, "mlp_only_layers": [0],
      "moe_intermediate_size": 128, "head_dim": 64, "max_position_embeddings": 1000})",
       1'560'184},
  });
}

// The tensors of the modeling files of transformers, or of the publisher, added up, which are also
// the totals of the published weights where these are known; the decoder of a model that sees or
// hears is one that was published alone before.
TEST(Families, HaveTheParametersThatTransformersGivesThem) {
  expect_counts({
      // InternLM 7B
      {R"({"model_type": "internlm", "hidden_size": 4096, "intermediate_size": 11008,
      "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 103168,
      "bias": true, "max_position_embeddings": 2048, "tie_word_embeddings": false})",
       7'321'948'160},
      // Orion 14B
      {R"({"model_type": "orion", "hidden_size": 5120, "intermediate_size": 15360,
      "num_attention_heads": 40, "num_key_value_heads": 40, "num_hidden_layers": 40,
      "vocab_size": 84608, "max_position_embeddings": 4096, "tie_word_embeddings": false})",
       14'498'703'360},
      // Grok-1, with the head of its class
      {R"({"model_type": "grok-1", "hidden_size": 6144, "intermediate_size": 32768,
      "num_attention_heads": 48, "num_key_value_heads": 8, "num_hidden_layers": 64,
      "vocab_size": 131072, "max_position_embeddings": 8192, "num_experts": 8,
      "num_experts_per_tok": 2})",
       315'684'820'992},
      // Falcon 7B, as its first files name it
      {R"({"model_type": "RefinedWebModel", "alibi": false, "bias": false, "hidden_size": 4544,
      "multi_query": true, "n_head": 71, "n_layer": 32, "parallel_attn": true,
      "vocab_size": 65024})",
       6'921'720'704},
      // Falcon 40B, as its first files name it
      {R"({"model_type": "RefinedWeb", "alibi": false, "bias": false, "hidden_size": 8192,
      "n_head": 128, "n_head_kv": 8, "n_layer": 60, "parallel_attn": true,
      "vocab_size": 65024})",
       41'303'293'952},
      // Cosmos 3 Edge, with the sizes of its class
      {R"({"model_type": "cosmos3_edge", "text_config": {"model_type": "cosmos3_edge_text",
      "max_position_embeddings": 131072}})",
       1'946'273'792},
      // CWM 32B
      {R"({"model_type": "cwm", "hidden_size": 6144, "intermediate_size": 21504,
      "num_hidden_layers": 64, "num_attention_heads": 48, "num_key_value_heads": 8,
      "head_dim": 128, "max_position_embeddings": 131072, "vocab_size": 128256,
      "sliding_window": 8192, "layer_types": )" +
           layers("FWWW", 16) + R"(, "tie_word_embeddings": false})",
       32'581'097'472},
      // Ministral 8B, whose first layer of each four sees everything
      {R"({"model_type": "ministral", "hidden_size": 4096, "intermediate_size": 12288,
      "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
      "head_dim": 128, "vocab_size": 131072, "max_position_embeddings": 32768,
      "sliding_window": 32768, "layer_types": )" +
           layers("FWWW", 9) + R"(, "tie_word_embeddings": false})",
       8'019'808'256},
      // Muse Glimmer 30B, with the sizes of its class
      {R"({"model_type": "muse_glimmer", "text_config": {"model_type": "muse_glimmer_text",
      "head_dim": 128}})",
       27'854'780'928},
      // of the size of HunyuanOCR
      {R"({"model_type": "hunyuan_vl", "text_config": {"model_type": "hunyuan_vl_text",
      "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24,
      "num_attention_heads": 16, "num_key_value_heads": 8, "attention_head_dim": 128,
      "vocab_size": 120818, "max_position_embeddings": 32768}})",
       539'010'048},
      // Emu3, with the sizes of its class
      {R"({"model_type": "emu3", "text_config": {"model_type": "emu3_text_model",
      "max_position_embeddings": 9216}, "vq_config": {}})",
       8'492'011'520},
      // Granite Swash 2B
      {R"({"model_type": "granite_swa", "hidden_size": 2560, "intermediate_size": 8192,
      "num_hidden_layers": 24, "num_attention_heads": 20, "num_key_value_heads": 4,
      "max_position_embeddings": 8192, "vocab_size": 100352, "sliding_window": 128,
      "layer_types": )" +
           layers("FWWW", 6) + R"(, "tie_word_embeddings": true})",
       2'144'463'840},
      // small
      {R"({"model_type": "granitemoe_swa", "hidden_size": 512, "intermediate_size": 96,
      "shared_intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 8,
      "num_key_value_heads": 2, "num_local_experts": 10, "num_experts_per_tok": 3,
      "vocab_size": 2000, "max_position_embeddings": 512, "tie_word_embeddings": true})",
       10'551'840},
      // GPT-Neo 125M
      {R"({"model_type": "gpt_neo", "attention_layers": )" + layers("GO", 6) +
           R"(, "hidden_size": 768, "intermediate_size": null, "max_position_embeddings": 2048,
      "num_heads": 12, "num_layers": 12, "vocab_size": 50257, "window_size": 256})",
       125'198'592},
      // Hy3-preview
      {R"({"model_type": "hy_v3", "vocab_size": 120832, "hidden_size": 4096,
      "intermediate_size": 13312, "num_hidden_layers": 80, "num_attention_heads": 64,
      "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072,
      "num_experts": 192, "num_experts_per_tok": 8, "num_shared_experts": 1,
      "moe_intermediate_size": 1536, "tie_word_embeddings": false})",
       295'033'543'488},
      // HyperCLOVA X SEED Think 14B
      {R"({"model_type": "hyperclovax", "hidden_size": 6144, "intermediate_size": 14336,
      "num_hidden_layers": 38, "num_attention_heads": 48, "num_key_value_heads": 8,
      "head_dim": 128, "vocab_size": 110592, "use_post_norm": true,
      "max_position_embeddings": 131072, "tie_word_embeddings": false})",
       14'748'112'896},
      // small
      {R"({"model_type": "cohere2_moe", "hidden_size": 256, "intermediate_size": 80,
      "prefix_dense_intermediate_size": 300, "num_hidden_layers": 5,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 48,
      "vocab_size": 1000, "num_experts": 6, "num_experts_per_tok": 2,
      "num_shared_experts": 2, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse",
      "sparse"], "layer_types": )" +
           layers("F", 5) + R"(, "max_position_embeddings": 512})",
       3'197'440},
      // GLM-OCR, with the sizes of its class
      {R"({"model_type": "glm_ocr", "text_config": {"model_type": "glm_ocr_text",
      "head_dim": 128, "num_nextn_predict_layers": 1}})",
       423'691'264},
      // Aria
      {R"({"model_type": "aria", "text_config": {"model_type": "aria_text",
      "hidden_size": 2560, "intermediate_size": 1664, "num_hidden_layers": 28,
      "num_attention_heads": 20, "num_key_value_heads": 20, "vocab_size": 100352,
      "moe_num_experts": 64, "moe_topk": 6, "moe_num_shared_experts": 2,
      "max_position_embeddings": 65536}})",
       24'869'091'840},
      // FlexOlmo-7x7B-1T
      {R"({"model_type": "flex_olmo", "hidden_size": 4096, "intermediate_size": 11008,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
      "vocab_size": 100352, "num_experts": 7, "num_experts_per_tok": 5,
      "tie_word_embeddings": false, "max_position_embeddings": 4096})",
       33'270'665'216},
      // small
      {R"({"model_type": "granitemoeshared", "hidden_size": 512, "intermediate_size": 96,
      "shared_intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 8,
      "num_key_value_heads": 2, "num_local_experts": 10, "num_experts_per_tok": 3,
      "vocab_size": 2000, "max_position_embeddings": 512, "tie_word_embeddings": true})",
       10'551'808},
      // Jais-2-8B
      {R"({"model_type": "jais2", "hidden_size": 3328, "intermediate_size": 26624,
      "num_hidden_layers": 32, "num_attention_heads": 26, "num_key_value_heads": 26,
      "head_dim": 128, "max_position_embeddings": 8192, "vocab_size": 150272,
      "attention_bias": true, "mlp_bias": true, "tie_word_embeddings": false})",
       8'090'401'280},
      // small
      {R"({"model_type": "mistral4", "hidden_size": 512, "intermediate_size": 640,
      "moe_intermediate_size": 96, "num_hidden_layers": 5, "num_attention_heads": 8,
      "num_key_value_heads": 8, "n_routed_experts": 12, "n_shared_experts": 1,
      "num_experts_per_tok": 3, "first_k_dense_replace": 2, "q_lora_rank": 80,
      "kv_lora_rank": 48, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 40,
      "vocab_size": 3000, "n_group": 1, "topk_group": 1, "max_position_embeddings": 1024,
      "tie_word_embeddings": false})",
       12'206'208},
      // OLMo Hybrid 7B
      {R"({"model_type": "olmo_hybrid", "hidden_size": 3840, "intermediate_size": 11008,
      "num_hidden_layers": 32, "num_attention_heads": 30, "num_key_value_heads": 30,
      "max_position_embeddings": 65536, "vocab_size": 100352, "layer_types": )" +
           layers("LLLF", 8) + R"(, "linear_num_key_heads": 30, "linear_num_value_heads": 30,
      "linear_key_head_dim": 96, "linear_value_head_dim": 192, "linear_conv_kernel_dim": 4,
      "tie_word_embeddings": false})",
       7'430'870'688},
      // Persimmon 8B
      {R"({"model_type": "persimmon", "hidden_size": 4096, "intermediate_size": 16384,
      "max_position_embeddings": 16384, "num_attention_heads": 64, "num_hidden_layers": 36,
      "qk_layernorm": true, "tie_word_embeddings": false, "vocab_size": 262144})",
       9'397'175'296},
      // BioGPT
      {R"({"model_type": "biogpt", "hidden_size": 1024, "intermediate_size": 4096,
      "max_position_embeddings": 1024, "num_attention_heads": 16, "num_hidden_layers": 24,
      "vocab_size": 42384})",
       346'763'264},
      // CodeGen 350M
      {R"({"model_type": "codegen", "n_embd": 1024, "n_head": 16, "n_layer": 20,
      "n_inner": null, "n_positions": 2048, "vocab_size": 51200,
      "tie_word_embeddings": false})",
       356'712'448},
      // VaultGemma 1B
      {R"({"model_type": "vaultgemma", "hidden_size": 1152, "intermediate_size": 6912,
      "num_hidden_layers": 26, "num_attention_heads": 4, "num_key_value_heads": 4,
      "head_dim": 256, "vocab_size": 256000, "max_position_embeddings": 1024,
      "sliding_window": 512, "layer_types": )" +
           layers("WF", 13) + R"(})",
       1'038'741'120},
      // MiniMax-Text-01
      {R"({"model_type": "minimax_text_01", "hidden_size": 6144, "intermediate_size": 9216,
      "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
      "head_dim": 128, "vocab_size": 200064, "num_local_experts": 32,
      "num_experts_per_tok": 2, "attn_type_list": )" +
           layers("00000001", 10) +
           R"(, "shared_intermediate_size": 0, "max_position_embeddings": 10240000,
      "tie_word_embeddings": false})",
       456'089'655'296},
      // MiniMax-Text-01-hf
      {R"({"model_type": "minimax", "hidden_size": 6144, "intermediate_size": 9216,
      "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
      "head_dim": 128, "vocab_size": 200064, "num_local_experts": 32,
      "num_experts_per_tok": 2, "layer_types": )" +
           layers("LLLLLLLF", 10) +
           R"(, "max_position_embeddings": 10240000, "tie_word_embeddings": false})",
       456'089'655'296},
      // XGLM 564M
      {R"({"model_type": "xglm", "d_model": 1024, "ffn_dim": 4096, "attention_heads": 16,
      "num_layers": 24, "max_position_embeddings": 2048, "vocab_size": 256008})",
       564'463'616},
      // MiniCPM-V 2.6: Qwen2-7B with 151,666 rows
      {R"({"hidden_size": 3584, "intermediate_size": 18944, "max_position_embeddings": 32768,
      "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
      "tie_word_embeddings": false, "vocab_size": 151666, "model_type": "minicpmv",
      "version": 2.6})",
       7'612'763'648},
      // Janus-Pro-7B: DeepSeek LLM 7B
      {R"({"model_type": "multi_modality", "language_config": {"model_type": "llama",
      "max_position_embeddings": 16384, "num_hidden_layers": 30, "vocab_size": 102400}})",
       6'910'365'696},
      // BLIP-2 with OPT-2.7B
      {R"({"model_type": "blip-2", "text_config": {"model_type": "opt", "ffn_dim": 10240,
      "hidden_size": 2560, "num_attention_heads": 32, "num_hidden_layers": 32,
      "word_embed_proj_dim": 2560}})",
       2'651'596'800},
      // Qwen3-Omni-30B-A3B: Qwen3-30B-A3B with 152,064 rows
      {R"({"model_type": "qwen3_omni_moe", "thinker_config": {"audio_config": {"d_model": 8},
      "text_config": {"model_type": "qwen3_omni_moe_text", "hidden_size": 2048,
      "head_dim": 128, "intermediate_size": 768, "moe_intermediate_size": 768,
      "num_attention_heads": 32, "num_hidden_layers": 48, "num_key_value_heads": 4,
      "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 152064,
      "max_position_embeddings": 65536}}, "talker_config": {}})",
       30'532'646'912},
      // GLM-4.1V-9B
      {R"({"model_type": "glm4v", "text_config": {"model_type": "glm4v_text",
      "attention_bias": true, "hidden_size": 4096, "intermediate_size": 13696,
      "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 2,
      "vocab_size": 151552, "max_position_embeddings": 65536},
      "tie_word_embeddings": false})",
       9'400'279'040},
      // GLM-4.5V: GLM-4.5-Air
      {R"({"model_type": "glm4v_moe", "text_config": {"model_type": "glm4v_moe_text",
      "attention_bias": true, "head_dim": 128, "hidden_size": 4096,
      "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 128,
      "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 1,
      "n_group": 1, "topk_group": 1, "num_attention_heads": 96, "num_hidden_layers": 46,
      "num_key_value_heads": 8, "vocab_size": 151552, "max_position_embeddings": 65536},
      "tie_word_embeddings": false})",
       106'852'251'264},
  });
}

// Nothing that changes the shape is passed over in silence.
TEST(Families, WhatTheyCannotHaveIsRefused) {
  const auto complaint = [](const std::string& more) {
    return error_of([&] {
      read_model_config(R"({"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4,
      "intermediate_size": 128, "vocab_size": 1000, "max_position_embeddings": 512, )" +
                            more + "}",
                        "f");
    });
  };
  EXPECT_EQ(
      complaint(R"("model_type": "hunyuan_v1_moe", "num_experts": [4, 4, 2, 2], "moe_topk": 2)"),
      "f: num_experts = [4,4,2,2]: only the same number in all layers is modelled");
  EXPECT_EQ(
      complaint(R"("model_type": "hunyuan", "num_experts": 4, "moe_topk": 2, "use_cla": true)"),
      "f: use_cla = true: layers that have no keys and values of their own are not modelled");
  EXPECT_EQ(complaint(R"("model_type": "minimax_text_01", "attn_type_list": [0, 0, 0, 1],
                         "shared_intermediate_size": 32)"),
            "f: shared_intermediate_size = 32: a shared expert with a coefficient of its own is "
            "not modelled");
  EXPECT_EQ(complaint(R"("model_type": "bailing_moe", "num_experts": 4, "num_experts_per_tok": 2,
                         "moe_intermediate_size": 32, "multi_gate": true)"),
            "f: multi_gate = true: routers of their own for images and sound are not modelled");
  EXPECT_EQ(complaint(R"("model_type": "minicpmv", "version": 9.5)"),
            "f: version = 9.5: its decoder is known of 2.5, 2.6, 4.0 and 4.5 alone");
  EXPECT_EQ(complaint(R"("model_type": "gpt_neo", "num_heads": 4, "num_layers": 4,
                         "attention_types": [[["local"], 4]])"),
            "f: attention_types = [[[\"local\"],4]]: the kinds of layers are read from "
            "attention_layers, a list of global and local");
}

// A LLaVA around a text part of that type and keys, neither of them tied.
std::string inside_llava(const std::string& text) {
  return R"({"model_type": "llava", "tie_word_embeddings": false, "text_config":
      {"tie_word_embeddings": false, "model_type": )" +
         text + "}}";
}

// What transformers' classes have, built without weights (torch's device "meta"), of files that leave
// sizes to these.
TEST(Families, HaveTheSizesOfTheirClassWhereATextConfigLeavesThemOut) {
  expect_counts(
      {{inside_llava(R"("mixtral", "num_hidden_layers": 2, "vocab_size": 1000)"), 2'910'736'384},
       {inside_llava(
            R"("gpt_oss", "num_hidden_layers": 2, "vocab_size": 1000, "num_local_experts": 4)"),
        258'032'456},
       {inside_llava(R"("llama4_text", "num_hidden_layers": 2, "vocab_size": 1000)"),
        4'414'448'640},
       {inside_llava(
            R"("deepseek_v3", "num_hidden_layers": 2, "vocab_size": 1000,
                "first_k_dense_replace": 1)"),
        12'105'112'832},
       {inside_llava(
            R"("deepseek_v32", "num_hidden_layers": 2, "vocab_size": 1000,
                "mlp_layer_types": ["dense", "sparse"])"),
        12'133'031'680},
       {inside_llava(R"("glm4_moe_lite", "num_hidden_layers": 2, "vocab_size": 1000)"),
        724'087'360},
       {inside_llava(
            R"("qwen3_next", "num_hidden_layers": 2, "vocab_size": 1000,
                "layer_types": ["linear_attention", "full_attention"])"),
        3'294'706'368},
       {inside_llava(R"("minimax_m2", "num_hidden_layers": 2, "vocab_size": 1000)"), 7'343'584'768},
       {inside_llava(R"("olmoe", "num_hidden_layers": 2, "vocab_size": 1000)"), 1'648'543'744},
       {inside_llava(
            R"("afmoe", "num_hidden_layers": 2, "vocab_size": 1000, "num_dense_layers": 1)"),
        654'887'488},
       {inside_llava(R"("exaone4", "num_hidden_layers": 2, "vocab_size": 1000)"), 545'083'904},
       {inside_llava(R"("ernie4_5", "num_hidden_layers": 2, "vocab_size": 1000)"), 30'364'672},
       {inside_llava(R"("qwen3_vl_moe_text", "num_hidden_layers": 2, "vocab_size": 1000)"),
        1'075'997'184},
       {inside_llava(R"("hy_v3", "num_hidden_layers": 2, "vocab_size": 1000)"), 3'966'325'440},
       {inside_llava(R"("gpt2", "n_layer": 2)"), 92'158'464},
       {inside_llava(R"("cohere2", "num_hidden_layers": 4, "vocab_size": 1000)"), 3'304'759'296},
       {R"({"model_type": "voxtral", "text_config": {"model_type": "llama", "vocab_size": 131072,
      "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 30,
      "num_attention_heads": 32, "num_key_value_heads": 8, "tie_word_embeddings": false},
      "tie_word_embeddings": false})",
        4'014'136'320}});
}

// The same of small files: sizes of heads that a class works out or states, biases, lists of kinds
// of layers that newer files have in place of numbers, classes of one type that differ.
TEST(Families, HaveTheParametersThatTransformersGivesSmallFiles) {
  expect_counts(
      {{R"({"model_type": "qwen3_moe", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "moe_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 2})",
        474'816},
       {R"({"model_type": "glm4_moe", "vocab_size": 1000, "hidden_size": 90, "intermediate_size":
      96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
      "max_position_embeddings": 128, "tie_word_embeddings": false, "moe_intermediate_size": 48,
      "n_routed_experts": 8, "num_experts_per_tok": 2, "first_k_dense_replace": 1})",
        653'874},
       {R"({"model_type": "ernie4_5", "vocab_size": 1000, "hidden_size": 64, "intermediate_size":
      96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
      "max_position_embeddings": 128, "tie_word_embeddings": false})",
        595'520},
       {R"({"model_type": "minimax_m2", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "num_local_experts": 8, "num_experts_per_tok": 2})",
        1'116'768},
       {R"({"model_type": "llama4_text", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "intermediate_size_mlp": 128, "num_local_experts": 4, "attention_chunk_size": 32})",
        891'456},
       {R"({"model_type": "gpt2", "vocab_size": 1000, "n_embd": 64, "n_layer": 2, "n_head": 4})",
        229'632},
       {R"({"model_type": "qwen2_moe", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "moe_intermediate_size": 48, "num_experts": 8, "num_experts_per_tok": 2,
      "shared_expert_intermediate_size": 40, "qkv_bias": false})",
        505'664},
       {R"({"model_type": "laguna", "vocab_size": 1000, "hidden_size": 64, "intermediate_size":
      96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
      "max_position_embeddings": 128, "tie_word_embeddings": false, "moe_intermediate_size": 48,
      "num_experts": 8, "num_experts_per_tok": 2, "head_dim": 16,
      "shared_expert_intermediate_size": 40, "gating": false, "layer_types": ["full_attention",
      "full_attention", "full_attention", "full_attention"], "mlp_layer_types": ["dense",
      "sparse", "sparse", "sparse"]})",
        458'456},
       {R"({"model_type": "qwen3_5_text", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "head_dim": 16, "attention_bias": true, "linear_num_key_heads": 2,
      "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
      "layer_types": ["linear_attention", "linear_attention", "linear_attention",
      "full_attention"]})",
        271'272},
       {R"({"model_type": "mimo_v2_flash", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "head_dim": 24, "v_head_dim": 16, "moe_intermediate_size": 48, "n_routed_experts": 8,
      "num_experts_per_tok": 2, "sliding_window": 16, "layer_types": ["full_attention",
      "sliding_attention", "full_attention", "sliding_attention"], "mlp_layer_types": ["dense",
      "sparse", "sparse", "sparse"]})",
        441'440},
       {R"({"model_type": "deepseek_v32", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "moe_intermediate_size": 48, "n_routed_experts": 8, "n_shared_experts": 1,
      "num_experts_per_tok": 2, "kv_lora_rank": 32, "q_lora_rank": 24, "qk_nope_head_dim": 16,
      "qk_rope_head_dim": 8, "v_head_dim": 12, "n_group": 1, "topk_group": 1, "index_topk": 8,
      "index_n_heads": 4, "index_head_dim": 16, "mlp_layer_types": ["dense", "dense", "sparse",
      "sparse"], "first_k_dense_replace": 3})",
        396'208},
       {R"({"model_type": "deepseek_v3", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "moe_intermediate_size": 48, "n_routed_experts": 8, "n_shared_experts": 1,
      "num_experts_per_tok": 2, "kv_lora_rank": 32, "q_lora_rank": null, "qk_nope_head_dim": 16,
      "qk_rope_head_dim": 8, "v_head_dim": 12, "n_group": 1, "topk_group": 1,
      "first_k_dense_replace": 1, "attention_bias": true})",
        459'384},
       {R"({"model_type": "hyperclovax", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false})",
        251'968},
       {R"({"model_type": "bert", "architectures": ["BertLMHeadModel"], "vocab_size": 1000,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads":
      4, "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": true})",
        195'112},
       {R"({"model_type": "helium", "vocab_size": 1000, "hidden_size": 64, "intermediate_size":
      96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
      "max_position_embeddings": 128, "tie_word_embeddings": false, "head_dim": 16,
      "attention_bias": true})",
        251'968},
       {R"({"model_type": "minimax", "architectures": ["MiniMaxForCausalLM"], "vocab_size": 1000,
      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads":
      4, "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16, "layer_types":
      ["full_attention", "full_attention", "full_attention", "full_attention"]})",
        473'664},
       {R"({"model_type": "minimax_m3_vl", "text_config": {"model_type": "minimax_m3_vl_text",
      "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
      "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
      "tie_word_embeddings": false, "head_dim": 16, "num_local_experts": 4,
      "num_experts_per_tok": 2, "dense_intermediate_size": 128, "shared_intermediate_size": 40,
      "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "layer_types":
      ["full_attention", "full_attention", "full_attention", "full_attention"]},
      "vision_config": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
      "num_attention_heads": 4, "image_size": 56, "patch_size": 14}, "tie_word_embeddings":
      false})",
        447'436},
       {R"({"model_type": "nemotron_h", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2,
      "max_position_embeddings": 128, "tie_word_embeddings": false, "mamba_num_heads": 8,
      "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4, "chunk_size":
      16, "head_dim": 16, "layers_block_type": ["linear_attention", "mlp", "full_attention",
      "mlp"]})",
        195'480},
       {R"({"model_type": "granitemoehybrid", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "layer_types": ["linear_attention", "full_attention", "linear_attention",
      "full_attention"], "num_local_experts": 4, "num_experts_per_tok": 2,
      "shared_intermediate_size": 40, "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups":
      1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2})",
        535'984},
       {R"({"model_type": "qwen3_5_text", "vocab_size": 1000, "hidden_size": 64,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 128, "tie_word_embeddings": false,
      "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
      "linear_key_head_dim": 16, "linear_value_head_dim": 16, "layer_types": ["full_attention",
      "full_attention", "full_attention", "full_attention"]})",
        267'968}});
}

}  // namespace
}  // namespace llmsim::hwdb
