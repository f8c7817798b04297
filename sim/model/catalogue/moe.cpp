// MoE models with a design of their own.
#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

namespace {

// Every DeepSeek model splits a query or key head into 128 positions-free and 64 rotary features.
Mla mla(std::optional<int> q_lora_rank) {
  return {.q_lora_rank = q_lora_rank,
          .kv_lora_rank = 512,
          .qk_nope_head_dim = 128,
          .qk_rope_head_dim = 64,
          .v_head_dim = 128};
}

Transformer deepseek(const LlamaShape& s, std::optional<int> q_lora_rank, const Moe& experts) {
  Transformer m = moe(llama(s), experts);
  m.mla = mla(q_lora_rank);
  m.head_dim = query_head_dim(m);
  return m;
}

Transformer with_mtp(Transformer m, const char* name) {
  m.name = name;
  m.mtp_layers = 1;
  return m;
}

Transformer grok1() {
  Transformer m = moe(tied(llama({"grok-1", 64, 6144, 48, 8, 32768, 131072, 8192})),
                      {.num_experts = 8, .top_k = 2, .expert_ffn_size = 32768});
  m.norms_per_layer = 4;
  return m;
}

// LayerNorm, no biases.
Transformer dbrx() {
  Transformer m = moe(llama({"dbrx-132b", 40, 6144, 48, 8, 10752, 100352, 32768}),
                      {.num_experts = 16, .top_k = 4, .expert_ffn_size = 10752});
  m.norm = Norm::LayerNorm;
  return m;
}

// Windowed and full layers in turn, attention sinks, biases everywhere but in the norms and the
// head.
Transformer gpt_oss(const char* name, int num_layers, int num_experts) {
  Transformer m =
      moe(llama({name, num_layers, 2880, 64, 8, 2880, 201088, 4096}), {.num_experts = num_experts,
                                                                       .top_k = 4,
                                                                       .expert_ffn_size = 2880,
                                                                       .router_bias = true,
                                                                       .expert_bias = true});
  m.head_dim = 64;
  m.bias = {.qkv = true, .attention_output = true};
  m.sliding_window = 128;
  m.sliding_window_interval = 2;
  m.attention_sinks = true;
  return m;
}

void append_deepseek(std::vector<CatalogueEntry>& all) {
  const Moe lite{.num_experts = 64,
                 .top_k = 6,
                 .expert_ffn_size = 1408,
                 .num_shared_experts = 2,
                 .shared_expert_ffn_size = 1408,
                 .num_dense_layers = 1};
  const Moe v2{.num_experts = 160,
               .top_k = 6,
               .expert_ffn_size = 1536,
               .num_shared_experts = 2,
               .shared_expert_ffn_size = 1536,
               .num_dense_layers = 1,
               .num_groups = 8,
               .groups_per_token = 3};
  const Moe v3{.num_experts = 256,
               .top_k = 8,
               .expert_ffn_size = 2048,
               .num_shared_experts = 1,
               .shared_expert_ffn_size = 2048,
               .num_dense_layers = 3,
               .num_groups = 8,
               .groups_per_token = 4,
               .router_bias = true};
  const Transformer v3_model =
      deepseek({"deepseek-v3", 61, 7168, 128, 128, 18432, 129280, 4096}, 1536, v3);
  const std::string v2_source = "arXiv 2405.04434; HF deepseek-ai/DeepSeek-V2";
  const std::string v3_source = "arXiv 2412.19437; HF deepseek-ai/DeepSeek-V3";
  all.push_back({deepseek({"deepseek-v2-lite", 27, 2048, 16, 16, 10944, 102400, 4096}, {}, lite),
                 {},
                 15706484224,
                 v2_source + "-Lite"});
  all.push_back({deepseek({"deepseek-v2", 60, 5120, 128, 128, 12288, 102400, 4096}, 1536, v2),
                 {"deepseek-v2-236b"},
                 235741434880,
                 v2_source});
  all.push_back({v3_model,
                 {"deepseek-v3-671b", "deepseek-v3-base", "deepseek-r1"},
                 671026419200,
                 v3_source + ", main model without its MTP layer"});
  all.push_back({with_mtp(v3_model, "deepseek-v3-mtp"),
                 {},
                 {},
                 v3_source + ", with its MTP layer (embedding and head shared)"});
}

void append_kimi(std::vector<CatalogueEntry>& all) {
  const Moe k2{.num_experts = 384,
               .top_k = 8,
               .expert_ffn_size = 2048,
               .num_shared_experts = 1,
               .shared_expert_ffn_size = 2048,
               .num_dense_layers = 1,
               .router_bias = true};
  all.push_back({deepseek({"kimi-k2", 61, 7168, 64, 64, 18432, 163840, 4096}, 1536, k2),
                 {"kimi-k2-1t", "kimi-k2-base"},
                 {},
                 "arXiv 2507.20534; HF moonshotai/Kimi-K2-Base config.json"});
}

}  // namespace

std::vector<CatalogueEntry> moe_models() {
  std::vector<CatalogueEntry> all;
  append_deepseek(all);
  append_kimi(all);
  all.push_back({grok1(),
                 {"grok", "grok-1-314b", "grok1-314b"},
                 {},
                 "xai-org/grok-1 run.py; 314 billion by its README"});
  all.push_back(
      {dbrx(), {"dbrx", "dbrx-base", "dbrx-instruct"}, 131596523520, "HF databricks/dbrx-base"});
  all.push_back({gpt_oss("gpt-oss-20b", 24, 32),
                 {},
                 20914757184,
                 "arXiv 2508.10925 table 1; HF openai/gpt-oss-20b"});
  all.push_back({gpt_oss("gpt-oss-120b", 36, 128),
                 {"gpt-oss"},
                 116829156672,
                 "arXiv 2508.10925 table 1; HF openai/gpt-oss-120b"});
  return all;
}

}  // namespace llmsim::sim
