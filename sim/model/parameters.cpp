#include "sim/model/parameters.h"

namespace llmsim::sim {
namespace {

using Count = std::int64_t;

class Table {
  using enum WeightName;

 public:
  Table(const Transformer& model, Count kv_heads, LayerWeights& list)
      : model_(model), h_(model.hidden_size), kv_heads_(kv_heads), list_(list) {}

  void add_layer(LayerKind kind) {
    if (kind.has_attention()) {
      norm(AttentionNorm, 1);
      attention();
      norm(PostAttentionNorm, 3);
    }
    if (kind.mixer == Mixer::Mamba2) mamba(*model_.mamba);
    if (kind.mixer == Mixer::GatedDeltaNet) delta_net(*model_.gated_delta_net);
    if (kind.mlp == LayerMlp::None) return;
    norm(MlpNorm, 2);
    kind.has_experts()
        ? experts(*model_.moe)
        : mlp(MlpUp, MlpDown, model_.ffn_size, {.part = LayerPart::Mlp, .biases = model_.bias.mlp});
    norm(PostMlpNorm, 4);
  }

 private:
  void add(const LayerWeight& weight) { list_.add(weight); }

  void column_parallel(LayerWeight weight) {
    weight.divided = TensorAxis::Columns;
    add(weight);
  }

  void row_parallel(LayerWeight weight) {
    weight.divided = TensorAxis::Rows, weight.columns = h_;
    add(weight);
  }

  // In layers of at least `norms`.
  void norm(WeightName name, int norms) {
    if (model_.norm_weight && model_.norms_per_layer >= norms)
      add({.name = name, .part = LayerPart::Norms, .columns = h_, .biases = model_.bias.norm});
  }

  void attention() {
    model_.mla ? mla(*model_.mla) : heads();
    if (model_.attention_sinks)
      add({.name = AttentionSinks, .columns = model_.num_heads, .divided = TensorAxis::Columns});
    row_parallel({.name = AttentionOutput,
                  .rows = attention_output_width(model_),
                  .biases = model_.bias.attention_output});
  }

  void heads() {
    const Count a = model_.num_heads, d = model_.head_dim,
                queries = (model_.attention_gate ? 2 : 1) * a,
                width = (queries + 2 * kv_heads_) * d;
    column_parallel({.name = Qkv,
                     .rows = h_,
                     .columns = width,
                     .biases = model_.bias.qkv,
                     .side_by_side = 3,
                     .first_columns = queries * d});
    if (model_.qk_norm == QkNorm::None || !model_.norm_weight) return;
    const Count heads = model_.qk_norm == QkNorm::PerHead ? 2 : a + model_.num_kv_heads;
    column_parallel({.name = QkNorm, .columns = heads * d, .biases = model_.bias.norm});
  }

  void mla(const Mla& mla) {
    const Count heads = model_.num_heads, rank = mla.kv_lora_rank,
                queries = mla.q_lora_rank.value_or(0);
    const bool bias = model_.bias.qkv;
    if (queries > 0) {
      add({.name = QueryDown, .rows = h_, .columns = queries, .biases = bias});
      add({.name = QueryNorm, .columns = queries});
    }
    add({.name = MlaDown, .rows = h_, .columns = rank + mla.qk_rope_head_dim, .biases = bias});
    add({.name = MlaNorm, .columns = rank});
    const Count query_width = heads * query_head_dim(model_);
    queries > 0
        ? column_parallel({.name = QueryUp, .rows = queries, .columns = query_width})
        : column_parallel({.name = QueryUp, .rows = h_, .columns = query_width, .biases = bias});
    column_parallel(
        {.name = MlaUp, .rows = rank, .columns = heads * (mla.qk_nope_head_dim + mla.v_head_dim)});
  }

  // A vector that tensor ranks divide.
  void divided_vector(WeightName name, Count size) {
    column_parallel({.name = name, .part = LayerPart::Mixer, .columns = size});
  }

  void mamba(const Mamba& mamba) {
    const Count inner = mamba.inner_size(), channels = mamba.conv_channels(),
                heads = mamba.num_heads;
    norm(MixerNorm, 1);
    column_parallel({.name = MixerInput,
                     .part = LayerPart::Mixer,
                     .rows = h_,
                     .columns = inner + channels + heads});
    divided_vector(Convolution, channels * mamba.conv_kernel);
    divided_vector(ConvolutionBias, channels);
    for (const WeightName name : {DecayLog, Skip, StepBias}) divided_vector(name, heads);
    divided_vector(GatedNorm, inner);
    row_parallel({.name = MixerOutput, .part = LayerPart::Mixer, .rows = inner});
  }

