#include "sim/model/layer_kinds.h"

#include <algorithm>

namespace llmsim::sim {

std::size_t LayerKinds::slot(LayerKind kind) const {
  return static_cast<std::size_t>(std::find(begin(), end(), kind) - begin());
}

bool is_moe_layer(const Transformer& model, int layer) {
  if (!model.moe || layer < model.moe->num_dense_layers) return false;
  return (layer - model.moe->num_dense_layers) % model.moe->layer_interval == 0;
}

LayerKind kind_of_layer(const Transformer& model, int layer) {
  return is_moe_layer(model, layer) ? LayerKind::Moe : LayerKind::Dense;
}

int count_moe_layers(const Transformer& model, int first, int count) {
  if (!model.moe) return 0;
  const int interval = model.moe->layer_interval;
  const auto before = [&](int layer) {
    return (std::max(0, layer - model.moe->num_dense_layers) + interval - 1) / interval;
  };
  return before(first + count) - before(first);
}

LayerKinds layer_kinds(const Transformer& model) {
  const int layers = model.num_layers + model.mtp_layers,
            moe_layers = count_moe_layers(model, 0, layers);
  LayerKinds kinds;
  if (moe_layers < layers || layers == 0) kinds.add(LayerKind::Dense);
  if (moe_layers > 0) kinds.add(LayerKind::Moe);
  return kinds;
}

LayerCounts count_layers(const Transformer& model, int first, int count) {
  const LayerKinds kinds = layer_kinds(model);
  const int moe_layers = count_moe_layers(model, first, count);
  LayerCounts counts{};
  for (std::size_t slot = 0; slot < kinds.size(); ++slot)
    counts[slot] = kinds[slot].has_experts() ? moe_layers : count - moe_layers;
  return counts;
}

KindTable<double> shares_of(const LayerCounts& counts) {
  int all = 0;
  for (const int count : counts) all += count;
  KindTable<double> shares{};
  double others = 0.0;
  std::size_t first = counts.size();
  for (std::size_t slot = counts.size(); slot-- > 0;) {
    if (counts[slot] == 0) continue;
    if (first < counts.size()) others += shares[first];
    shares[slot] = static_cast<double>(counts[slot]) / all, first = slot;
  }
  if (first < counts.size()) shares[first] = 1.0 - others;
  return shares;
}

}  // namespace llmsim::sim
