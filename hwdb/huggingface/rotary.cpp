// Llama and the families that vary its block.
#include "hwdb/huggingface/model_config.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;
using sim::Moe;
using sim::Norm;
using sim::QkNorm;
using sim::Transformer;

Transformer llama(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.bias.qkv = m.bias.attention_output = c.flag("attention_bias", false);
  m.bias.mlp = c.flag("mlp_bias", false);
  return m;
}

Transformer mistral(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.sliding_window = c.has("sliding_window") ? c.maybe({"sliding_window"}) : 4096;
  read_layer_types(c, m);
  return m;
}

Transformer phi3(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.sliding_window = c.maybe({"sliding_window"});
  return m;
}

// Parameter-free norms.
Transformer olmo(ModelConfig& c) {
  Transformer m = llama(c);
  m.norm = Norm::LayerNorm;
  m.norm_weight = false;
  return m;
}

Transformer olmo2(ModelConfig& c) {
  Transformer m = llama(c);
  m.qk_norm = QkNorm::AllHeads;
  return m;
}

// The first generation counts both halves of its gated MLP as one width.
Transformer qwen1(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.ffn_size /= 2;
  m.seq_len = c.count_or({"seq_length"}, m.seq_len);
  m.bias.qkv = true;
  return m;
}

// Windows are in use only where the file says so, and then from layer max_window_layers on.
void read_qwen_window(ModelConfig& c, Transformer& m) {
  if (!c.flag("use_sliding_window", false)) return;
  const int full_layers = c.at_least_zero("max_window_layers", 28);
  if (full_layers >= m.num_layers) return;
  if (full_layers > 0)
    c.refuse("max_window_layers", "a window in some layers only is not supported");
  m.sliding_window = c.count_or({"sliding_window"}, 4096);
}

Transformer qwen2(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.bias.qkv = true;
  read_qwen_window(c, m);
  return m;
}

Transformer qwen3(ModelConfig& c) {
  Transformer m = llama(c);
  if (!c.has("head_dim")) m.head_dim = 128;
  m.qk_norm = QkNorm::PerHead;
  read_qwen_window(c, m);
  return m;
}

// Layers decoder_sparse_step - 1, 2 decoder_sparse_step - 1, ... are MoE models, except those
// listed as dense.
void read_qwen_experts(ModelConfig& c, Transformer& m, int num_experts, int top_k) {
  Moe moe{.num_experts = c.count_or({"num_experts"}, num_experts),
          .top_k = c.count_or({"num_experts_per_tok"}, top_k),
          .expert_ffn_size = c.need({"moe_intermediate_size"})};
  moe.layer_interval = c.count_or({"decoder_sparse_step"}, 1);
  moe.num_dense_layers = std::min(moe.layer_interval - 1, m.num_layers);
  if (const json* dense = c.any("mlp_only_layers"); dense && !dense->empty()) {
    std::vector<int> leading(dense->is_array() ? dense->size() : 0);
    for (std::size_t i = 0; i < leading.size(); ++i) leading[i] = static_cast<int>(i);
    if (*dense != json(leading) || moe.layer_interval != 1) {
      c.refuse("mlp_only_layers", "only the leading layers may be dense: [0, 1, ...]");
    }
    moe.num_dense_layers = static_cast<int>(leading.size());
  }
  m.moe = moe;
}

Transformer qwen2_moe(ModelConfig& c) {
  Transformer m = qwen2(c);
  read_qwen_experts(c, m, 60, 4);
  m.moe->num_shared_experts = 1;
  m.moe->shared_expert_ffn_size = c.need({"shared_expert_intermediate_size"});
  m.moe->shared_expert_gate = true;
  return m;
}

Transformer qwen3_moe(ModelConfig& c) {
  Transformer m = qwen3(c);
  read_qwen_experts(c, m, 128, 8);
  return m;
}

Transformer gemma(ModelConfig& c) {
  Transformer m = rotary(c, true);
  if (!c.has("head_dim")) m.head_dim = 256;
  m.bias.qkv = m.bias.attention_output = c.flag("attention_bias", false);
  return m;
}

Transformer gemma2(ModelConfig& c) {
  Transformer m = gemma(c);
  m.norms_per_layer = 4;
  m.sliding_window = c.count_or({"sliding_window"}, 4096);
  m.sliding_window_interval = 2;
  read_layer_types(c, m);
  return m;
}

