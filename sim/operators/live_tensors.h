// What is allocated while a pass runs over the tensors of a layer, and the most that ever was.
#pragma once

#include <utility>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/operators/layer_graph.h"
#include "sim/operators/layer_memory.h"

namespace llmsim::sim {

// Tensors and their gradients that are there.  What bytes() says is what was taken and not given
// back since the pass began, and the most of it.  Logits, their copies and their gradients count as
// logits, whatever they are taken for.
class LiveTensors {
 public:
  using Kind = Bytes LiveBytes::*;

  explicit LiveTensors(const LayerGraph& layer) : layer_(layer), states_(layer.tensors().size()) {}

  const PassBytes& bytes() const { return bytes_; }
  bool has(TensorId tensor) const { return state(tensor).live; }

  // Memory that is no tensor of the layer.
  void take(Kind kind, Bytes size) {
    bytes_.net.*kind += size;
    if (bytes_.net.total() > bytes_.rise.total()) bytes_.rise = bytes_.net;
  }
  void give(Kind kind, Bytes size) { bytes_.net.*kind -= size; }
  void use(Kind kind, Bytes size) { take(kind, size), give(kind, size); }

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
    take(state(tensor).kind, layer_.size(tensor));
  }
  void free(TensorId tensor) {
    state(tensor).live = false;
    give(state(tensor).kind, layer_.size(tensor));
  }

  // Gradients, of whose memory several tensors can have the same.  begin_gradient takes none:
  // that of a pass's output is there before it, others replace what is there.
  bool has_gradient(TensorId tensor) const { return state(tensor).gradient >= 0; }
  void begin_gradient(TensorId tensor) {
    state(tensor).gradient = static_cast<int>(gradients_.size());
    gradients_.push_back(
        {.size = layer_.size(tensor), .kind = gradient_kind(tensor), .tensors = 1});
  }
  void take_gradient(TensorId tensor) { take(gradient_kind(tensor), layer_.size(tensor)); }
  void share_gradient(TensorId owner, TensorId sharer) {
    state(sharer).gradient = state(owner).gradient;
    ++gradients_[static_cast<std::size_t>(state(owner).gradient)].tensors;
  }
  // `in_place`: what has replaced it stays.
  void free_gradient(TensorId tensor, bool in_place) {
    const int gradient = std::exchange(state(tensor).gradient, -1);
    if (gradient < 0) return;
    Gradient& one = gradients_[static_cast<std::size_t>(gradient)];
    if (--one.tensors == 0 && !in_place) give(one.kind, one.size);
  }
  // The gradient of `tensor` is made where `saved` is.
  void replace_by_gradient(TensorId saved, TensorId tensor) {
    free(saved);
    bytes_.net.*gradient_kind(tensor) += layer_.size(tensor);
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
    int tensors = 0;  // that share it
  };

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
};

}  // namespace llmsim::sim
