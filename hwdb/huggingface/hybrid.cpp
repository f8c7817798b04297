// Hybrids of attention and state spaces.
#include "hwdb/huggingface/model_config.h"

namespace llmsim::hwdb {
namespace {

using sim::Mamba;
using sim::Moe;
using sim::Transformer;

Mamba mamba(ModelConfig& c) {
  return {.num_heads = c.need({"mamba_num_heads"}),
          .head_dim = c.need({"mamba_head_dim"}),
          .num_groups = c.count_or({"n_groups", "mamba_num_groups"}, 8),
          .state_size = c.need({"ssm_state_size", "mamba_state_dim"}),
          .conv_kernel = c.count_or({"conv_kernel"}, 4),
          .chunk_size = c.count_or({"chunk_size"}, 128)};
}

Moe experts(ModelConfig& c) {
  return {.num_experts = c.need({"n_routed_experts"}),
          .top_k = c.need({"num_experts_per_tok"}),
          .expert_ffn_size = c.need({"moe_intermediate_size"}),
          .num_shared_experts = c.at_least_zero("n_shared_experts", 1),
          .shared_expert_ffn_size = c.need({"moe_shared_expert_intermediate_size"}),
          .num_groups = c.count_or({"n_group"}, 1),
          .groups_per_token = c.count_or({"topk_group"}, 1),
          .latent_size = c.maybe({"moe_latent_size"})};
}

// A letter for each layer; multi-token prediction of attention and experts is the one that is
// known.
Transformer nemotron_h(ModelConfig& c) {
  Transformer m = rotary(c, false);
  const std::optional<std::string> pattern = c.text("hybrid_override_pattern");
  if (!pattern) c.refuse("hybrid_override_pattern", "missing");
  if (static_cast<int>(pattern->size()) != m.num_layers)
    c.refuse("hybrid_override_pattern",
             "a letter for each of " + std::to_string(m.num_layers) + " layers is expected");
  m.layer_pattern = *pattern;
  m.gated_mlp = false;
  m.position = sim::Position::None;
  m.bias.qkv = m.bias.attention_output = c.flag("attention_bias", false);
  m.bias.mlp = c.flag("mlp_bias", false);
  if (c.flag("mamba_proj_bias", false) || c.flag("use_bias", false))
    c.refuse("mamba_proj_bias", "biases of Mamba-2's projections are not modelled");
  m.mamba = mamba(c);
  if (pattern->find('E') != std::string::npos) m.moe = experts(c);
  if (pattern->find('-') == std::string::npos) m.ffn_size = 0;
  m.mtp_layers = c.at_least_zero("num_nextn_predict_layers", 0);
  const std::string ahead = c.text("mtp_hybrid_override_pattern").value_or("*E");
  if (m.mtp_layers > 0 && ahead != "*E")
    c.refuse("mtp_hybrid_override_pattern", "only *E, attention and experts, is modelled");
  return m;
}

// Attention in the last layer of each period, a gated delta net in the others.
std::string delta_net_pattern(ModelConfig& c, int num_layers) {
  const auto interval = static_cast<std::size_t>(c.count_or({"full_attention_interval"}, 4));
  std::string pattern(static_cast<std::size_t>(num_layers), 'G');
  for (std::size_t layer = interval - 1; layer < pattern.size(); layer += interval)
    pattern[layer] = '*';
  const nlohmann::json* types = c.any("layer_types");
  if (!types) return pattern;
  if (!types->is_array() || types->size() != pattern.size())
    c.refuse("layer_types",
             "a string for each of " + std::to_string(num_layers) + " layers is expected");
  for (std::size_t layer = 0; layer < pattern.size(); ++layer)
    pattern[layer] = (*types)[layer] == "full_attention" ? '*' : 'G';
  return pattern;
}

// The shortest period of a pattern.
std::string period_of(const std::string& pattern) {
  for (std::size_t n = 1; n < pattern.size(); ++n) {
    if (pattern.size() % n == 0 &&
        pattern.compare(n, std::string::npos, pattern, 0, pattern.size() - n) == 0)
      return pattern.substr(0, n);
  }
  return pattern;
}

Transformer qwen3_next(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.qk_norm = sim::QkNorm::PerHead;
  m.attention_gate = true;
  m.layer_pattern = period_of(delta_net_pattern(c, m.num_layers));
  m.gated_delta_net = sim::GatedDeltaNet{.num_key_heads = c.need({"linear_num_key_heads"}),
                                         .key_head_dim = c.need({"linear_key_head_dim"}),
                                         .num_value_heads = c.need({"linear_num_value_heads"}),
                                         .value_head_dim = c.need({"linear_value_head_dim"}),
                                         .conv_kernel = c.count_or({"linear_conv_kernel_dim"}, 4)};
  if (c.count_or({"decoder_sparse_step"}, 1) != 1)
    c.refuse("decoder_sparse_step", "only experts in every layer (1) are supported");
  const nlohmann::json* dense = c.any("mlp_only_layers");
  if (dense && !dense->empty())
    c.refuse("mlp_only_layers", "only experts in every layer are supported");
  m.moe = Moe{.num_experts = c.need({"num_experts"}),
              .top_k = c.need({"num_experts_per_tok"}),
              .expert_ffn_size = c.need({"moe_intermediate_size"}),
              .num_shared_experts = 1,
              .shared_expert_ffn_size = c.need({"shared_expert_intermediate_size"}),
              .shared_expert_gate = true};
  m.ffn_size = 0;
  return m;
}

// Of each `period` layers the one at an offset, which is within the period.
struct EveryNth {
  int period, offset;
};

EveryNth every_nth(ModelConfig& c, const char* period_key, const char* offset_key, EveryNth usual) {
  const EveryNth layers{.period = c.count_or({period_key}, usual.period),
                        .offset = c.at_least_zero(offset_key, usual.offset)};
  if (layers.offset >= layers.period)
    c.refuse(offset_key, std::string("less than ") + period_key + " is expected");
  return layers;
}

// "auto" is a sixteenth of the width, rounded up.
int dt_rank(ModelConfig& c, int hidden_size) {
  const nlohmann::json* rank = c.any("mamba_dt_rank");
  if (rank && !rank->is_string()) return c.need({"mamba_dt_rank"});
  return (hidden_size + 15) / 16;
}

sim::Mamba1 mamba1(ModelConfig& c, int hidden_size) {
  if (c.flag("mamba_proj_bias", false))
    c.refuse("mamba_proj_bias", "biases of Mamba-1's projections are not modelled");
  if (!c.flag("mamba_conv_bias", true))
    c.refuse("mamba_conv_bias", "convolutions without a bias are not modelled");
  if (!c.flag("mamba_inner_layernorms", true))
    c.refuse("mamba_inner_layernorms", "Mamba-1 without norms of dt, B and C is not modelled");
  return {.inner_size = c.count_or({"mamba_expand"}, 2) * hidden_size,
          .state_size = c.count_or({"mamba_d_state"}, 16),
          .dt_rank = dt_rank(c, hidden_size),
          .conv_kernel = c.count_or({"mamba_d_conv"}, 4)};
}

// Defaults are those of JambaConfig.  A file with one expert has MLPs in all layers.
Transformer jamba(ModelConfig& c) {
  Transformer m = rotary(c, false);
  m.position = sim::Position::None;
  m.num_kv_heads = c.count_or({"num_key_value_heads"}, 8);
  const EveryNth attention =
      every_nth(c, "attn_layer_period", "attn_layer_offset", {.period = 8, .offset = 4});
  std::string pattern(static_cast<std::size_t>(m.num_layers), 'S');
  for (int layer = attention.offset; layer < m.num_layers; layer += attention.period)
    pattern[static_cast<std::size_t>(layer)] = '*';
  m.layer_pattern = period_of(pattern);
  m.mamba1 = mamba1(c, m.hidden_size);
  const EveryNth experts =
      every_nth(c, "expert_layer_period", "expert_layer_offset", {.period = 2, .offset = 1});
  const int num_experts = c.count_or({"num_experts"}, 16);
  if (num_experts > 1)
    m.moe = Moe{.num_experts = num_experts,
                .top_k = c.count_or({"num_experts_per_tok"}, 2),
                .expert_ffn_size = m.ffn_size,
                .num_dense_layers = experts.offset,
                .layer_interval = experts.period};
  return m;
}

}  // namespace

Families hybrid_families() {
  return {{"jamba", jamba}, {"nemotron_h", nemotron_h}, {"qwen3_next", qwen3_next}};
}

}  // namespace llmsim::hwdb
