#include "sim/model/parameters.h"

namespace llmsim::sim {

namespace {

using Count = std::int64_t;

// A linear layer from `in` to `out` features.
Count linear(Count in, Count out, bool bias) { return in * out + (bias ? out : 0); }

Count norm(const Transformer& m, Count width) {
  if (!m.norm_weight) return 0;
  return width + (m.bias.norm ? width : 0);
}

Count qk_norm(const Transformer& m) {
  switch (m.qk_norm) {
    case QkNorm::None: return 0;
    case QkNorm::PerHead: return 2 * norm(m, m.head_dim);
    case QkNorm::AllHeads: return norm(m, Count{m.num_heads} * m.head_dim) + norm(m, Count{m.num_kv_heads} * m.head_dim);
  }
  return 0;
}

Count mla(const Transformer& m, const Mla& mla) {
  const Count h = m.hidden_size, heads = m.num_heads;
  const Count query_width = heads * query_head_dim(m);
  Count total = mla.q_lora_rank ? linear(h, *mla.q_lora_rank, m.bias.qkv) + *mla.q_lora_rank + *mla.q_lora_rank * query_width
                                : linear(h, query_width, m.bias.qkv);
  total += linear(h, mla.kv_lora_rank + mla.qk_rope_head_dim, m.bias.qkv) + mla.kv_lora_rank;
  total += mla.kv_lora_rank * heads * (mla.qk_nope_head_dim + mla.v_head_dim);
  return total + linear(attention_output_width(m), h, m.bias.attention_output);
}

Count attention(const Transformer& m) {
  const Count sinks = m.attention_sinks ? m.num_heads : 0;
  if (m.mla) return mla(m, *m.mla) + sinks;
  const Count h = m.hidden_size, q = Count{m.num_heads} * m.head_dim, kv = Count{m.num_kv_heads} * m.head_dim;
  return linear(h, q, m.bias.qkv) + 2 * linear(h, kv, m.bias.qkv) + linear(q, h, m.bias.attention_output) + qk_norm(m) + sinks;
}

Count mlp(const Transformer& m, Count ffn_size, bool bias) {
  return (m.gated_mlp ? 2 : 1) * linear(m.hidden_size, ffn_size, bias) + linear(ffn_size, m.hidden_size, bias);
}

Count one_expert(const Transformer& m) { return mlp(m, m.moe->expert_ffn_size, m.moe->expert_bias); }

Count shared_experts(const Transformer& m) {
  const Count gate = m.moe->shared_expert_gate ? m.hidden_size : 0;
  return m.moe->num_shared_experts * mlp(m, m.moe->shared_expert_ffn_size, m.bias.mlp) + gate;
}

BlockParameters block_of(const Transformer& m, bool moe) {
  BlockParameters block;
  block.attention = attention(m);
  block.norms = m.norms_per_layer * norm(m, m.hidden_size);
  if (moe) {
    block.mlp = shared_experts(m);
    block.experts = m.moe->num_experts * one_expert(m);
    block.router = linear(m.hidden_size, m.moe->num_experts, m.moe->router_bias);
  } else {
    block.mlp = mlp(m, m.ffn_size, m.bias.mlp);
  }
  return block;
}

void add_blocks(Parameters& sum, const BlockParameters& block, Count number) {
  sum.attention += number * block.attention;
  sum.mlp += number * block.mlp;
  sum.experts += number * block.experts;
  sum.router += number * block.router;
  sum.norms += number * block.norms;
}

// A projection of [hidden state, next token's embedding] to the hidden size, a norm for each of the two, a block, and a norm
// before the shared head.
Count mtp_layer(const Transformer& m, int layer) {
  const Count h = m.hidden_size;
  return linear(2 * h, h, false) + 3 * norm(m, h) + block_parameters(m, layer).total();
}

}  // namespace

BlockParameters block_parameters(const Transformer& model, int layer) { return block_of(model, is_moe_layer(model, layer)); }

std::int64_t encoder_head_parameters(const Transformer& model) {
  if (!model.encoder) return 0;
  const Count h = model.hidden_size;
  const Count sentences = model.encoder->next_sentence ? linear(h, h, true) + linear(h, 2, true) : 0;
  return linear(h, h, true) + norm(model, h) + sentences;
}

Parameters parameters(const Transformer& model) {
  const Count h = model.hidden_size;
  Parameters sum;
  sum.embedding = model.vocab_size * h;
  if (model.position == Position::Learned) sum.positions = (model.max_positions ? model.max_positions : model.seq_len) * h;
  if (model.encoder) sum.positions += model.encoder->segment_types * h;
  const int moe_layers = count_moe_layers(model, 0, model.num_layers);
  if (moe_layers < model.num_layers) add_blocks(sum, block_of(model, false), model.num_layers - moe_layers);
  if (moe_layers > 0) add_blocks(sum, block_of(model, true), moe_layers);
  for (int i = 0; i < model.mtp_layers; ++i) sum.mtp += mtp_layer(model, model.num_layers + i);
  const Count all_moe_layers = count_moe_layers(model, 0, model.num_layers + model.mtp_layers);
  if (model.moe) sum.inactive = all_moe_layers * (model.moe->num_experts - model.moe->top_k) * one_expert(model);
  sum.norms += (model.embedding_norm ? norm(model, h) : 0) + (model.final_norm ? norm(model, h) : 0);
  if (!model.tied_embeddings) sum.head = linear(h, model.vocab_size, model.bias.head);
  if (model.tied_embeddings && model.bias.head) sum.head = model.vocab_size;
  sum.head += encoder_head_parameters(model);
  return sum;
}

}  // namespace llmsim::sim