// The text part of the larger models omits every figure that equals the default of its class.
Transformer gemma3(ModelConfig& c) {
  Transformer m;
  m.num_layers = c.count_or({"num_hidden_layers"}, 26);
  m.hidden_size = c.count_or({"hidden_size"}, 2304);
  m.num_heads = c.count_or({"num_attention_heads"}, 8);
  m.num_kv_heads = c.count_or({"num_key_value_heads"}, 4);
  m.head_dim = c.count_or({"head_dim"}, 256);
  m.ffn_size = c.count_or({"intermediate_size"}, 9216);
  m.vocab_size = c.count_or({"vocab_size"}, 262208);
  m.seq_len = rotary_seq_len(c, 131072);
  m.gated_mlp = true;
  m.norm = Norm::RmsNorm;
  m.norms_per_layer = 4;
  m.qk_norm = QkNorm::PerHead;
  m.tied_embeddings = c.flag("tie_word_embeddings", true);
  m.bias.qkv = m.bias.attention_output = c.flag("attention_bias", false);
  m.sliding_window = c.count_or({"sliding_window"}, 4096);
  m.sliding_window_interval = c.count_or({"sliding_window_pattern", "_sliding_window_pattern"}, 6);
  read_layer_types(c, m);
  return m;
}

// Windows are in use only where the file says so, as in Qwen's; layers without positions have the
// same weights and GEMMs as the others.
Transformer smollm3(ModelConfig& c) {
  Transformer m = llama(c);
  if (!c.has("tie_word_embeddings")) m.tied_embeddings = true;
  read_qwen_window(c, m);
  return m;
}

// Biases of queries, keys and values only.
Transformer glm(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.bias.qkv = c.flag("attention_bias", false);
  return m;
}

Transformer glm4(ModelConfig& c) {
  Transformer m = glm(c);
  m.norms_per_layer = 4;
  return m;
}

// GLM-4 as its publisher's own code reads it.
Transformer chatglm(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.bias.qkv = c.flag("add_qkv_bias", false);
  if (!c.flag("rmsnorm", false) || c.flag("add_bias_linear", false))
    c.refuse("rmsnorm",
             "only models with RMSNorm and without biases of linear layers, as GLM-4, "
             "are supported");
  if (c.flag("multi_query_attention", false)) m.num_kv_heads = c.need({"multi_query_group_num"});
  return m;
}

// Parallel block with one LayerNorm.
Transformer cohere(ModelConfig& c) {
  Transformer m = rotary(c, true);
  m.bias.qkv = m.bias.attention_output = c.flag("attention_bias", false);
  m.norm = Norm::LayerNorm;
  m.parallel_block = true;
  m.norms_per_layer = 1;
  if (c.flag("use_qk_norm", false)) m.qk_norm = QkNorm::AllHeads;
  return m;
}

// LayerNorm in an otherwise rotary block.
Transformer stablelm(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.norm = Norm::LayerNorm;
  m.bias = {.qkv = c.flag("use_qkv_bias", false), .norm = true};
  m.parallel_block = c.flag("use_parallel_residual", false);
  m.norms_per_layer = m.parallel_block ? 1 : 2;
  if (c.flag("qk_layernorm", false))
    c.refuse("qk_layernorm", "a norm of its own for every head is not supported");
  return m;
}

Transformer starcoder2(ModelConfig& c) {
  Transformer m = rotary(c, true);
  const bool bias = c.flag("use_bias", true);
  m.gated_mlp = false;
  m.norm = Norm::LayerNorm;
  m.bias = {.qkv = bias, .attention_output = bias, .mlp = bias, .norm = true};
  m.sliding_window = c.maybe({"sliding_window"});
  return m;
}

}  // namespace

sim::Transformer rotary(ModelConfig& c, bool tied_by_default) {
  sim::Transformer m;
  m.num_layers = c.need({"num_hidden_layers", "n_layer", "num_layers"});
  m.hidden_size = c.need({"hidden_size", "n_embd", "n_embed"});
  m.num_heads = c.need({"num_attention_heads", "n_head"});
  m.num_kv_heads = c.count_or({"num_key_value_heads", "num_kv_heads", "n_head_kv"}, m.num_heads);
  const std::optional<int> head_dim = c.maybe({"head_dim", "kv_channels"});
  m.head_dim = head_dim ? *head_dim : divided_head_dim(c, m.hidden_size, m.num_heads);
  m.ffn_size = c.need({"intermediate_size", "ffn_hidden_size", "n_inner"});
  m.vocab_size = c.need({c.has("padded_vocab_size") ? "padded_vocab_size" : "vocab_size"});
  m.seq_len = rotary_seq_len(c);
  m.gated_mlp = true;
  m.norm = sim::Norm::RmsNorm;
  m.tied_embeddings = c.flag("tie_word_embeddings", tied_by_default);
  return m;
}

Families rotary_families() {
  return {{"chatglm", chatglm},
          {"cohere", cohere},
          {"glm", glm},
          {"glm4", glm4},
          {"smollm3", smollm3},
          {"gemma", gemma},
          {"gemma2", gemma2},
          {"gemma3_text", gemma3},
          {"granite", llama},
          {"llama", llama},
          {"mistral", mistral},
          {"olmo", olmo},
          {"olmo2", olmo2},
          {"phi3", phi3},
          {"qwen", qwen1},
          {"qwen2", qwen2},
          {"qwen3", qwen3},
          {"stablelm", stablelm},
          {"starcoder2", starcoder2},
          {"qwen2_moe", qwen2_moe},
          {"qwen3_moe", qwen3_moe}};
}

}  // namespace llmsim::hwdb
