// Parameter-efficient fine-tuning (LoRA): the base weights are frozen, and low-rank adapters of
// some linear layers are trained.
//
//   y = x w + x a b      w (in, out) frozen; a (in, r) and b (r, out) trained: r (in + out) values
//
// Source: Hu et al., "LoRA", 2021 (arXiv 2106.09685), section 4.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmsim::sim {

struct LayerWeight;
struct Transformer;

// The linear layers of a block that have an adapter.  With MLA, q stands for both projections of
// queries, k and v each for both of keys and values; of a gated delta net, in for both that read
// the residual stream.  Experts have none, nor have Mamba-1's steps.
// Source: ai21labs/AI21-Jamba-1.5-Mini model card, QLoRA example (in_proj, out_proj and x_proj of
// mixers in addition to attention's and MLPs').
struct AdaptedLayers {
  bool q = false;
  bool k = false;
  bool v = false;
  bool o = false;
  bool gate = false;
  bool up = false;
  bool down = false;
  bool in = false;   // of mixers of states
  bool out = false;  // of these too
  bool x = false;    // Mamba-1's projection of channels to dt, B and C
  bool operator==(const AdaptedLayers&) const = default;

  bool any() const { return *this != AdaptedLayers{}; }
};

struct Adapters {
  int rank = 8;
  AdaptedLayers layers{.q = true, .v = true};  // those of the paper
  bool operator==(const Adapters&) const = default;
};

// All that a model has: no gate of a plain MLP, and of a model with experts no MLP.
AdaptedLayers all_adapted_layers(const Transformer& model);

// "q", "k", "v", "o", "gate", "up", "down", "in", "out", "x"; Hugging Face's "q_proj" ...;
// "attention", "mlp", "mixer" and "all" ("all-linear", "all linear layers") for those of them that
// the model has.  None for an unknown name, and for a layer that the model does not have or that
// has no adapter in it.
std::optional<AdaptedLayers> adapted_layers_from(const std::string& name, const Transformer& model);
// The inverse: a name for each.
std::vector<std::string> names_of(const AdaptedLayers& layers);
// Those of either.
AdaptedLayers operator|(AdaptedLayers a, const AdaptedLayers& b);

// Columns of each matrix of the weight that has an adapter (several of them may stand side by side:
// queries, keys and values, or gate and up).
std::vector<std::int64_t> adapted_columns(const AdaptedLayers& layers, const LayerWeight& weight);

}  // namespace llmsim::sim
