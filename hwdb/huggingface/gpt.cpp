// GPT and its relatives: LayerNorm and a plain MLP.
#include <algorithm>

#include "hwdb/huggingface/model_config.h"

namespace llmsim::hwdb {
namespace {

using sim::Biases;
using sim::Position;
using sim::QkNorm;
using sim::Transformer;

Transformer gpt(ModelConfig& c, bool tied_by_default) {
  Transformer m;
  m.num_layers = c.need({"n_layer", "num_hidden_layers", "num_layers", "n_layers"});
  m.hidden_size = c.need({"n_embd", "hidden_size", "n_embed", "d_model"});
  m.num_heads = c.need({"n_head", "num_attention_heads", "n_heads"});
  m.num_kv_heads = m.num_heads;
  m.head_dim = divided_head_dim(c, m.hidden_size, m.num_heads);
  m.ffn_size =
      c.count_or({"n_inner", "intermediate_size", "ffn_dim", "ffn_hidden_size"}, 4 * m.hidden_size);
  m.vocab_size = c.need({"vocab_size"});
  m.seq_len = c.count_or(
      {"n_positions", "max_position_embeddings", "max_seq_len", "n_ctx", "seq_length"}, 2048);
  m.tied_embeddings = c.flag("tie_word_embeddings", tied_by_default);
  m.bias = Biases::gpt();
  return m;
}

Transformer gpt2(ModelConfig& c) {
  Transformer m = gpt(c, true);
  m.position = Position::Learned;
  return m;
}

Transformer gpt_bigcode(ModelConfig& c) {
  Transformer m = gpt2(c);
  if (c.flag("multi_query", true)) m.num_kv_heads = 1;
  return m;
}

Transformer gptj(ModelConfig& c) {
  Transformer m = gpt(c, false);
  m.bias = {.mlp = true, .norm = true, .head = true};
  m.parallel_block = true;
  m.norms_per_layer = 1;
  return m;
}

Transformer gpt_neox(ModelConfig& c) {
  Transformer m = gpt(c, false);
  m.parallel_block = c.flag("use_parallel_residual", true);
  m.bias.qkv = m.bias.attention_output = c.flag("attention_bias", true);
  return m;
}

Transformer bloom(ModelConfig& c) {
  Transformer m = gpt(c, true);
  m.position = Position::Alibi;
  m.embedding_norm = true;
  return m;
}

// The position table has two rows more than the longest sequence.
Transformer opt(ModelConfig& c) {
  Transformer m = gpt(c, true);
  m.position = Position::Learned;
  m.max_positions = m.seq_len + 2;
  if (c.count_or({"word_embed_proj_dim"}, m.hidden_size) != m.hidden_size) {
    c.refuse("word_embed_proj_dim", "an embedding narrower than hidden_size is not supported");
  }
  if (!c.flag("enable_bias", true)) m.bias = {.norm = true};
  m.norm_weight = c.flag("layer_norm_elementwise_affine", true);
  m.final_norm = c.flag("do_layer_norm_before", true) && !c.flag("_remove_final_layer_norm", false);
  return m;
}

Transformer mpt(ModelConfig& c) {
  Transformer m = gpt(c, true);
  const double ratio = c.has("expansion_ratio") ? c.need_number("expansion_ratio") : 4.0;
  if (!(ratio >= 1e-3 && ratio <= 1e3))
    c.refuse("expansion_ratio", "a ratio from 0.001 to 1000 is expected");
  m.ffn_size = static_cast<int>(std::min(ratio * m.hidden_size, 1e9));
  m.position = c.flag("learned_pos_emb", true) ? Position::Learned : Position::None;
  if (auto attention = c.object("attn_config")) {
    if (attention->boolean("alibi").value_or(false)) m.position = Position::Alibi;
    if (attention->boolean("rope").value_or(false)) m.position = Position::Rope;
    m.num_kv_heads = attention->count("kv_n_heads").value_or(m.num_heads);
    if (attention->text("attn_type") == "multiquery_attention") m.num_kv_heads = 1;
  }
  if (c.flag("no_bias", true)) m.bias = {};
  return m;
}

// The newer of the two architectures has grouped queries and a norm for each half of its parallel
// block.
Transformer falcon(ModelConfig& c) {
  Transformer m = gpt(c, true);
  const bool newer = c.flag("new_decoder_architecture", false);
  const bool linear_bias = c.flag("bias", false);
  m.bias = {.qkv = linear_bias, .attention_output = linear_bias, .mlp = linear_bias, .norm = true};
  m.position = c.flag("alibi", false) ? Position::Alibi : Position::Rope;
  m.parallel_block = newer || c.flag("parallel_attn", true);
  if (newer) m.num_kv_heads = c.count_or({"num_kv_heads", "n_head_kv"}, m.num_heads);
  if (!newer && c.flag("multi_query", true)) m.num_kv_heads = 1;
  const int parallel_norms = newer ? c.count_or({"num_ln_in_parallel_attn"}, 2) : 1;
  m.norms_per_layer = m.parallel_block ? parallel_norms : 2;
  return m;
}

Transformer phi(ModelConfig& c) {
  Transformer m = gpt(c, false);
  m.num_kv_heads = c.count_or({"num_key_value_heads"}, m.num_heads);
  m.parallel_block = true;
  m.norms_per_layer = 1;
  m.bias.head = true;
  if (c.flag("qk_layernorm", false)) m.qk_norm = QkNorm::PerHead;
  return m;
}

}  // namespace

Families gpt_families() {
  return {{"bloom", bloom},
          {"falcon", falcon},
          {"gpt2", gpt2},
          {"gpt_bigcode", gpt_bigcode},
          {"gpt_neox", gpt_neox},
          {"gptj", gptj},
          {"mpt", mpt},
          {"opt", opt},
          {"phi", phi}};
}

}  // namespace llmsim::hwdb
