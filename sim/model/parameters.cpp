#include "sim/model/parameters.h"

#include "sim/model/layer_table.h"

#include "sim/model/tower.h"

namespace llmsim::sim {
namespace {

using Count = std::int64_t;

// Of attention to chosen keys, with queries from `rows` values.
void add_indexer(LayerTable& table, Count rows) {
  using enum WeightName;
  const auto& sparse = table.model.sparse_attention;
  if (!sparse || sparse->num_heads == 0) return;
  const Count heads = sparse->num_heads, width = sparse->head_dim;
  const auto& compressed = table.model.compressed_attention;
  const bool weighs = table.model.mla || compressed;
  const Count keys = (compressed ? 4 : 1) * width;  // with their weights in an entry, twice
  table.add({.name = IndexQuery, .rows = rows, .columns = heads * width, .detached = true});
  table.add({.name = IndexKey, .rows = table.hidden, .columns = keys, .detached = true});
  if (compressed) table.add({.name = IndexBias, .columns = 2 * width * compressed->entry_size});
  table.add({.name = IndexNorm,
             .columns = weighs ? width : 2 * width,
             .biases = table.model.mla.has_value()});
  if (weighs)
    table.add({.name = IndexWeights, .rows = table.hidden, .columns = heads, .detached = true});
}

void add_heads(LayerTable& table) {
  using enum WeightName;
  const Transformer& model = table.model;
  const Count a = model.num_heads, d = model.head_dim, v = attention_output_width(model) / a,
              queries = (model.query_rank ? 0 : a * d) + attention_gate_width(model),
              values = model.keys_as_values ? 0 : v;
  if (model.query_rank) {
    const Count rank = *model.query_rank;
    table.add({.name = QueryDown, .rows = table.hidden, .columns = rank});
    table.add({.name = QueryNorm, .columns = rank});
    table.column_parallel({.name = QueryUp, .rows = rank, .columns = a * d});
  }
  table.column_parallel(
      {.name = Qkv,
       .rows = table.hidden,
       .columns = queries + (model.shares_keys ? 0 : table.kv_heads * (d + values)),
       .biases = model.bias.qkv,
       .side_by_side = 3,
       .first_columns = queries});
  add_indexer(table, table.hidden);
  if (table.model.qk_norm == QkNorm::None || !table.model.norm_weight) return;
  const Count keys = model.shares_keys ? 0 : 1;
  const Count heads = model.qk_norm == QkNorm::PerHead ? 1 + keys : a + keys * model.num_kv_heads;
  table.column_parallel({.name = QkNorm, .columns = heads * d, .biases = table.model.bias.norm});
}

void add_mla(LayerTable& table, const Mla& mla) {
  using enum WeightName;
  const Count heads = table.model.num_heads, rank = mla.kv_lora_rank,
              queries = mla.q_lora_rank.value_or(0);
  const bool bias = table.model.bias.qkv;
  if (queries > 0) {
    table.add({.name = QueryDown, .rows = table.hidden, .columns = queries, .biases = bias});
    table.add({.name = QueryNorm, .columns = queries});
  }
  add_indexer(table, queries);
  table.add({.name = MlaDown,
             .rows = table.hidden,
             .columns = rank + mla.qk_rope_head_dim,
             .biases = bias});
  table.add({.name = MlaNorm, .columns = rank});
  const Count query_width = heads * query_head_dim(table.model);
  table.column_parallel(
      {.name = QueryUp, .rows = queries > 0 ? queries : table.hidden, .columns = query_width});
  table.column_parallel(
      {.name = MlaUp, .rows = rank, .columns = heads * (mla.qk_nope_head_dim + mla.v_head_dim)});
}

// Entries of several tokens: a weighted mean of each channel, of overlapping windows where an
// indexer chooses among them.
void add_compressor(LayerTable& table, const CompressedAttention& attention) {
  using enum WeightName;
  if (attention.entry_size == 0) return;
  const Count d = table.model.head_dim, width = (table.model.sparse_attention ? 2 : 1) * d;
  table.add({.name = CompressorInput, .rows = table.hidden, .columns = 2 * width});
  table.add({.name = CompressorBias, .columns = attention.entry_size * width});
  table.add({.name = CompressorNorm, .columns = d});
}

void add_compressed_attention(LayerTable& table, const CompressedAttention& attention) {
  using enum WeightName;
  const Count rank = attention.q_lora_rank, d = table.model.head_dim,
              width = attention_output_width(table.model);
  table.add({.name = QueryDown, .rows = table.hidden, .columns = rank});
  table.add({.name = QueryNorm, .columns = rank});
  add_indexer(table, rank);
  table.add({.name = MlaDown, .rows = table.hidden, .columns = d});
  table.add({.name = MlaNorm, .columns = d});
  table.column_parallel({.name = QueryUp, .rows = rank, .columns = width});
  add_compressor(table, attention);
  table.add({.name = OutputGroups,
             .rows = width,
             .columns = attention.output_rank,
             .divided = TensorAxis::Rows});
}

void add_projections(LayerTable& table) {
  if (table.model.compressed_attention)
    add_compressed_attention(table, *table.model.compressed_attention);
  else if (table.model.mla)
    add_mla(table, *table.model.mla);
  else
    add_heads(table);
}

void add_attention(LayerTable& table) {
  using enum WeightName;
  add_projections(table);
  if (table.model.attention_sinks)
    table.add(
        {.name = AttentionSinks, .columns = table.model.num_heads, .divided = TensorAxis::Columns});
  const auto& compressed = table.model.compressed_attention;
  table.row_parallel({.name = AttentionOutput,
                      .rows = compressed
                                  ? Count{compressed->output_groups} * compressed->output_rank
                                  : attention_output_width(table.model),
                      .biases = table.model.bias.attention_output});
}

// `like` says what both matrices have in common; of shared experts, which are one MLP, each has a
// bias below.  Its rows are the values of a token that the MLP reads, the hidden size unless
// given.
void add_mlp(LayerTable& table, WeightName up, WeightName down, Count width, LayerWeight like,
             int shared = 1) {
  const int matrices = table.model.gated_mlp ? 2 : 1;
  const Count outer = like.rows > 0 ? like.rows : table.hidden;
  like.name = up, like.rows = outer, like.columns = matrices * width, like.side_by_side = matrices;
  like.first_columns = (matrices - 1) * width;
  table.column_parallel(like);
  like.name = down, like.rows = width, like.side_by_side = 1, like.biases *= shared;
  like.first_columns = 0, like.columns = outer, like.divided = TensorAxis::Rows;
  table.add(like);
}

// The router, and what it and the branches around the experts learn in addition.
void add_router(LayerTable& table, const Moe& moe) {
  using enum WeightName;
  if (moe.branch_norms)
    table.add({.name = BranchNorms, .part = LayerPart::Norms, .columns = 3 * table.hidden});
  table.add({.name = Router,
             .part = LayerPart::Router,
             .rows = table.hidden,
             .columns = moe.num_experts + moe.num_zero_experts,
             .partial = true,
             .biases = moe.router_bias});
  if (moe.router_scales)
    table.add({.name = RouterScales,
               .part = LayerPart::Router,
               .columns = table.hidden + moe.num_experts});
}

void add_experts(LayerTable& table, const Moe& moe) {
  using enum WeightName;
  const LayerPart mlp_part = LayerPart::Mlp;
  const int shared = moe.num_shared_experts;
  const Count shared_width = Count{shared} * moe.shared_expert_ffn_size;
  add_router(table, moe);
  if (moe.latent_size) {
    const Count latent = *moe.latent_size;
    table.add({.name = LatentDown,
               .part = mlp_part,
               .rows = table.hidden,
               .columns = latent,
               .partial = true});
    table.add({.name = LatentUp,
               .part = mlp_part,
               .rows = latent,
               .columns = table.hidden,
               .partial = true});
  }
  if (shared > 0)
    add_mlp(table, SharedUp, SharedDown, shared_width,
            {.part = mlp_part, .biases = table.model.bias.mlp}, shared);
  if (moe.shared_expert_gate)
    table.add({.name = SharedGate,
               .part = mlp_part,
               .rows = table.hidden,
               .columns = 1,
               .partial = true});
  const LayerWeight routed{.part = LayerPart::Experts,
                           .rows = expert_row_size(table.model),
                           .biases = moe.expert_bias,
                           .count = moe.num_experts,
                           .visited = visited_experts(moe)};
  add_mlp(table, ExpertUp, ExpertDown, moe.expert_ffn_size, routed);
}

// Of the weighted sums of residual streams around each half of a layer.
void add_streams(LayerTable& table) {
  using enum WeightName;
  const Count m = table.model.residual_streams;
  if (m == 1) return;
  if (table.model.alternating_updates) {
    table.add({.name = StreamWeights,
               .part = LayerPart::Norms,
               .rows = table.hidden,
               .columns = m,
               .visited = 2});
    table.add({.name = StreamScales,
               .part = LayerPart::Norms,
               .columns = m * m * (1 + m) + 2 * table.hidden});
    return;
  }
  table.add({.name = StreamWeights,
             .part = LayerPart::Norms,
             .rows = m * table.hidden,
             .columns = m * (2 + m),
             .biases = 1,
             .count = 2,
             .visited = 2});
  table.add({.name = StreamScales, .part = LayerPart::Norms, .columns = 6});
}

void add_laurel(LayerTable& table) {
  using enum WeightName;
  if (!table.model.laurel_rank) return;
  const Count rank = *table.model.laurel_rank;
  table.add({.name = LaurelDown, .rows = table.hidden, .columns = rank});
  table.add({.name = LaurelUp, .rows = rank, .columns = table.hidden});
  table.norm(LaurelNorm, 1);
}

// What a layer does with its own embedding of a token, after its MLP.
void add_layer_input(LayerTable& table) {
  using enum WeightName;
  if (!table.model.layer_embedding) return;
  const Count width = table.model.layer_embedding->width;
  table.add(
      {.name = LayerInputGate, .part = LayerPart::Mlp, .rows = table.hidden, .columns = width});
  table.add({.name = LayerInputUp, .part = LayerPart::Mlp, .rows = width, .columns = table.hidden});
  table.norm(LayerInputNorm, 1);
}

void add_layer(LayerTable& table, LayerKind kind) {
  using enum WeightName;
  add_streams(table);
  if (kind.has_attention()) {
    table.norm(AttentionNorm, 1);
    add_attention(table);
    add_laurel(table);
    table.norm(PostAttentionNorm, 3);
  }
  if (const ScanMixer* mixer = scan_mixer(kind.mixer)) {
    if (!kind.has_attention()) table.norm(MixerNorm, 1);
    mixer->add_weights(table);
  }
  if (table.model.layer_scalars > 0)
    table.add({.name = LayerScalars, .part = LayerPart::Mlp, .columns = table.model.layer_scalars});
  add_layer_input(table);
  if (kind.mlp == LayerMlp::None) return;
  table.norm(MlpNorm, 2);
  kind.has_experts() ? add_experts(table, *table.model.moe)
                     : add_mlp(table, MlpUp, MlpDown, table.model.ffn_size,
                               {.part = LayerPart::Mlp, .biases = table.model.bias.mlp});
  table.norm(PostMlpNorm, 4);
}

}  // namespace

const char* name_of(WeightName name) {
  static constexpr const char* kNames[] = {
      "stream_weights", "stream_scales", "attention_norm", "qkv", "query_down", "query_norm",
      "index_query", "index_key", "index_norm", "index_weights", "index_bias", "compressor_input",
      "compressor_bias", "compressor_norm", "output_groups", "mla_down", "mla_norm", "query_up",
      "mla_up", "qk_norm", "attention_sinks", "attention_output", "laurel_down", "laurel_up",
      "laurel_norm", "post_attention_norm",
      // Of mixers, MLPs and experts.
      "mixer_norm", "mixer_input", "mixer_gates", "gate_down", "gate_up", "x_proj",
      "selection_norms", "dt_proj", "conv1d", "conv1d_bias", "a_log", "skip", "dt_bias",
      "gated_norm", "mixer_output", "mlp_norm", "mlp_up", "mlp_down", "layer_scalars",
      "branch_norms", "router", "router_scales", "latent_down", "latent_up", "shared_up",
      "shared_down", "shared_gate", "expert_up", "expert_down", "post_mlp_norm", "layer_input_gate",
      "layer_input_up", "layer_input_norm"};
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
  const std::optional<Transformer> own = own_shape(model, kind);
  const Transformer& seen = own ? *own : model;
  LayerTable table{
      .model = seen, .hidden = seen.hidden_size, .kv_heads = std::max(seen.num_kv_heads, kv_ranks)};
  add_layer(table, kind);
  return table.list;
}

int weight_tensors(const Transformer& model, LayerKind kind) {
  int tensors = 0;
  for (const LayerWeight& weight : layer_weights(model, kind)) tensors += weight.biases > 0 ? 2 : 1;
  return tensors;
}

namespace {

// A linear layer from `in` to `out` features.
Count linear(Count in, Count out, bool bias) { return in * out + (bias ? out : 0); }

// By LayerPart.
constexpr Count BlockParameters::*kParts[] = {
    &BlockParameters::norms, &BlockParameters::attention, &BlockParameters::mixers,
    &BlockParameters::mlp,   &BlockParameters::experts,   &BlockParameters::router};

BlockParameters block_of(const LayerWeights& weights) {
  BlockParameters block;
  for (const LayerWeight& weight : weights)
    block.*kParts[static_cast<std::size_t>(weight.part)] += weight.parameters();
  return block;
}

Count inactive(const LayerWeights& weights) {
  Count sum = 0;
  for (const LayerWeight& weight : weights)
    sum += weight.parameters() / weight.count * std::max(0, weight.count - weight.visited);
  return sum;
}

void add_layers(Parameters& sum, const Transformer& model, LayerKind kind, Count number,
                Count ahead) {
  if (number + ahead == 0) return;
  const LayerWeights weights = layer_weights(model, kind);
  const BlockParameters block = block_of(weights);
  sum.add(block, number);
  // A projection of [hidden state, next token's embedding] to the hidden size, a norm for each of
  // the two, and one before the shared head.
  const Count h = model.hidden_size,
              prediction = linear(2 * h, h, false) + 3 * norm_parameters(model);
  sum.mtp += ahead * (block.total() + prediction);
  sum.inactive += (number + ahead) * inactive(weights);
}

}  // namespace

void BlockParameters::add(const BlockParameters& other, Count times) {
  attention += times * other.attention, mixers += times * other.mixers, mlp += times * other.mlp;
  experts += times * other.experts, router += times * other.router, norms += times * other.norms;
}

std::int64_t norm_parameters(const Transformer& model) {
  return model.norm_weight ? model.hidden_size * (model.bias.norm ? 2 : 1) : 0;
}

BlockParameters block_parameters(const Transformer& model, int layer) {
  return block_of(layer_weights(model, kind_of_layer(model, layer)));
}

std::int64_t undivided_head_parameters(const Transformer& model) {
  const Count h = model.hidden_size;
  const Count pooler = has_pooler(model) ? linear(h, h, true) : 0,
              streams = stream_projection_weights(model);
  if (model.num_labels) return streams + pooler + linear(h, *model.num_labels, model.bias.head);
  if (!model.encoder) return streams;
  const Count sentences = has_pooler(model) ? linear(h, 2, true) : 0;
  return linear(h, h, true) + norm_parameters(model) + pooler + sentences;
}

std::int64_t ngram_tables(const Transformer& model) {
  if (!model.ngram_embedding) return 0;
  const Count tables = model.ngram_embedding->num_tables;
  return tables * (model.ngram_embedding->vocab_size + tables) * model.ngram_embedding->width;
}

std::int64_t ngram_projections(const Transformer& model) {
  if (!model.ngram_embedding) return 0;
  return Count{model.ngram_embedding->num_tables} * model.ngram_embedding->width *
         model.hidden_size;
}

Parameters embedding_and_head_parameters(const Transformer& model) {
  const Count h = model.hidden_size;
  Parameters sum;
  sum.embedding = model.vocab_size * h;
  if (model.position == Position::Learned)
    sum.positions = (model.max_positions ? model.max_positions : model.seq_len) * h;
  if (model.encoder) sum.positions += model.encoder->segment_types * h;
  if (const auto& own = model.layer_embedding)
    sum.positions += (own->vocab_size + h) * Count{model.num_layers} * own->width + own->width;
  sum.positions +=
      stream_projection_weights(model) + ngram_tables(model) + ngram_projections(model);
  sum.norms = (model.embedding_norm ? norm_parameters(model) : 0) +
              (model.final_norm ? norm_parameters(model) : 0);
  if (!model.tied_embeddings && !model.num_labels)
    sum.head = linear(h, model.vocab_size, model.bias.head);
  if (model.tied_embeddings && model.bias.head) sum.head = model.vocab_size;
  sum.head += undivided_head_parameters(model);
  sum.towers = running_tower_parameters(model);
  // One weighted sum of all residual streams before the head.
  const Count m = model.residual_streams;
  if (weighs_streams(model)) sum.head += m * m * h + m + 1;
  return sum;
}

Parameters parameters(const Transformer& model) {
  Parameters sum = embedding_and_head_parameters(model);
  const LayerKinds kinds = layer_kinds(model);
  const LayerCounts layers = count_layers(model, 0, model.num_layers),
                    ahead = count_layers(model, model.num_layers, model.mtp_layers);
  for (std::size_t slot = 0; slot < kinds.size(); ++slot)
    add_layers(sum, model, kinds[slot], layers[slot], ahead[slot]);
  return sum;
}

}  // namespace llmsim::sim
