#include "sim/model/layer_kinds.h"

#include <algorithm>
#include <string>

namespace llmsim::sim {
namespace {

// Without a pattern, or where a pattern says only what mixes.
LayerMlp mlp_of_layer(const Transformer& model, int layer) {
  const Moe* const moe = model.moe ? &*model.moe : nullptr;
  const bool last =
      moe && layer < model.num_layers && layer >= model.num_layers - moe->num_last_dense_layers;
  if (moe && !last && layer >= moe->num_dense_layers &&
      (layer - moe->num_dense_layers) % moe->layer_interval == 0)
    return LayerMlp::Experts;
  return is_hybrid(model) && model.ffn_size == 0 ? LayerMlp::None : LayerMlp::Dense;
}

Mixer mixer_of(char letter) {
  for (const ScanMixer& mixer : scan_mixers())
    if (mixer.letter == letter) return mixer.mixer;
  switch (letter) {
    case 'W': return Mixer::WindowAttention;
    case 'F': return Mixer::FollowingAttention;
    case 'A': return Mixer::FullAttention;
    case 'Z': return Mixer::CompressedAttention;
    case 'H': return Mixer::HeavilyCompressedAttention;
    case 'V': return Mixer::SharingWindowAttention;
    case 'U': return Mixer::SharingAttention;
    default: return Mixer::Attention;
  }
}

class HybridLayers {
 public:
  explicit HybridLayers(const Transformer& model)
      : model_(model), alone_(model.layer_pattern->find_first_of("-E") != std::string::npos) {}

  LayerKind kind(int layer) const {
    if (layer >= model_.num_layers)
      return {.mixer = Mixer::Attention, .mlp = mlp_of_layer(model_, layer)};
    const std::string& pattern = *model_.layer_pattern;
    const char letter = pattern[static_cast<std::size_t>(layer) % pattern.size()];
    if (letter == '-') return {.mixer = Mixer::None, .mlp = LayerMlp::Dense};
    if (letter == 'E') return {.mixer = Mixer::None, .mlp = LayerMlp::Experts};
    return {.mixer = mixer_of(letter),
            .mlp = alone_ ? LayerMlp::None : mlp_of_layer(model_, layer)};
  }

 private:
  const Transformer& model_;
  bool alone_;  // mixers and MLPs are layers of their own
};

LayerKinds kinds_of_hybrid(const Transformer& model, const HybridLayers& layers) {
  LayerKinds kinds;
  for (int layer = 0; layer < model.num_layers + model.mtp_layers; ++layer) {
    const LayerKind kind = layers.kind(layer);
    if (kinds.slot(kind) == kinds.size() && kinds.size() < kMostLayerKinds) kinds.add(kind);
  }
  return kinds;
}

}  // namespace

std::size_t LayerKinds::slot(LayerKind kind) const {
  return static_cast<std::size_t>(std::find(begin(), end(), kind) - begin());
}

LayerKind kind_of_layer(const Transformer& model, int layer) {
  if (is_hybrid(model)) return HybridLayers(model).kind(layer);
  return {.mixer = Mixer::Attention, .mlp = mlp_of_layer(model, layer)};
}

bool is_moe_layer(const Transformer& model, int layer) {
  return kind_of_layer(model, layer).has_experts();
}

int count_moe_layers(const Transformer& model, int first, int count) {
  if (is_hybrid(model)) {
    int sum = 0;
    for (int layer = first; layer < first + count; ++layer)
      sum += is_moe_layer(model, layer) ? 1 : 0;
    return sum;
  }
  if (!model.moe) return 0;
  const int interval = model.moe->layer_interval;
  const auto before = [&](int layer) {
    return (std::max(0, layer - model.moe->num_dense_layers) + interval - 1) / interval;
  };
  const int end = first + count, last = std::min(end, model.num_layers),
            dense = std::clamp(model.num_layers - model.moe->num_last_dense_layers, first, end);
  return before(end) - before(first) - (last > dense ? before(last) - before(dense) : 0);
}

LayerKinds layer_kinds(const Transformer& model) {
  if (is_hybrid(model)) return kinds_of_hybrid(model, HybridLayers(model));
  const int layers = model.num_layers + model.mtp_layers,
            moe_layers = count_moe_layers(model, 0, layers);
  LayerKinds kinds;
  if (moe_layers < layers || layers == 0) kinds.add(LayerKind::Dense);
  if (moe_layers > 0) kinds.add(LayerKind::Moe);
  return kinds;
}

LayerCounts count_layers(const Transformer& model, int first, int count) {
  LayerCounts counts{};
  if (is_hybrid(model)) {
    const HybridLayers layers(model);
    const LayerKinds kinds = kinds_of_hybrid(model, layers);
    for (int layer = first; layer < first + count; ++layer)
      ++counts[kinds.slot(layers.kind(layer))];
    return counts;
  }
  const LayerKinds kinds = layer_kinds(model);
  const int moe_layers = count_moe_layers(model, first, count);
  for (std::size_t slot = 0; slot < kinds.size(); ++slot)
    counts[slot] = kinds[slot].has_experts() ? moe_layers : count - moe_layers;
  return counts;
}

namespace {

std::optional<Transformer> compressed(const Transformer& model, LayerKind kind) {
  std::optional<Transformer> own = model;
  CompressedAttention& attention = *own->compressed_attention;
  own->sliding_window = attention.window;
  if (kind.mixer == Mixer::HeavilyCompressedAttention) attention.entry_size = attention.heavy_ratio;
  if (kind.mixer != Mixer::CompressedAttention) return own;
  attention.entry_size = attention.ratio;
  own->sparse_attention = SparseAttention{.num_heads = attention.index_heads,
                                          .head_dim = attention.index_dim,
                                          .top_k = attention.top_k};
  return own;
}

}  // namespace

std::optional<Transformer> own_shape(const Transformer& model, LayerKind kind) {
  const auto copy = [&] { return std::optional<Transformer>(model); };
  if (model.compressed_attention)
    return kind.has_attention() ? compressed(model, kind) : std::nullopt;
  std::optional<Transformer> own;
  if (kind.mixer == Mixer::FollowingAttention) {
    own = copy();
    own->sparse_attention->num_heads = 0;
  } else if (kind.mixer == Mixer::FullAttention) {
    own = copy();
    own->sparse_attention.reset();
  }
  const bool windowed = kind.mixer == Mixer::WindowAttention,
             sharing_window = kind.mixer == Mixer::SharingWindowAttention;
  if (windowed || sharing_window) {
    const WindowAttention& window = *model.window_attention;
    own = copy();
    own->num_heads = window.num_heads, own->num_kv_heads = window.num_kv_heads;
    own->head_dim = window.head_dim, own->value_head_dim = window.value_head_dim;
    own->sliding_window = window.window, own->attention_sinks = window.sinks;
    own->keys_as_values = false;
  }
  if (sharing_window || kind.mixer == Mixer::SharingAttention) {
    if (!own) own = copy();
    own->shares_keys = true;
    own->ffn_size = model.sharing_ffn_size.value_or(model.ffn_size);
  }
  return own;
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
    shares[slot] = real(counts[slot]) / all, first = slot;
  }
  if (first < counts.size()) shares[first] = 1.0 - others;
  return shares;
}

}  // namespace llmsim::sim
