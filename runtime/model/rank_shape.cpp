#include "runtime/model/rank_shape.h"

#include <string>

#include "sim/base/error.h"
#include "sim/operators/experts.h"

namespace llmsim::runtime {
namespace {

void refuse(bool condition, const std::string& what) {
  if (condition)
    throw Error("the runtime does not execute " + what +
                "; it trains GPT-2 and Llama shapes, MLA, and MoE models");
}

void require_divisible(const sim::Transformer& model, int tensor_ranks) {
  const auto require = [&](const char* name, int size) {
    if (size % tensor_ranks == 0) return;
    throw Error("tp = " + std::to_string(tensor_ranks) + " does not divide " + name + " = " +
                std::to_string(size) + ", which the runtime deals out evenly");
  };
  require("num_kv_heads", model.num_kv_heads);
  require("vocab_size", model.vocab_size);
}

// Biases of row-parallel GEMMs are added to a sum, not to its parts; and each shared expert would
// have one of its own.
void require_experts(const sim::Moe& moe, const sim::Biases& bias, const sim::Strategy& strategy) {
  const int tensor_ranks = strategy.tp, expert_tensor_ranks = strategy.expert_tensor_ranks();
  refuse(expert_tensor_ranks != 1 && expert_tensor_ranks != tensor_ranks,
         "etp = " + std::to_string(expert_tensor_ranks) +
             " (it has 1, or tp = " + std::to_string(tensor_ranks) + ")");
  refuse(!strategy.plain_experts(),
         "experts loaded or reached otherwise than by an all-to-all of rows");
  const bool shared_bias = bias.mlp && moe.num_shared_experts > 0;
  refuse((expert_tensor_ranks > 1 && moe.expert_bias) || (tensor_ranks > 1 && shared_bias),
         "biases inside experts over tp = " + std::to_string(tensor_ranks));
  refuse(shared_bias && moe.num_shared_experts > 1,
         "bias.mlp in num_shared_experts = " + std::to_string(moe.num_shared_experts) +
             " (it has one)");
}

void require_mla(const sim::Transformer& model) {
  const int rotary = model.mla->qk_rope_head_dim;
  refuse(model.norm != sim::Norm::RmsNorm,
         std::string("MLA with norm = ") + sim::name_of(model.norm) + " (it has rmsnorm)");
  refuse(model.position != sim::Position::Rope,
         std::string("MLA with position = ") + sim::name_of(model.position) + " (it has rope)");
  refuse(model.bias.qkv, "MLA with bias.qkv = true");
  refuse(rotary == 0 || rotary % 2 != 0, "mla.qk_rope_head_dim = " + std::to_string(rotary) +
                                             " (it turns halves: even, at least 2)");
}

MlaHeadShape mla_head_shape(const RankShape& shape, const sim::Mla& mla) {
  return {.batch = shape.batch,
          .seq_len = shape.seq_len,
          .heads = shape.heads,
          .plain = mla.qk_nope_head_dim,
          .rotary = mla.qk_rope_head_dim,
          .value = mla.v_head_dim};
}

void require_what_is_executed(const sim::Transformer& model) {
  if (model.mla) require_mla(model);
  refuse(model.encoder.has_value(), "an encoder");
  refuse(model.num_labels.has_value(), "num_labels");
  refuse(sim::is_hybrid(model), "a hybrid, layer_pattern = " + model.layer_pattern.value_or(""));
  refuse(model.sparse_attention.has_value(), "sparse_attention");
  refuse(model.residual_streams > 1, "residual_streams");
  refuse(model.laurel_rank.has_value(), "laurel_rank");
  refuse(model.layer_embedding.has_value(), "layer_embedding");
  refuse(model.ngram_embedding.has_value(), "ngram_embedding");
  refuse(model.attention_gate, "attention_gate = true");
  refuse(model.attention_head_gate, "attention_head_gate = true");
  refuse(model.value_head_dim.has_value(), "value_head_dim");
  refuse(model.keys_as_values, "keys_as_values = true");
  refuse(model.query_rank.has_value(), "query_rank");
  refuse(model.layer_scalars > 0, "layer_scalars = " + std::to_string(model.layer_scalars));
  refuse(model.moe && model.moe->latent_size, "moe.latent_size");
  refuse(model.moe && (model.moe->branch_norms || model.moe->router_scales),
         "moe.branch_norms or moe.router_scales");
  refuse(model.moe && model.moe->num_zero_experts > 0, "moe.num_zero_experts");
  refuse(model.mtp_layers > 0, "mtp_layers = " + std::to_string(model.mtp_layers));
  refuse(model.parallel_block, "parallel_block = true");
  refuse(model.norms_per_layer != 2,
         "norms_per_layer = " + std::to_string(model.norms_per_layer) + " (it has 2)");
  refuse(model.qk_norm != sim::QkNorm::None, "qk_norm");
  refuse(model.embedding_norm, "embedding_norm = true");
  refuse(!model.final_norm, "final_norm = false");
  refuse(model.attention_sinks, "attention_sinks = true");
  refuse(model.position != sim::Position::Rope && model.position != sim::Position::Learned,
         std::string("position = ") + sim::name_of(model.position) + " (it has rope and learned)");
  refuse(model.bias.head, "bias.head = true");
}

}  // namespace

RankShape rank_shape(const sim::Transformer& model, const sim::Strategy& strategy, ShapeRank rank) {
  require_what_is_executed(model);
  const int n = strategy.tp;
  require_divisible(model, n);
  if (model.moe) require_experts(*model.moe, model.bias, strategy);
  RankShape shape{.batch = strategy.micro_batch,
                  .seq_len = model.seq_len,
                  .hidden = model.hidden_size,
                  .heads = model.num_heads / n,
                  .kv_heads = model.num_kv_heads / n,
                  .head_dim = model.head_dim,
                  .ffn = model.ffn_size / n,
                  .vocab = model.vocab_size / n,
                  .mla = {},
                  .tensor_ranks = n,
                  .tensor_rank = rank.tensor};
  if (model.mla) shape.mla = mla_head_shape(shape, *model.mla);
  if (!model.moe) return shape;
  const sim::ExpertShape experts = sim::expert_shape(model, strategy, {});
  shape.expert_ffn = experts.ffn, shape.shared_ffn = experts.shared_ffn;
  shape.experts = experts.experts, shape.expert_rank = rank.expert;
  shape.routes_shards = experts.routes_shards,
  shape.whole_experts = strategy.expert_tensor_ranks() == 1;
  return shape;
}

}  // namespace llmsim::runtime
