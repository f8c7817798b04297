// Models with layers of other kinds than attention and an MLP, each with the shape of a published
// file and its exact count.
#include <cstdint>
#include <string>
#include <variant>

#include <nlohmann/json.hpp>

#include "gtest/gtest.h"
#include "hwdb/huggingface/huggingface.h"
#include "hwdb/runs/run_record.h"
#include "hwdb/runs/run_resolver.h"
#include "hwdb/store/database.h"
#include "sim/base/field.h"
#include "sim/model/parameters.h"

namespace llmsim::hwdb {
namespace {

struct Published {
  const char* config;
  std::int64_t parameters;  // of the text part, without layers ahead
};

// A run of the model as its fields have it.
std::string run_of(const sim::Transformer& model) {
  nlohmann::json run = {
      {"schema", 2},
      {"id", "new"},
      {"hardware", {{"accelerator", "h100_sxm"}, {"num_devices", 1}}},
      {"training", {{"framework", "megatron-lm"}, {"micro_batch", 1}, {"global_batch", 8}}}};
  for (const auto& [key, value] : sim::fields_of(model))
    std::visit([&](const auto& is) { sim::place_of(run["model"], key) = is; }, value);
  return run.dump();
}

// The totals of the published weights, or of ml-explore/mlx-lm's definition of the model
// (mlx_lm/models), which has no layers ahead and no vision part.
TEST(NewLayers, HaveTheParametersOfPublishedModels) {
  static const Database database(":memory:");
  const Published all[] = {
      // moonshotai/Kimi-Linear-48B-A3B-Base, Kimi delta attention and MLA without positions
      {R"({"model_type": "kimi_linear", "vocab_size": 163840, "hidden_size": 2304, "num_hidden_layers":
      27, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 9216, "head_dim":
      72, "linear_attn_config": {"head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4,
      "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13,
      14, 15, 17, 18, 19, 21, 22, 23, 25, 26]}, "model_max_length": 1048576, "num_experts": 256,
      "moe_intermediate_size": 1024, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim":
      64, "v_head_dim": 128, "mla_use_nope": true, "num_experts_per_token": 8, "num_shared_experts":
      1, "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_expert_group": 1, "topk_group": 1,
      "tie_word_embeddings": false})",
       49'122'681'728},
      // LiquidAI/LFM2-1.2B, short convolutions; the width of the MLP is two thirds, rounded up
      {R"({"model_type": "lfm2", "vocab_size": 65536, "hidden_size": 2048, "num_hidden_layers": 16,
      "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 128000,
      "conv_bias": false, "conv_L_cache": 3, "block_dim": 2048, "block_ff_dim": 12288,
      "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": true,
      "full_attn_idxs": [2, 5, 8, 10, 12, 14]})",
       1'170'340'608},
      // LiquidAI/LFM2-350M
      {R"({"model_type": "lfm2", "vocab_size": 65536, "hidden_size": 1024, "num_hidden_layers": 16,
      "num_attention_heads": 16, "num_key_value_heads": 8, "max_position_embeddings": 128000,
      "conv_bias": false, "conv_L_cache": 3, "block_dim": 1024, "block_ff_dim": 6656,
      "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": true,
      "full_attn_idxs": [2, 5, 8, 10, 12, 14]})",
       354'483'968},
      // LiquidAI/LFM2-8B-A1B
      {R"({"model_type": "lfm2_moe", "vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 7168,
      "moe_intermediate_size": 1792, "num_hidden_layers": 24, "num_experts": 32,
      "num_experts_per_tok": 4, "num_attention_heads": 32, "num_key_value_heads": 8,
      "max_position_embeddings": 128000, "use_expert_bias": true, "num_dense_layers": 2, "conv_bias":
      false, "conv_L_cache": 3, "layer_types": ["conv", "conv", "full_attention", "conv", "conv",
      "conv", "full_attention", "conv", "conv", "conv", "full_attention", "conv", "conv", "conv",
      "full_attention", "conv", "conv", "conv", "full_attention", "conv", "conv", "full_attention",
      "conv", "conv"]})",
       8'339'930'560},
      // tiiuae/Falcon-H1-0.5B-Base, attention and Mamba-2 side by side
      {R"({"model_type": "falcon_h1", "vocab_size": 32784, "hidden_size": 1024, "intermediate_size": 2048,
      "num_hidden_layers": 36, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
      "mamba_d_ssm": 1536, "mamba_d_state": 128, "mamba_d_head": 64, "mamba_n_heads": 24,
      "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_chunk_size": 128, "mamba_rms_norm": false,
      "max_position_embeddings": 16384, "tie_word_embeddings": false})",
       521'411'104},
      // swiss-ai/Apertus-8B-2509, xIELU
      {R"({"model_type": "apertus", "hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size":
      21504, "mlp_bias": false, "num_attention_heads": 32, "attention_bias": false, "vocab_size":
      131072, "num_key_value_heads": 8, "max_position_embeddings": 65536, "post_norm": false,
      "qk_norm": true, "tie_word_embeddings": false})",
       8'053'338'176},
      // XiaomiMiMo/MiMo-V2-Flash, values narrower than keys, windows with more key/value heads
      {R"({"model_type": "mimo_v2_flash", "num_experts_per_tok": 8, "hybrid_layer_pattern": [0, 1, 1, 1,
      1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0,
      1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0], "moe_layer_freq": [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1], "add_swa_attention_sink_bias": true, "add_full_attention_sink_bias": false,
      "sliding_window_size": 128, "vocab_size": 152576, "hidden_size": 4096, "intermediate_size":
      16384, "moe_intermediate_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 64,
      "num_key_value_heads": 4, "n_routed_experts": 256, "n_group": 1, "topk_group": 1,
      "max_position_embeddings": 262144, "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8,
      "head_dim": 192, "v_head_dim": 128, "swa_head_dim": 192, "swa_v_head_dim": 128,
      "tie_word_embeddings": false})",
       308'778'780'864},
      // stepfun-ai/Step-3.5-Flash, windows with more heads, a gate for each head
      {R"({"model_type": "step3p5", "hidden_size": 4096, "num_hidden_layers": 45, "vocab_size": 128896,
      "num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128, "intermediate_size":
      11264, "sliding_window": 512, "layer_types": ["full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention"], "attention_other_setting":
      {"attention_type": "sliding_attention", "num_attention_heads": 96, "num_attention_groups": 8,
      "head_dim": 128}, "use_head_wise_attn_gate": true, "moe_num_experts": 288, "moe_top_k": 8,
      "moe_intermediate_size": 1280, "share_expert_dim": 1280, "moe_layers_enum":
      "3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44",
      "max_position_embeddings": 262144})",
       196'956'130'368},
      // arcee-ai/Trinity-Mini, gated attention, windows in three of four layers
      {R"({"model_type": "afmoe", "vocab_size": 200192, "hidden_size": 2048, "intermediate_size": 6144,
      "moe_intermediate_size": 1024, "num_hidden_layers": 32, "num_attention_heads": 32,
      "num_key_value_heads": 4, "head_dim": 128, "layer_types": ["sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "full_attention"], "num_experts": 128,
      "num_experts_per_tok": 8, "num_shared_experts": 1, "num_dense_layers": 2, "sliding_window":
      2048, "max_position_embeddings": 131072})",
       26'123'974'400},
      // inclusionAI/Ring-mini-linear-2.0, lightning attention in four of five layers
      {R"({"model_type": "bailing_moe_linear", "hidden_size": 2048, "intermediate_size": 5120,
      "max_position_embeddings": 131072, "moe_intermediate_size": 512, "num_experts": 256,
      "num_shared_experts": 1, "num_attention_heads": 16, "num_experts_per_tok": 8,
      "num_hidden_layers": 20, "num_key_value_heads": 4, "vocab_size": 157184,
      "first_k_dense_replace": 1, "layer_group_size": 5, "group_norm_size": 4, "use_qk_norm": true,
      "head_dim": 128, "moe_router_enable_expert_bias": true, "n_group": 8, "topk_group": 4,
      "moe_shared_expert_intermediate_size": 512})",
       16'423'448'320},
      // deepseek-ai/DeepSeek-V3.2, attention to keys that an indexer chooses
      {R"({"attention_bias": false, "first_k_dense_replace": 3, "hidden_size": 7168, "index_head_dim":
      128, "index_n_heads": 64, "index_topk": 2048, "intermediate_size": 18432, "kv_lora_rank": 512,
      "max_position_embeddings": 163840, "model_type": "deepseek_v32", "moe_intermediate_size": 2048,
      "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1,
      "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
      "num_key_value_heads": 128, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim":
      64, "tie_word_embeddings": false, "topk_group": 4, "v_head_dim": 128, "vocab_size": 129280})",
       671'877'944'064},
      // zai-org/GLM-5.2, 21 of whose 78 layers have an indexer
      {R"({"attention_bias": false, "first_k_dense_replace": 3, "hidden_size": 6144, "index_head_dim":
      128, "index_n_heads": 32, "index_topk": 2048, "indexer_types": ["full", "full", "full",
      "shared", "shared", "shared", "full", "shared", "shared", "shared", "full", "shared", "shared",
      "shared", "full", "shared", "shared", "shared", "full", "shared", "shared", "shared", "full",
      "shared", "shared", "shared", "full", "shared", "shared", "shared", "full", "shared", "shared",
      "shared", "full", "shared", "shared", "shared", "full", "shared", "shared", "shared", "full",
      "shared", "shared", "shared", "full", "shared", "shared", "shared", "full", "shared", "shared",
      "shared", "full", "shared", "shared", "shared", "full", "shared", "shared", "shared", "full",
      "shared", "shared", "shared", "full", "shared", "shared", "shared", "full", "shared", "shared",
      "shared", "full", "shared", "shared", "shared"], "intermediate_size": 12288, "kv_lora_rank":
      512, "max_position_embeddings": 1048576, "model_type": "glm_moe_dsa", "moe_intermediate_size":
      2048, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 256, "n_shared_experts": 1,
      "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 78,
      "num_key_value_heads": 64, "q_lora_rank": 2048, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
      "tie_word_embeddings": false, "topk_group": 1, "v_head_dim": 256, "vocab_size": 154880})",
       743'377'019'904},
      // google/gemma-4-26B-A4B, its text part: keys that are values, an MLP next to the experts
      {R"({"attention_k_eq_v": true, "enable_moe_block": true, "global_head_dim": 512, "head_dim": 256,
      "hidden_size": 2816, "hidden_size_per_layer_input": 0, "intermediate_size": 2112, "layer_types":
      ["sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
      "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
      "sliding_attention", "full_attention"], "max_position_embeddings": 262144, "model_type":
      "gemma4_text", "moe_intermediate_size": 704, "num_attention_heads": 16, "num_experts": 128,
      "num_global_key_value_heads": 2, "num_hidden_layers": 30, "num_key_value_heads": 8,
      "num_kv_shared_layers": 0, "sliding_window": 1024, "tie_word_embeddings": true, "top_k_experts":
      8, "vocab_size": 262144})",
       25'233'141'790},
      // MiniMaxAI/MiniMax-M3, blocks of keys that an indexer chooses in 57 of 60 layers
      {R"({"dense_intermediate_size": 12288, "head_dim": 128, "hidden_size": 6144, "intermediate_size":
      3072, "max_position_embeddings": 1048576, "model_type": "minimax_m3", "moe_intermediate_size":
      3072, "moe_layer_freq": [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1], "n_shared_experts": 1, "num_attention_heads": 64, "num_experts_per_tok": 4,
      "num_hidden_layers": 60, "num_key_value_heads": 4, "num_local_experts": 128, "qk_norm_type":
      "per_head", "shared_intermediate_size": 3072, "sparse_attention_config":
      {"sparse_attention_freq": [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
      1, 1, 1, 1, 1], "sparse_block_size": 128, "sparse_index_dim": 128, "sparse_num_index_heads": 4,
      "sparse_topk_blocks": 16, "use_sparse_attention": true}, "tie_word_embeddings": false,
      "use_qk_norm": true, "use_routing_bias": true, "vocab_size": 200064})",
       426'174'572'928},
      // meituan-longcat/LongCat-Flash-Chat, two blocks a layer and experts that give back what they read
      {R"({"model_type": "longcat_flash", "attention_bias": false, "vocab_size": 131072, "hidden_size":
      6144, "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048, "num_layers": 28,
      "num_attention_heads": 64, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64,
      "v_head_dim": 128, "qk_nope_head_dim": 128, "n_routed_experts": 512, "zero_expert_num": 256,
      "moe_topk": 12, "max_position_embeddings": 131072, "router_bias": false, "tie_word_embeddings":
      false})",
       560'664'980'480},
      // deepseek-ai/DeepSeek-V4-Pro by transformers' definition, counted by hand, "1.6T": of 61 layers
      // 29 choose entries of 4 tokens; a bias of each of 384 experts
      {R"({"model_type": "deepseek_v4", "vocab_size": 129280, "hidden_size": 7168,
      "moe_intermediate_size": 3072, "num_hidden_layers": 61, "num_attention_heads": 128,
      "num_key_value_heads": 1, "head_dim": 512, "q_lora_rank": 1536, "num_experts_per_tok": 6,
      "n_routed_experts": 384, "n_shared_experts": 1, "o_groups": 16, "o_lora_rank": 1024,
      "index_n_heads": 64, "index_head_dim": 128, "index_topk": 1024, "hc_mult": 4, "sliding_window":
      128, "num_nextn_predict_layers": 1, "max_position_embeddings": 1048576, "tie_word_embeddings":
      false, "compress_ratios": [128, 128, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4,
      128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4,
      128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 0]})",
       1'572'973'211'491},
      // meituan-longcat/LongCat-Flash-Lite, "68.5B", counted by hand: 31.4 of it are 12 tables of n-grams
      {R"({"model_type": "longcat_flash_ngram", "vocab_size": 131072, "hidden_size": 3072,
      "ffn_hidden_size": 6144, "expert_ffn_hidden_size": 1024, "num_layers": 14, "num_attention_heads":
      32, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "qk_nope_head_dim": 128, "n_routed_experts": 256, "zero_expert_num": 128, "moe_topk": 12,
      "max_position_embeddings": 327680, "ngram_vocab_size_ratio": 78, "emb_neighbor_num": 4,
      "emb_split_num": 4})",
       68'562'465'024},
      // stepfun-ai/step3, "316B" of its language model: queries from 2,048 values; without experts are
      // the first four layers and the last
      {R"({"model_type": "step3_text", "hidden_size": 7168, "intermediate_size": 18432,
      "num_attention_heads": 64, "num_attention_groups": 1, "num_hidden_layers": 61, "max_seq_len":
      65536, "vocab_size": 128815, "moe_intermediate_size": 5120, "moe_num_experts": 48, "moe_top_k": 3,
      "share_expert_dim": 5120, "share_q_dim": 2048, "head_dim": 256, "moe_layers_enum":
      "4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59"})",
       316'294'538'240},
      // state-spaces/mamba-130m-hf and tiiuae/falcon-mamba-7b, scans without attention
      {R"({"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "state_size": 16,
      "intermediate_size": 1536, "time_step_rank": 48, "use_bias": false, "use_conv_bias": true,
      "vocab_size": 50280})",
       129'135'360},
      {R"({"model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 64, "state_size": 16,
      "intermediate_size": 8192, "time_step_rank": 256, "use_bias": false, "use_conv_bias": true,
      "vocab_size": 65024, "tie_word_embeddings": false})",
       7'272'665'088},
      // google/gemma-3n-E4B as its class has it, and E2B: four streams, embeddings of layers; 262,400 rows
      // of 2,048 and 262,144 of 35 * 256, and 112,484,944 a layer, of which E2B's MLPs have half
      {R"({"model_type": "gemma3n_text"})", 6'866'696'688},
      {R"({"model_type": "gemma3n_text", "hidden_size": 2048, "hidden_size_per_layer_input": 256,
      "vocab_size": 262400, "vocab_size_per_layer_input": 262144, "intermediate_size": [8192, 8192,
      8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192,
      8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192, 8192], "num_hidden_layers": 30,
      "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "altup_num_inputs": 4,
      "laurel_rank": 64, "num_kv_shared_layers": 10, "sliding_window": 512})",
       4'456'156'768},
  };
  for (const Published& model : all) {
    const sim::Transformer shape = read_model_config(model.config, "config.json");
    const sim::Parameters count = sim::parameters(shape);
    EXPECT_EQ(count.total() - count.mtp, model.parameters) << model.config;
    // Written into the file of a run and read again it is the same.
    const sim::Run run = RunResolver(database).resolve(parse_run(run_of(shape), "run.json"));
    EXPECT_EQ(sim::fields_of(run.model), sim::fields_of(shape)) << model.config;
  }
}

}  // namespace
}  // namespace llmsim::hwdb
