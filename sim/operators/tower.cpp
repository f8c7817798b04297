#include "sim/operators/tower.h"

#include <algorithm>

#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/operators/layer_memory.h"
#include "sim/operators/linear.h"
#include "sim/operators/recomputation.h"

namespace llmsim::sim {
namespace {

bool learns(const Tower& tower, const Strategy& strategy) {
  return !tower.frozen && !strategy.adapters;
}

TowerLayers lower_layers(Transformer layers, const Strategy& strategy, int context_ranks,
                         const Framework& framework, bool learn) {
  layers.seq_len = std::max(1, layers.seq_len / context_ranks);
  layers.document_len = std::min(*layers.document_len, layers.seq_len);
  const LayerKind kind = kind_of_layer(layers, 0);
  LayerGraph block = lower_block(layers, strategy, framework, strategy.recompute.kind, kind);
  const Recomputation again = recomputation_of(block, strategy.recompute, layers, framework, kind);
  TowerLayers all{.count = layers.num_layers, .forward = forward_bytes(block, again).rise.total()};
  if (learn) {
    all.saved = saved_bytes(block, again);
    all.backward = backward_bytes(block, again).rise.total();
    block.backward.insert(block.backward.begin(), block.recompute.begin(), block.recompute.end());
  } else {
    block.backward = {};
  }
  block.recompute = {};
  block.set_module(Module::Embedding);
  all.operators = std::move(block);
  return all;
}

std::vector<TowerLayers> layers_of(const Tower& tower, const Strategy& strategy,
                                   const Framework& framework) {
  std::vector<TowerLayers> all;
  for (const Transformer& layers : tower_layers(tower))
    all.push_back(lower_layers(layers, tower_strategy(tower, strategy), strategy.cp, framework,
                               learns(tower, strategy)));
  return all;
}

// GEMMs outside of layers, and the values that they save.
struct TowerGemms {
  LayerOperators operators{};
  double saved = 0.0;
};

// One after another, of `inputs` patches or tokens.
TowerGemms lower_gemms(const LayerBuilder& b, const std::vector<TowerGemm>& gemms,
                       const char* label, std::int64_t inputs, bool learn) {
  LinearContext context;
  context.precision = b.strategy.precision, context.framework = &b.framework;
  context.frozen = !learn;
  TowerGemms all;
  double made = 0.0;  // by the GEMM before, for an input
  for (const TowerGemm& gemm : gemms) {
    if (made > 0.0) {
      all.operators.append(
          elementwise(OperatorKind::Activation, "activation", real(inputs) * made,
                      {.forward = {2 * b.element, 1}, .backward = {3 * b.element, 1}}));
      all.saved += real(inputs) * made;
    }
    const double read = real(gemm.rows) * real(gemm.in);
    all.saved += real(inputs) * (made > 0.0 ? std::min(made, read) : read);
    all.operators.append(lower_linear(context, label, inputs * gemm.rows, gemm.out, gemm.in));
    made = real(gemm.rows) * real(gemm.out);
  }
  return all;
}

// Patches before the layers, projectors and the rows of the stream after them.
TowerGemms around_layers(const LayerBuilder& b, const Tower& tower, std::int64_t tokens,
                         bool learn) {
  const std::int64_t h = b.model.hidden_size;
  TowerGemms all = lower_gemms(b, tower_gemms(tower.patch_embedding, tower.hidden_size),
                               "patch_embedding", tokens * tower.merged_patches, learn);
  TowerGemms projector =
      lower_gemms(b, tower_gemms(tower.projector, b.model.hidden_size), "projector", tokens, learn);
  projector.operators.append(
      elementwise(OperatorKind::Embedding, "tower_tokens", real(tokens * h),
                  {.forward = {3 * b.element, 1}, .backward = {2 * b.element, 1}}));
  for (int i = 0; i < tower.projectors; ++i) {
    all.operators.append(projector.operators);
    all.saved += projector.saved;
  }
  if (!learn) all.operators.backward = {};
  all.operators.set_module(Module::Embedding);
  return all;
}

void add_tower(LayerBuilder& b, const Tower& tower, bool lists_layers) {
  const bool learn = learns(tower, b.strategy);
  const std::int64_t tokens = std::max<std::int64_t>(
      1, std::int64_t{b.strategy.micro_batch} * tower.tokens / b.strategy.cp);
  TowerGemms around = around_layers(b, tower, tokens, learn);
  Bytes saved{around.saved * b.element}, forward{}, backward{};
  for (const TowerLayers& layers : layers_of(tower, b.strategy, b.framework)) {
    saved += layers.count * layers.saved;
    forward = std::max(forward, layers.forward), backward = std::max(backward, layers.backward);
    for (int i = 0; lists_layers && i < layers.count; ++i)
      around.operators.append(layers.operators);
  }
  Node& node = b.layer.add_as_they_are(Module::Embedding, around.operators)
                   .forward_workspace(forward)
                   .backward_workspace(backward);
  if (!learn) return;
  const bool images = b.model.vision && &tower == &*b.model.vision;
  const TensorId tensor =
      b.tensor(images ? "activations of the image tower" : "activations of the audio tower",
               {real(tokens), saved.value() / real(tokens), 1.0}, TensorRole::Statistic);
  node.writes(tensor).saves(tensor);
}

}  // namespace

Strategy tower_strategy(const Tower& tower, const Strategy& strategy) {
  Strategy own = strategy;
  if (tower.num_heads % own.tp != 0 || tower.ffn_size % own.tp != 0) own.tp = 1;
  own.sequence_parallel &= own.tp > 1;
  own.cp = own.ep = 1;
  own.etp.reset();
  own.adapters.reset();
  if (own.recompute.kind != RecomputeKind::Full) own.recompute = {};
  return own;
}

std::vector<TowerLayers> lower_tower_layers(const Transformer& model, const Strategy& strategy,
                                            const Framework& framework) {
  std::vector<TowerLayers> all;
  for_each_running_tower(model, [&](const char*, const Tower& tower) {
    for (TowerLayers& layers : layers_of(tower, strategy, framework))
      all.push_back(std::move(layers));
  });
  return all;
}

void add_towers(LayerBuilder& b, bool lists_layers) {
  for_each_running_tower(
      b.model, [&](const char*, const Tower& tower) { add_tower(b, tower, lists_layers); });
}

}  // namespace llmsim::sim
