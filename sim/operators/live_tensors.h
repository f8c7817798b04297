// What is allocated while a pass runs over the tensors of a layer, and the most that ever was.
#pragma once

#include <utility>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/operators/layer_graph.h"
#include "sim/operators/layer_memory.h"

namespace llmsim::sim {

// Tensors and their gradients that are there.  bytes() is what was taken and not given
// back since the pass began, and the most of it.  Logits, their copies and their gradients count as
// logits, whatever they are taken for.  `list`, where there is one, has the same tensor by tensor.
class LiveTensors {
 public:
  using Kind = Bytes LiveBytes::*;

  explicit LiveTensors(const LayerGraph& layer, PassTensors* list = nullptr)
      : layer_(layer), states_(layer.tensors().size()), list_(list) {}

  const PassBytes& bytes() const { return bytes_; }
  bool has(TensorId tensor) const { return state(tensor).live; }

  // A workspace of a node's kernels, which comes and goes at once.
  void use_workspace(Kind kind, Bytes size, Module module) {
    take(kind, size, {.use = TensorUse::Workspace, .module = module});
    give(kind, size, {.use = TensorUse::Workspace, .module = module});
  }

  // Is there when the pass begins, taken before it.
  void hold(TensorId tensor) {
    state(tensor).live = true;
    state(tensor).kind = kind_of(tensor, &LiveBytes::activations);
  }
  // Is the caller's to free.
  void leave(TensorId tensor) { state(tensor).live = false; }
  void write(TensorId tensor, Kind kind) {
    state(tensor).live = true;
    state(tensor).kind = kind_of(tensor, kind);
    take(state(tensor).kind, layer_.size(tensor), {tensor});
  }
  void free(TensorId tensor) {
    state(tensor).live = false;
    give(state(tensor).kind, layer_.size(tensor), {tensor});
  }
  // A second copy of what is there, for a moment.
  void take_copy(TensorId tensor) {
    take(&LiveBytes::recomputed, layer_.size(tensor), {tensor, TensorUse::Recomputed});
  }
  void give_copy(TensorId tensor) {
    give(&LiveBytes::recomputed, layer_.size(tensor), {tensor, TensorUse::Recomputed});
  }

  // Gradients, of whose memory several tensors can have the same.  begin_gradient takes none:
  // that of a pass's output is there before it, others replace what is there.
  bool has_gradient(TensorId tensor) const { return state(tensor).gradient >= 0; }
  void begin_gradient(TensorId tensor) {
    state(tensor).gradient = static_cast<int>(gradients_.size());
    gradients_.push_back({.size = layer_.size(tensor),
                          .kind = gradient_kind(tensor),
                          .owner = tensor,
                          .tensors = 1});
  }
  void take_gradient(TensorId tensor) {
    take(gradient_kind(tensor), layer_.size(tensor), {tensor, TensorUse::Gradient});
  }
  // One of two that were summed.
  void give_gradient(TensorId tensor) {
    give(&LiveBytes::gradients, layer_.size(tensor), {tensor, TensorUse::Gradient});
  }
  void share_gradient(TensorId owner, TensorId sharer) {
    state(sharer).gradient = state(owner).gradient;
    ++gradients_[static_cast<std::size_t>(state(owner).gradient)].tensors;
  }
  // `in_place`: what has replaced it stays.
  void free_gradient(TensorId tensor, bool in_place) {
    const int gradient = std::exchange(state(tensor).gradient, -1);
    if (gradient < 0) return;
    Gradient& one = gradients_[static_cast<std::size_t>(gradient)];
    if (--one.tensors == 0 && !in_place) give(one.kind, one.size, {one.owner, TensorUse::Gradient});
  }
  // The gradient of `tensor` is made where `saved` is, or where the gradient of `written` is.
  void replace_by_gradient(TensorId saved, TensorId tensor) {
    free(saved);
    change(gradient_kind(tensor), layer_.size(tensor), {tensor, TensorUse::Gradient});
  }
  void replace_gradient(TensorId written, TensorId tensor) {
    if (!list_) return;
    const Kind kind = gradient_kind(written);
    list_->change(layer_, kind, -layer_.size(written), {written, TensorUse::Gradient});
    list_->change(layer_, kind, layer_.size(written), {tensor, TensorUse::Gradient});
  }

 private:
  struct State {
    bool live = false;
    int gradient = -1;  // which of gradients_
    Kind kind = &LiveBytes::activations;
  };
  struct Gradient {
    Bytes size{};
    Kind kind = &LiveBytes::gradients;
    TensorId owner = kNoTensor;
    int tensors = 0;  // that share it
  };

  void change(Kind kind, Bytes size, const PassTensors::What& what) {
    bytes_.net.*kind += size;
    if (list_) list_->change(layer_, kind, size, what);
  }
  void take(Kind kind, Bytes size, const PassTensors::What& what) {
    change(kind, size, what);
    if (bytes_.net.total() <= bytes_.rise.total()) return;
    bytes_.rise = bytes_.net;
    if (list_) list_->rise = list_->net;
  }
  void give(Kind kind, Bytes size, const PassTensors::What& what) { change(kind, -size, what); }

  State& state(TensorId tensor) { return states_[LayerGraph::index(tensor)]; }
  const State& state(TensorId tensor) const { return states_[LayerGraph::index(tensor)]; }
  Kind kind_of(TensorId tensor, Kind otherwise) const {
    const TensorRole role = layer_[tensor].role;
    const bool logits = role == TensorRole::Logits || role == TensorRole::LogitsCopy;
    return logits ? &LiveBytes::logits : otherwise;
  }
  Kind gradient_kind(TensorId tensor) const { return kind_of(tensor, &LiveBytes::gradients); }

  const LayerGraph& layer_;
  std::vector<State> states_;
  std::vector<Gradient> gradients_;
  PassBytes bytes_;
  PassTensors* list_;
};

}  // namespace llmsim::sim
