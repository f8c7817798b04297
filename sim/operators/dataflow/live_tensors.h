// What is allocated while a pass runs over the tensors of a layer, and the most that ever was.
#pragma once

#include <vector>

#include "sim/base/quantity.h"
#include "sim/operators/dataflow.h"

namespace llmsim::sim {

// Tensors and their gradients that are there.  What bytes() says is what was taken and not given
// back since the pass began, and the most of it.  Logits, their copies and their gradients count as
// logits, whatever they are taken for.
class LiveTensors {
 public:
  using Tensor = Dataflow::Tensor;
  using Kind = Bytes LiveBytes::*;

  explicit LiveTensors(const Dataflow& flow) : flow_(flow), states_(flow.tensors()) {}

  const PassBytes& bytes() const { return bytes_; }
  bool has(Tensor tensor) const { return state(tensor).live; }

  // Memory that is no tensor of the layer.
  void take(Kind kind, Bytes size);
  void give(Kind kind, Bytes size) { bytes_.net.*kind -= size; }
  void use(Kind kind, Bytes size) { take(kind, size), give(kind, size); }

  // Is there when the pass begins, taken before it.
  void hold(Tensor tensor);
  // Is the caller's to free.
  void leave(Tensor tensor) { state(tensor).live = false; }
  void write(Tensor tensor, Kind kind);
  void free(Tensor tensor);

  // Gradients, of whose memory several tensors can have the same.  begin_gradient takes none:
  // that of a pass's output is there before it, others replace what is there.
  bool has_gradient(Tensor tensor) const { return state(tensor).gradient >= 0; }
  void begin_gradient(Tensor tensor);
  void take_gradient(Tensor tensor) { take(gradient_kind(tensor), flow_.size(tensor)); }
  void share_gradient(Tensor owner, Tensor sharer);
  // `in_place`: what has replaced it stays.
  void free_gradient(Tensor tensor, bool in_place);
  // The gradient of `tensor` is made where `saved` is.
  void replace_by_gradient(Tensor saved, Tensor tensor);

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

  State& state(Tensor tensor) { return states_[Dataflow::index(tensor)]; }
  const State& state(Tensor tensor) const { return states_[Dataflow::index(tensor)]; }
  Kind kind_of(Tensor tensor, Kind otherwise) const;
  Kind gradient_kind(Tensor tensor) const { return kind_of(tensor, &LiveBytes::gradients); }

  const Dataflow& flow_;
  std::vector<State> states_;
  std::vector<Gradient> gradients_;
  PassBytes bytes_;
};

}  // namespace llmsim::sim
