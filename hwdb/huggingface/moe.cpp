// MoE models with a design of their own.
#include <algorithm>

#include "hwdb/huggingface/model_config.h"

namespace llmsim::hwdb {
namespace {

using sim::Mla;
using sim::Moe;
using sim::Transformer;

Transformer mixtral(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.sliding_window = c.maybe({"sliding_window"});
  m.moe = Moe{.num_experts = c.count_or({"num_local_experts"}, 8),
              .top_k = c.count_or({"num_experts_per_tok"}, 2),
              .expert_ffn_size = m.ffn_size};
  return m;
}

// MoE models are the layers from first_k_dense_replace on whose number is a multiple of
// moe_layer_freq.
Moe deepseek_experts(ModelConfig& c, const Transformer& m) {
  const int interval = c.count_or({"moe_layer_freq"}, 1);
  const int first = c.at_least_zero("first_k_dense_replace", 0);
  if (first > m.num_layers)
    c.refuse("first_k_dense_replace", "there are " + std::to_string(m.num_layers) + " layers");
  if (interval > m.num_layers)
    c.refuse("moe_layer_freq", "there are " + std::to_string(m.num_layers) + " layers");
  Moe moe{.num_experts = c.need({"n_routed_experts"}),
          .top_k = c.need({"num_experts_per_tok"}),
          .expert_ffn_size = c.need({"moe_intermediate_size"}),
          .num_shared_experts = c.at_least_zero("n_shared_experts", 0)};
  moe.shared_expert_ffn_size = moe.num_shared_experts > 0 ? moe.expert_ffn_size : 0;
  moe.num_dense_layers = std::min((first + interval - 1) / interval * interval, m.num_layers);
  moe.layer_interval = interval;
  moe.num_groups = c.count_or({"n_group"}, 1);
  moe.groups_per_token = c.count_or({"topk_group"}, moe.num_groups);
  return moe;
}

Mla mla(ModelConfig& c) {
  return {.q_lora_rank = c.maybe({"q_lora_rank"}),
          .kv_lora_rank = c.need({"kv_lora_rank"}),
          .qk_nope_head_dim = c.need({"qk_nope_head_dim"}),
          .qk_rope_head_dim = c.need({"qk_rope_head_dim"}),
          .v_head_dim = c.need({"v_head_dim"})};
}

Transformer deepseek_v2(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.bias.qkv = m.bias.attention_output = c.flag("attention_bias", false);
  m.mla = mla(c);
  m.head_dim = sim::query_head_dim(m);
  if (c.maybe({"n_routed_experts"})) m.moe = deepseek_experts(c, m);
  return m;
}

// Adds a correction bias per expert and multi-token prediction.
Transformer deepseek_v3(ModelConfig& c) {
  Transformer m = deepseek_v2(c);
  if (m.moe) m.moe->router_bias = c.text("topk_method").value_or("noaux_tc") == "noaux_tc";
  m.mtp_layers = c.at_least_zero("num_nextn_predict_layers", 0);
  return m;
}

Transformer gpt_oss(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.bias.qkv = m.bias.attention_output = c.flag("attention_bias", true);
  m.attention_sinks = true;
  m.sliding_window = c.count_or({"sliding_window"}, 128);
  m.sliding_window_interval = 2;
  read_layer_types(c, m);
  m.moe = Moe{.num_experts = c.need({"num_local_experts", "num_experts"}),
              .top_k = c.need({"num_experts_per_tok", "experts_per_token"}),
              .expert_ffn_size = m.ffn_size,
              .router_bias = true,
              .expert_bias = true};
  return m;
}

// Figures of attention and experts stand in objects of their own.
Transformer dbrx(ModelConfig& c) {
  Transformer m;
  m.num_layers = c.need({"n_layers"});
  m.hidden_size = c.need({"d_model"});
  m.num_heads = c.need({"n_heads"});
  m.num_kv_heads = c.need_in("attn_config", "kv_n_heads");
  m.head_dim = divided_head_dim(c, m.hidden_size, m.num_heads);
  m.ffn_size = c.need_in("ffn_config", "ffn_hidden_size");
  m.vocab_size = c.need({"vocab_size"});
  m.seq_len = rotary_seq_len(c);
  m.gated_mlp = true;
  m.tied_embeddings = c.flag("tie_word_embeddings", false);
  m.moe = Moe{.num_experts = c.need_in("ffn_config", "moe_num_experts"),
              .top_k = c.need_in("ffn_config", "moe_top_k"),
              .expert_ffn_size = m.ffn_size};
  return m;
}

// Chunks of attention_chunk_size tokens in three of four layers; dense layers are wider than
// experts.
Transformer llama4(ModelConfig& c) {
  Transformer m = rotary(c, false);
  const int interval = c.count_or({"interleave_moe_layer_step"}, 1);
  m.moe = Moe{.num_experts = c.need({"num_local_experts"}),
              .top_k = c.count_or({"num_experts_per_tok"}, 1),
              .expert_ffn_size = m.ffn_size,
              .num_shared_experts = 1,
              .shared_expert_ffn_size = m.ffn_size,
              .num_dense_layers = std::min(interval - 1, m.num_layers),
              .layer_interval = interval};
  m.ffn_size = c.need({"intermediate_size_mlp"});
  m.sliding_window = c.count_or({"attention_chunk_size"}, 8192);
  m.sliding_window_interval = 4;
  m.bias.qkv = m.bias.attention_output = c.flag("attention_bias", false);
  return m;
}

}  // namespace

Families moe_families() {
  return {{"dbrx", dbrx},       {"deepseek_v2", deepseek_v2}, {"deepseek_v3", deepseek_v3},
          {"gpt_oss", gpt_oss}, {"kimi_k2", deepseek_v3},     {"llama4_text", llama4},
          {"mixtral", mixtral}};
}

}  // namespace llmsim::hwdb
