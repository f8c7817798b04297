#include "sim/model/vision_tower.h"

#include <algorithm>

#include "sim/model/flops.h"
#include "sim/model/parameters.h"

namespace llmsim::sim {

Transformer tower_layers(const Transformer& model) {
  const VisionTower& vision = *model.vision;
  Transformer layers;
  layers.name = model.name;
  layers.num_layers = vision.num_layers, layers.hidden_size = vision.hidden_size;
  layers.num_heads = layers.num_kv_heads = vision.num_heads;
  layers.head_dim = vision.hidden_size / vision.num_heads;
  layers.ffn_size = vision.ffn_size, layers.gated_mlp = vision.gated_mlp;
  const bool bias = vision.bias;
  layers.bias = {.qkv = bias,
                 .attention_output = bias,
                 .mlp = bias,
                 .norm = bias && vision.norm == Norm::LayerNorm};
  layers.norm = vision.norm, layers.norms_per_layer = vision.norms_per_layer;
  layers.qk_norm = vision.qk_norm, layers.final_norm = false;
  layers.encoder = Encoder{.segment_types = 0};
  layers.vocab_size = 1;
  layers.seq_len = std::max(1, vision.image_tokens * vision.merged_patches);
  layers.document_len = std::min(vision.image_patches, layers.seq_len);
  return layers;
}

std::int64_t projector_weights(const Transformer& model) {
  const VisionTower& vision = *model.vision;
  const std::int64_t in = vision.projector_in, ffn = vision.projector_ffn, out = model.hidden_size;
  return vision.projectors * (ffn > 0 ? in * ffn + ffn * out : in * out);
}

std::int64_t vision_parameters(const Transformer& model) {
  if (!model.vision) return 0;
  const VisionTower& vision = *model.vision;
  return vision.num_layers * block_parameters(tower_layers(model), 0).total() +
         std::int64_t{vision.patch_values} * vision.hidden_size + projector_weights(model) +
         vision.other_parameters;
}

Flops vision_flops(const Transformer& model) {
  const VisionTower* const vision = running_tower(model);
  if (!vision) return Flops(0.0);
  const Transformer layers = tower_layers(model);
  const Flops patch = forward_flops_per_token(layers, false) - head_flops_per_token(layers) +
                      2.0 * real(vision->patch_values) * vision->hidden_size * FLOP;
  return real(layers.seq_len) * patch +
         2.0 * real(vision->image_tokens) * real(projector_weights(model)) * FLOP;
}

}  // namespace llmsim::sim
