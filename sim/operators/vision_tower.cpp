#include "sim/operators/vision_tower.h"

#include <algorithm>

#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/operators/layer_memory.h"
#include "sim/operators/linear.h"
#include "sim/operators/recomputation.h"

namespace llmsim::sim {
namespace {

// What all layers do and leave on a rank for a micro-batch.
struct TowerLayers {
  LayerOperators operators;
  Bytes saved{}, forward{}, backward{};  // what stays, and what the passes take on top of it
};

TowerLayers layers_of(const LayerBuilder& b, bool learns) {
  Transformer tower = tower_layers(b.model);
  const Strategy strategy = tower_strategy(b.model, b.strategy);
  tower.seq_len = std::max(1, tower.seq_len / b.strategy.cp);
  tower.document_len = std::min(*tower.document_len, tower.seq_len);
  const RecomputeKind recompute = strategy.recompute.kind;
  const LayerKind kind = kind_of_layer(tower, 0);
  LayerGraph block = lower_block(tower, strategy, b.framework, recompute, kind);
  const Recomputation again = recomputation_of(block, strategy.recompute, tower, b.framework, kind);
  const PassBytes first = forward_bytes(block, again), second = backward_bytes(block, again);
  TowerLayers all;
  const double layers = tower.num_layers;
  if (learns) {
    all.saved = layers * saved_bytes(block, again);
    all.backward = second.rise.total();
    block.backward.insert(block.backward.begin(), block.recompute.begin(), block.recompute.end());
  } else {
    block.backward = {};
  }
  block.recompute = {};
  all.forward = first.rise.total();
  for (int layer = 0; layer < tower.num_layers; ++layer) all.operators.append(block);
  return all;
}

// Patches before the layers, projectors and the rows of the stream after them.
LayerOperators around_layers(const LayerBuilder& b, bool learns, std::int64_t images) {
  const VisionTower& vision = *b.model.vision;
  LinearContext context;
  context.precision = b.strategy.precision, context.framework = &b.framework;
  context.frozen = !learns;
  const std::int64_t h = b.model.hidden_size, ffn = vision.projector_ffn;
  LayerOperators before = lower_linear(context, "patches", images * vision.merged_patches,
                                       vision.hidden_size, vision.patch_values);
  LayerOperators after;
  for (int i = 0; i < vision.projectors; ++i) {
    after.append(
        lower_linear(context, "projector_up", images, ffn > 0 ? ffn : h, vision.projector_in));
    if (ffn > 0) after.append(lower_linear(context, "projector_down", images, h, ffn));
    after.append(elementwise(OperatorKind::Embedding, "image_tokens", real(images * h),
                             {.forward = {3 * b.element, 1}, .backward = {2 * b.element, 1}}));
  }
  before.append(after);
  if (!learns) before.backward = {};
  return before;
}

}  // namespace

Strategy tower_strategy(const Transformer& model, const Strategy& strategy) {
  Strategy own = strategy;
  const VisionTower& vision = *model.vision;
  if (vision.num_heads % own.tp != 0 || vision.ffn_size % own.tp != 0) own.tp = 1;
  own.sequence_parallel &= own.tp > 1;
  own.cp = own.ep = 1;
  own.etp.reset();
  own.adapters.reset();
  if (own.recompute.kind != RecomputeKind::Full) own.recompute = {};
  return own;
}

void add_vision_tower(LayerBuilder& b) {
  const VisionTower& vision = *b.model.vision;
  const bool learns = !vision.frozen && !b.strategy.adapters;
  const std::int64_t images = std::max<std::int64_t>(
      1, std::int64_t{b.strategy.micro_batch} * vision.image_tokens / b.strategy.cp);
  TowerLayers layers = layers_of(b, learns);
  LayerOperators operators = around_layers(b, learns, images);
  for (LayerOperators* list : {&layers.operators, &operators}) list->set_module(Module::Embedding);
  operators.append(layers.operators);
  Node& node = b.layer.add_as_they_are(Module::Embedding, operators)
                   .forward_workspace(layers.forward)
                   .backward_workspace(layers.backward);
  if (!learns) return;
  const double projected = vision.projectors * (vision.projector_in + vision.projector_ffn),
               patches = real(vision.merged_patches) * vision.patch_values;
  const double own = real(images) * (projected + patches) * b.element;
  const TensorId saved = b.tensor("activations of the image tower",
                                  {real(images), (layers.saved.value() + own) / real(images), 1.0},
                                  TensorRole::Statistic);
  node.writes(saved).saves(saved);
}

}  // namespace llmsim::sim
