#include "sim/model/catalogue/families.h"

namespace llmsim::sim {

Transformer llama(const LlamaShape& shape) {
  return {.name = shape.name,
          .num_layers = shape.layers,
          .hidden_size = shape.hidden,
          .num_heads = shape.heads,
          .num_kv_heads = shape.kv_heads,
          .head_dim = shape.hidden / shape.heads,
          .ffn_size = shape.ffn,
          .vocab_size = shape.vocab,
          .seq_len = shape.seq_len,
          .gated_mlp = true,
          .norm = Norm::RmsNorm,
          .position = Position::Rope};
}

Transformer tied(Transformer model) {
  model.tied_embeddings = true;
  return model;
}

Transformer moe(Transformer model, const Moe& moe) {
  model.moe = moe;
  return model;
}

}  // namespace llmsim::sim