  void delta_net(const GatedDeltaNet& net) {
    const Count values = net.value_size(), heads = net.num_value_heads;
    const auto input = [&](WeightName name, Count columns) {
      column_parallel({.name = name, .part = LayerPart::Mixer, .rows = h_, .columns = columns});
    };
    norm(MixerNorm, 1);
    input(MixerInput, 2 * net.key_size() + 2 * values);
    input(MixerGates, 2 * heads);
    divided_vector(Convolution, Count{net.conv_channels()} * net.conv_kernel);
    for (const WeightName name : {DecayLog, StepBias}) divided_vector(name, heads);
    add({.name = GatedNorm, .part = LayerPart::Mixer, .columns = net.value_head_dim});
    row_parallel({.name = MixerOutput, .part = LayerPart::Mixer, .rows = values});
  }

  // `like` says what both matrices have in common; of shared experts, which are one MLP, each has a
  // bias below.  Its rows are the values of a token that the MLP reads, the hidden size unless
  // given.
  void mlp(WeightName up, WeightName down, Count width, LayerWeight like, int shared = 1) {
    const int matrices = model_.gated_mlp ? 2 : 1;
    const Count outer = like.rows > 0 ? like.rows : h_;
    like.name = up, like.rows = outer, like.columns = matrices * width,
    like.side_by_side = matrices;
    like.first_columns = (matrices - 1) * width;
    column_parallel(like);
    like.name = down, like.rows = width, like.side_by_side = 1, like.biases *= shared;
    like.first_columns = 0, like.columns = outer, like.divided = TensorAxis::Rows;
    add(like);
  }

  void experts(const Moe& moe) {
    const LayerPart mlp_part = LayerPart::Mlp;
    const int shared = moe.num_shared_experts;
    const Count shared_width = Count{shared} * moe.shared_expert_ffn_size;
    const LayerWeight router{.name = Router,
                             .part = LayerPart::Router,
                             .rows = h_,
                             .columns = moe.num_experts,
                             .partial = true,
                             .biases = moe.router_bias};
    add(router);
    if (moe.latent_size) {
      const Count latent = *moe.latent_size;
      add({.name = LatentDown, .part = mlp_part, .rows = h_, .columns = latent, .partial = true});
      add({.name = LatentUp, .part = mlp_part, .rows = latent, .columns = h_, .partial = true});
    }
    if (shared > 0)
      mlp(SharedUp, SharedDown, shared_width, {.part = mlp_part, .biases = model_.bias.mlp},
          shared);
    if (moe.shared_expert_gate)
      add({.name = SharedGate, .part = mlp_part, .rows = h_, .columns = 1, .partial = true});
    const LayerWeight routed{.part = LayerPart::Experts,
                             .rows = expert_row_size(model_),
                             .biases = moe.expert_bias,
                             .count = moe.num_experts,
                             .visited = moe.top_k};
    mlp(ExpertUp, ExpertDown, moe.expert_ffn_size, routed);
  }

