// The kinds of layer that a model is made of, and how many of each some of its layers are.
//
// A layer has a mixer, which moves information between tokens, an MLP, which works on each token
// alone, or both, one after the other.  A model has few kinds of layer: whatever depends on a layer
// is counted once for each, in a table over the model's kinds, and multiplied by their numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sim/model/transformer.h"

namespace llmsim::sim {

enum class LayerMlp : std::uint8_t { None, Dense, Experts };

struct LayerKind {
  Mixer mixer = Mixer::Attention;
  LayerMlp mlp = LayerMlp::Dense;

  bool has_attention() const {
    return mixer >= Mixer::Attention && mixer <= Mixer::AttentionAndMamba2;
  }
  bool has_experts() const { return mlp == LayerMlp::Experts; }
  bool operator==(const LayerKind&) const = default;

  // Attention, and an MLP or experts after it.
  static const LayerKind Dense, Moe;
};

inline constexpr LayerKind LayerKind::Dense{.mixer = Mixer::Attention, .mlp = LayerMlp::Dense};
inline constexpr LayerKind LayerKind::Moe{.mixer = Mixer::Attention, .mlp = LayerMlp::Experts};

// A model has no more kinds than this.
inline constexpr std::size_t kMostLayerKinds = 4;

// A value for each kind of a model, in the order of layer_kinds().
template <class T>
using KindTable = std::array<T, kMostLayerKinds>;

using LayerCounts = KindTable<int>;

// Different kinds, without allocation.
class LayerKinds {
 public:
  void add(LayerKind kind) { list_[size_++] = kind; }
  std::size_t size() const { return size_; }
  LayerKind operator[](std::size_t slot) const { return list_[slot]; }
  const LayerKind* begin() const { return list_.data(); }
  const LayerKind* end() const { return list_.data() + size_; }
  // Where in a table a kind stands; size() where there is none of it.
  std::size_t slot(LayerKind kind) const;

 private:
  KindTable<LayerKind> list_{};
  std::size_t size_ = 0;
};

// True where layer `layer` (from 0) has experts.  Multi-token-prediction layers have attention, and
// what else the layers after the last would have without a pattern.
bool is_moe_layer(const Transformer& model, int layer);
LayerKind kind_of_layer(const Transformer& model, int layer);

// The kinds that the model has, those of multi-token prediction included: without a pattern first
// that without experts, with one in the order of its letters.
LayerKinds layer_kinds(const Transformer& model);

// Of `count` layers from `first` on, how many are of each of the model's kinds.
LayerCounts count_layers(const Transformer& model, int first, int count);

// Those with experts among them.
int count_moe_layers(const Transformer& model, int first, int count);

// The model as the layers of a kind see it, where that is not the model itself: windowed layers of
// their own shape have its heads and its window, layers that follow the choice of another have no
// indexer, those that see all keys no choice, and those that share keys none of their own.
std::optional<Transformer> own_shape(const Transformer& model, LayerKind kind);

// Calls visit(slot, number) for each kind of which there are some.
template <class Visit>
void for_each_kind(const LayerCounts& counts, const Visit& visit) {
  for (std::size_t slot = 0; slot < counts.size(); ++slot)
    if (counts[slot] > 0) visit(slot, counts[slot]);
}

// The same as shares of all of them, which add up to 1 (to 0 where there are none).
KindTable<double> shares_of(const LayerCounts& counts);

}  // namespace llmsim::sim
