#include "sim/memory/shards.h"

#include <algorithm>

namespace llmsim::sim {
namespace {

// Widths (in, out) of the adapted linear layers of a block, summed: each adapter has rank * (in + out) values.
double adapted_widths(const Transformer& model, const Adapters& adapters) {
  const double h = model.hidden_size;
  const double q = static_cast<double>(model.num_heads) * model.head_dim,
               kv = static_cast<double>(model.num_kv_heads) * model.head_dim;
  double widths = (h + q) + (h + kv);
  if (adapters.all_linear) {
    widths += (h + kv) + (q + h);
    widths += (model.gated_mlp ? 3.0 : 2.0) * (h + model.ffn_size);
  }
  return widths;
}

// 4-bit values with one fp32 scale per 64 of them.
constexpr double kPackedFourBit = 0.5 + 4.0 / 64.0;

}  // namespace

RankParameters rank_parameters(const Transformer& model, const Strategy& strategy) {
  const double tensor = strategy.tensor_parallel;
  const Parameters whole = parameters(model);
  const double layers = model.num_layers;
  const double matrices = static_cast<double>(whole.attention + whole.mlp + whole.experts + whole.router);
  RankParameters rank;
  if (model.final_norm && model.norm_weight) rank.final_norm = model.hidden_size * (model.bias.norm ? 2.0 : 1.0);
  const double row_biases = model.hidden_size * ((model.bias.attention_output ? 1.0 : 0.0) + (model.bias.mlp ? 1.0 : 0.0));
  rank.block_replicated = (static_cast<double>(whole.norms) - rank.final_norm) / layers + row_biases;
  rank.block = (matrices / layers - row_biases) / tensor + rank.block_replicated;
  rank.embedding = static_cast<double>(whole.embedding) / tensor + static_cast<double>(whole.positions);
  const double head = model.tied_embeddings ? static_cast<double>(whole.embedding) : static_cast<double>(whole.head);
  rank.head = head / tensor + rank.final_norm;
  rank.tied = model.tied_embeddings;
  rank.adapted = strategy.adapters.has_value();
  if (strategy.adapters) rank.block_adapters = strategy.adapters->rank * adapted_widths(model, *strategy.adapters) / tensor;
  return rank;
}

double RankParameters::ends(const ModelPart& part) const {
  double sum = 0.0;
  if (part.embedding) sum += embedding;
  if (part.head) sum += tied && part.embedding ? final_norm : head;
  return sum;
}

double RankParameters::held(const ModelPart& part) const { return part.blocks * block + ends(part); }

double RankParameters::trained(const ModelPart& part) const { return adapted ? part.blocks * block_adapters : held(part); }

StateShards state_shards(const Strategy& strategy) {
  const double ranks = strategy.shard_ranks();
  StateShards shards;
  if (strategy.sharding == Sharding::None) return shards;
  shards.optimizer = ranks;
  if (strategy.sharding != Sharding::Zero1) shards.gradients = ranks;
  if (strategy.sharding == Sharding::Zero3 || strategy.sharding == Sharding::Hsdp) shards.weights = ranks;
  return shards;
}

double checkpoint_spacing(const Strategy& strategy, const Stack& stack) {
  return std::max(1.0, strategy.recompute.every_n / stack.kept.parts_per_block);
}

bool divides_checkpoints(const Strategy& strategy, const Stack& stack) {
  return stack.kept.partitioned_checkpoints && strategy.recompute.kind == RecomputeKind::Full && !strategy.sequence_parallel;
}

double stored_inputs_per_block(const Strategy& strategy, const Stack& stack) {
  if (strategy.recompute.kind != RecomputeKind::Full) return 1.0;
  const double share = divides_checkpoints(strategy, stack) ? strategy.tensor_parallel : 1.0;
  return 1.0 / (checkpoint_spacing(strategy, stack) * share);
}

ParameterStorage storage_of(const Strategy& strategy, const Stack& stack) {
  ParameterStorage storage = stack.storage;
  if (size_of(activation_dtype(strategy.precision)) == size_of(DType::Fp32)) {
    storage.weight_bytes = storage.gradient_bytes = 4.0;
    storage.main_gradient_bytes = storage.master_bytes = 0.0;
  }
  if (strategy.precision == Precision::Nf4 || strategy.precision == Precision::Int4) storage.weight_bytes = kPackedFourBit;
  return storage;
}

}  // namespace llmsim::sim