  const Transformer& model_;
  Count h_, kv_heads_;
  LayerWeights& list_;
};

}  // namespace

const char* name_of(WeightName name) {
  static constexpr const char* kNames[] = {"attention_norm",
                                           "qkv",
                                           "query_down",
                                           "query_norm",
                                           "mla_down",
                                           "mla_norm",
                                           "query_up",
                                           "mla_up",
                                           "qk_norm",
                                           "attention_sinks",
                                           "attention_output",
                                           "post_attention_norm",
                                           "mixer_norm",
                                           "mixer_input",
                                           "mixer_gates",
                                           "conv1d",
                                           "conv1d_bias",
                                           "a_log",
                                           "skip",
                                           "dt_bias",
                                           "gated_norm",
                                           "mixer_output",
                                           "mlp_norm",
                                           "mlp_up",
                                           "mlp_down",
                                           "router",
                                           "latent_down",
                                           "latent_up",
                                           "shared_up",
                                           "shared_down",
                                           "shared_gate",
                                           "expert_up",
                                           "expert_down",
                                           "post_mlp_norm"};
  return kNames[static_cast<std::size_t>(name)];
}

std::int64_t LayerWeight::replicated() const {
  if (divided == TensorAxis::None) return parameters();
  return divided == TensorAxis::Rows ? bias_parameters() : 0;
}

LayerWeight LayerWeight::on_rank(int ranks) const {
  LayerWeight share = *this;
  if (divided == TensorAxis::Rows) share.rows /= ranks;
  if (divided == TensorAxis::Columns) share.columns /= ranks, share.first_columns /= ranks;
  return share;
}

LayerWeights layer_weights(const Transformer& model, LayerKind kind, int kv_ranks) {
  LayerWeights list;
  Table(model, std::max(model.num_kv_heads, kv_ranks), list).add_layer(kind);
  return list;
}

int weight_tensors(const Transformer& model, LayerKind kind) {
  int tensors = 0;
  for (const LayerWeight& weight : layer_weights(model, kind)) tensors += weight.biases > 0 ? 2 : 1;
  return tensors;
}

namespace {

// A linear layer from `in` to `out` features.
Count linear(Count in, Count out, bool bias) { return in * out + (bias ? out : 0); }

std::int64_t& part_of(BlockParameters& block, LayerPart part) {
  switch (part) {
    case LayerPart::Norms: return block.norms;
    case LayerPart::Attention: return block.attention;
    case LayerPart::Mixer: return block.mixers;
    case LayerPart::Mlp: return block.mlp;
    case LayerPart::Experts: return block.experts;
    case LayerPart::Router: break;
  }
  return block.router;
}

BlockParameters block_of(const LayerWeights& weights) {
  BlockParameters block;
  for (const LayerWeight& weight : weights) part_of(block, weight.part) += weight.parameters();
  return block;
}

Count inactive(const LayerWeights& weights) {
  Count sum = 0;
  for (const LayerWeight& weight : weights)
    sum += weight.parameters() / weight.count * (weight.count - weight.visited);
  return sum;
}

// A projection of [hidden state, next token's embedding] to the hidden size, a norm for each of the
// two, and one before the shared head.
Count prediction_parameters(const Transformer& m) {
  const Count h = m.hidden_size;
  return linear(2 * h, h, false) + 3 * norm_parameters(m);
}

void add_layers(Parameters& sum, const Transformer& model, LayerKind kind, Count number,
                Count ahead) {
  if (number + ahead == 0) return;
  const LayerWeights weights = layer_weights(model, kind);
  const BlockParameters block = block_of(weights);
  sum.attention += number * block.attention;
  sum.mixers += number * block.mixers;
  sum.mlp += number * block.mlp;
  sum.experts += number * block.experts;
  sum.router += number * block.router;
  sum.norms += number * block.norms;
  sum.mtp += ahead * (block.total() + prediction_parameters(model));
  sum.inactive += (number + ahead) * inactive(weights);
}

}  // namespace

std::int64_t norm_parameters(const Transformer& model) {
  return model.norm_weight ? model.hidden_size * (model.bias.norm ? 2 : 1) : 0;
}

BlockParameters block_parameters(const Transformer& model, int layer) {
  return block_of(layer_weights(model, kind_of_layer(model, layer)));
}

std::int64_t encoder_head_parameters(const Transformer& model) {
  if (!model.encoder) return 0;
  const Count h = model.hidden_size;
  const Count sentences =
      model.encoder->next_sentence ? linear(h, h, true) + linear(h, 2, true) : 0;
  return linear(h, h, true) + norm_parameters(model) + sentences;
}

Parameters parameters_of_ends(const Transformer& model) {
  const Count h = model.hidden_size;
  Parameters sum;
  sum.embedding = model.vocab_size * h;
  if (model.position == Position::Learned)
    sum.positions = (model.max_positions ? model.max_positions : model.seq_len) * h;
  if (model.encoder) sum.positions += model.encoder->segment_types * h;
  sum.norms = (model.embedding_norm ? norm_parameters(model) : 0) +
              (model.final_norm ? norm_parameters(model) : 0);
  if (!model.tied_embeddings) sum.head = linear(h, model.vocab_size, model.bias.head);
  if (model.tied_embeddings && model.bias.head) sum.head = model.vocab_size;
  sum.head += encoder_head_parameters(model);
  return sum;
}

Parameters parameters(const Transformer& model) {
  Parameters sum = parameters_of_ends(model);
  const LayerKinds kinds = layer_kinds(model);
  const LayerCounts layers = count_layers(model, 0, model.num_layers),
                    ahead = count_layers(model, model.num_layers, model.mtp_layers);
  for (std::size_t slot = 0; slot < kinds.size(); ++slot)
    add_layers(sum, model, kinds[slot], layers[slot], ahead[slot]);
  return sum;
}

}  // namespace llmsim::sim
