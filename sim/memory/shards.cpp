#include "sim/memory/shards.h"

#include <algorithm>

namespace llmsim::sim {
namespace {

// The same of MLA: the GEMMs that make queries and values, or all of them.
double mla_widths(const Transformer& model, const Mla& mla, bool all) {
  const double h = model.hidden_size, heads = model.num_heads, rank = mla.kv_lora_rank, query = mla.q_lora_rank.value_or(0);
  const double up = (query > 0.0 ? query : h) + heads * query_head_dim(model);
  const double values = rank + heads * (mla.qk_nope_head_dim + mla.v_head_dim);
  if (!all) return up + values;
  const double down = (query > 0.0 ? h + query : 0.0) + h + rank + mla.qk_rope_head_dim;
  return up + values + down + attention_output_width(model) + h;
}

// Widths (in, out) of the adapted linear layers of a block, summed: each adapter has rank * (in + out) values.
double adapted_widths(const Transformer& model, const Adapters& adapters) {
  const double h = model.hidden_size;
  if (model.mla) return mla_widths(model, *model.mla, adapters.all_linear);
  const double q = static_cast<double>(model.num_heads) * model.head_dim,
               kv = static_cast<double>(model.num_kv_heads) * model.head_dim;
  double widths = (h + q) + (h + kv);
  if (adapters.all_linear) {
    widths += (h + kv) + (q + h);
    if (model.moe) return widths;  // experts stay as they are
    widths += (model.gated_mlp ? 3.0 : 2.0) * (h + model.ffn_size);
  }
  return widths;
}

// The bottlenecks of MLA with their norms, which every tensor rank has whole.
double mla_parameters(const Transformer& model) {
  if (!model.mla) return 0.0;
  const double h = model.hidden_size, bias = model.bias.qkv ? 1.0 : 0.0, query = model.mla->q_lora_rank.value_or(0);
  const double rank = model.mla->kv_lora_rank, rope = model.mla->qk_rope_head_dim;
  return (h + bias) * (query + rank + rope) + query + rank;
}

double norm_parameters(const Transformer& model) {
  return model.norm_weight ? model.hidden_size * (model.bias.norm ? 2.0 : 1.0) : 0.0;
}

void set_dense_block(RankParameters& rank, const Transformer& model, const BlockParameters& block, double tensor) {
  const double attention_bias = model.bias.attention_output ? model.hidden_size : 0.0;
  const double mlp_bias = model.bias.mlp ? model.hidden_size : 0.0;
  rank.block_replicated = static_cast<double>(block.norms) + attention_bias + mlp_bias + mla_parameters(model);
  rank.block =
      (static_cast<double>(block.attention + block.mlp + block.norms) - rank.block_replicated) / tensor + rank.block_replicated;
}

void set_moe_block(RankParameters& rank, const Transformer& model, const BlockParameters& block, const Strategy& strategy) {
  const double tensor = strategy.tp;
  const Moe& moe = *model.moe;
  const double h = model.hidden_size, gate = moe.shared_expert_gate ? h : 0.0;
  const double row_biases = (model.bias.attention_output ? h : 0.0) + (model.bias.mlp ? moe.num_shared_experts * h : 0.0);
  const double down_biases = moe.expert_bias ? moe.num_experts * h : 0.0;
  const double latents = mla_parameters(model);
  rank.moe_replicated = static_cast<double>(block.norms) + row_biases + latents;
  rank.moe_partial = static_cast<double>(block.router) + gate;
  rank.moe_block = (static_cast<double>(block.attention + block.mlp) - row_biases - gate - latents) / tensor +
                   rank.moe_replicated + rank.moe_partial;
  rank.experts = (static_cast<double>(block.experts) - down_biases) / strategy.expert_tensor_ranks() + down_biases;
}

// Both kinds of block of a model with experts, as far as it has them.
void set_blocks(RankParameters& rank, const Transformer& model, const Strategy& strategy) {
  rank.block = rank.block_replicated = 0.0;
  bool dense = false, moe = false;  // seen
  for (int layer = 0; layer < model.num_layers && !(dense && moe); ++layer) {
    bool& seen = is_moe_layer(model, layer) ? moe : dense;
    if (seen) continue;
    seen = true;
    const BlockParameters block = block_parameters(model, layer);
    if (&seen == &moe)
      set_moe_block(rank, model, block, strategy);
    else
      set_dense_block(rank, model, block, strategy.tp);
  }
  rank.experts /= strategy.ep;
  rank.experts_divided = strategy.experts_apart();
  if (model.embedding_norm) rank.embedding += norm_parameters(model);
}

// 4-bit values with one fp32 scale per 64 of them.
constexpr double kPackedFourBit = 0.5 + 4.0 / 64.0;

StateShards shards_over(double ranks, const Strategy& strategy) {
  StateShards shards;
  if (strategy.sharding == Sharding::None) return shards;
  shards.optimizer = ranks;
  if (strategy.sharding != Sharding::Zero1) shards.gradients = ranks;
  if (strategy.sharding == Sharding::Zero3 || strategy.sharding == Sharding::Hsdp) shards.weights = ranks;
  return shards;
}

}  // namespace

RankParameters rank_parameters(const Transformer& model, const Strategy& strategy) {
  const double tensor = strategy.tp;
  const Parameters whole = parameters(model);
  const double layers = model.num_layers;
  const double matrices = static_cast<double>(whole.attention + whole.mlp + whole.experts + whole.router);
  RankParameters rank;
  const double final_norm = model.final_norm ? norm_parameters(model) : 0.0;
  const double encoder_head = static_cast<double>(encoder_head_parameters(model));
  rank.head_layers = final_norm + encoder_head;
  const double row_biases = model.hidden_size * ((model.bias.attention_output ? 1.0 : 0.0) + (model.bias.mlp ? 1.0 : 0.0));
  const double latents = mla_parameters(model);
  rank.block_replicated = (static_cast<double>(whole.norms) - final_norm) / layers + row_biases + latents;
  rank.block = (matrices / layers - row_biases - latents) / tensor + rank.block_replicated;
  rank.embedding = static_cast<double>(whole.embedding) / tensor + static_cast<double>(whole.positions);
  const double head =
      model.tied_embeddings ? static_cast<double>(whole.embedding) : static_cast<double>(whole.head) - encoder_head;
  rank.head = head / tensor + rank.head_layers;
  rank.tied = model.tied_embeddings;
  rank.predicts = model.mtp_layers > 0;
  const double h = model.hidden_size;
  rank.prediction = model.mtp_layers * (2.0 * h * h / tensor + 3.0 * norm_parameters(model));
  rank.adapted = strategy.adapters.has_value();
  if (model.moe) set_blocks(rank, model, strategy);
  if (strategy.adapters) rank.block_adapters = strategy.adapters->rank * adapted_widths(model, *strategy.adapters) / tensor;
  return rank;
}

double RankParameters::ends(const ModelPart& part) const {
  double sum = 0.0;
  if (part.embedding) sum += embedding;
  if (part.head) sum += prediction + (tied && part.has_table() ? head_layers : head);
  if (part.head && predicts && !tied && !part.has_table()) sum += embedding;
  return sum;
}

double RankParameters::read_ends(ModelPart part) const {
  part.meets_embedding = false;
  return ends(part);
}

double RankParameters::blocks(const ModelPart& part) const {
  return part.moe_blocks == 0 ? part.blocks * block : part.dense_blocks() * block + part.moe_blocks * (moe_block + experts);
}

double RankParameters::held(const ModelPart& part) const { return blocks(part) + ends(part); }

double RankParameters::apart(const ModelPart& part) const { return experts_divided ? part.moe_blocks * experts : 0.0; }

double RankParameters::trained(const ModelPart& part) const { return adapted ? part.blocks * block_adapters : held(part); }

StateShards state_shards(const Strategy& strategy) { return shards_over(strategy.shard_ranks(), strategy); }
StateShards expert_state_shards(const Strategy& strategy) { return shards_over(strategy.expert_shard_ranks(), strategy); }

double checkpoint_spacing(const Strategy& strategy, const Framework& framework) {
  return std::max(1.0, strategy.recompute.every_n / framework.kept.parts_per_block);
}

bool divides_checkpoints(const Strategy& strategy, const Framework& framework) {
  return strategy.tp > 1 && framework.kept.partitioned_checkpoints && strategy.recompute.kind == RecomputeKind::Full &&
         !strategy.sequence_parallel;
}

double stored_inputs_per_block(const Strategy& strategy, const Framework& framework) {
  if (strategy.recompute.kind != RecomputeKind::Full) return 1.0;
  const double share = divides_checkpoints(strategy, framework) ? strategy.tp : 1.0;
  return 1.0 / (checkpoint_spacing(strategy, framework) * share);
}

ParameterStorage storage_of(const Strategy& strategy, const Framework& framework) {
  ParameterStorage storage = framework.storage;
  if (size_of(activation_dtype(strategy.precision)) == size_of(DType::Fp32)) {
    storage.weight_bytes = storage.gradient_bytes = 4.0;
    storage.main_gradient_bytes = storage.master_bytes = 0.0;
  }
  if (strategy.precision == Precision::Nf4 || strategy.precision == Precision::Int4) storage.weight_bytes = kPackedFourBit;
  return storage;
}

}  // namespace llmsim::sim
