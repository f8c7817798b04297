#include "sim/model/parameters.h"

#include "sim/model/layer_weights.h"

namespace llmsim::sim {

namespace {

using Count = std::int64_t;

// A linear layer from `in` to `out` features.
Count linear(Count in, Count out, bool bias) { return in * out + (bias ? out : 0); }

std::int64_t& part_of(BlockParameters& block, LayerPart part) {
  switch (part) {
    case LayerPart::Norms: return block.norms;
    case LayerPart::Attention: return block.attention;
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
  const int layers = model.num_layers, ahead = model.mtp_layers;
  const int moe = count_moe_layers(model, 0, layers),
            moe_ahead = count_moe_layers(model, layers, ahead);
  add_layers(sum, model, LayerKind::Dense, layers - moe, ahead - moe_ahead);
  add_layers(sum, model, LayerKind::Moe, moe, moe_ahead);
  return sum;
}

}  // namespace llmsim::sim
