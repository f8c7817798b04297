#include "sim/model/flops.h"

#include <algorithm>

namespace llmsim::sim {

namespace {

using Count = std::int64_t;

Count attention_weights(const Transformer& m) {
  const Count h = m.hidden_size, output = attention_output_width(m);
  const Count query_width = Count{m.num_heads} * query_head_dim(m);
  if (!m.mla) return h * query_width + 2 * h * m.num_kv_heads * m.head_dim + output * h;
  const Mla& mla = *m.mla;
  const Count query = mla.q_lora_rank ? *mla.q_lora_rank * (h + query_width) : h * query_width;
  const Count down = h * (mla.kv_lora_rank + mla.qk_rope_head_dim);
  const Count up = Count{mla.kv_lora_rank} * m.num_heads * (mla.qk_nope_head_dim + mla.v_head_dim);
  return query + down + up + output * h;
}

Count mlp_weights(const Transformer& m, int layer) {
  const Count h = m.hidden_size, matrices = m.gated_mlp ? 3 : 2;
  if (!is_moe_layer(m, layer)) return matrices * h * m.ffn_size;
  const Moe& moe = *m.moe;
  const Count width = Count{moe.top_k} * moe.expert_ffn_size + Count{moe.num_shared_experts} * moe.shared_expert_ffn_size;
  return matrices * h * width + h * moe.num_experts + (moe.shared_expert_gate ? h : 0);
}

// Matrices of the head by the tokens of a sequence that they multiply.
struct HeadWeights {
  Count of_predicted = 0;
  Count of_first = 0;
};

HeadWeights head_weights(const Transformer& m) {
  const Count h = m.hidden_size, vocab = h * m.vocab_size;
  if (!m.encoder) return {.of_predicted = (1 + m.mtp_layers) * vocab + h * h * 2 * m.mtp_layers};
  return {.of_predicted = vocab + h * h, .of_first = m.encoder->next_sentence ? h * h + 2 * h : 0};
}

Count block_weights(const Transformer& m) {
  Count total = 0;
  for (int layer = 0; layer < m.num_layers + m.mtp_layers; ++layer) total += attention_weights(m) + mlp_weights(m, layer);
  return total;
}

}  // namespace

std::int64_t matmul_parameters(const Transformer& model) {
  const HeadWeights head = head_weights(model);
  return block_weights(model) + head.of_predicted + head.of_first;
}

double attended_keys(const Transformer& model, int layer, bool causal) {
  const double tokens = model.seq_len;
  const std::optional<int> window = window_of_layer(model, layer);
  const double visible = window ? std::min<double>(*window, tokens) : tokens;
  return causal && !model.encoder ? visible - visible * visible / (2.0 * tokens) : visible;
}

Flops attention_flops_per_token(const Transformer& model, int layer, bool causal) {
  const double width = static_cast<double>(model.num_heads) * query_head_dim(model) + attention_output_width(model);
  return 2.0 * width * attended_keys(model, layer, causal) * FLOP;
}

Flops head_flops_per_token(const Transformer& model) {
  const HeadWeights head = head_weights(model);
  const double first = static_cast<double>(head.of_first) / model.seq_len;
  return 2.0 * (predicted_share(model) * static_cast<double>(head.of_predicted) + first) * FLOP;
}

Flops forward_flops_per_token(const Transformer& model, bool causal) {
  Flops total = 2.0 * static_cast<double>(block_weights(model)) * FLOP + head_flops_per_token(model);
  for (int layer = 0; layer < model.num_layers + model.mtp_layers; ++layer) {
    total += attention_flops_per_token(model, layer, causal);
  }
  return total;
}

Flops training_flops_per_token(const Transformer& model, double adapter_parameters) {
  const Flops forward = forward_flops_per_token(model, true);
  if (adapter_parameters == 0.0) return 3.0 * forward;
  const Flops weights = 2.0 * static_cast<double>(block_weights(model)) * FLOP + head_flops_per_token(model);
  return 3.0 * forward - weights + 6.0 * adapter_parameters * FLOP;
}

}  // namespace llmsim::sim
