#include "sim/operators/dataflow/live_tensors.h"

#include <utility>

namespace llmsim::sim {

void LiveTensors::take(Kind kind, Bytes size) {
  bytes_.net.*kind += size;
  if (bytes_.net.total() > bytes_.rise.total()) bytes_.rise = bytes_.net;
}

LiveTensors::Kind LiveTensors::kind_of(Tensor tensor, Kind otherwise) const {
  const Dataflow::Role role = flow_.role(tensor);
  const bool logits = role == Dataflow::Role::Logits || role == Dataflow::Role::LogitsCopy;
  return logits ? &LiveBytes::logits : otherwise;
}

void LiveTensors::hold(Tensor tensor) {
  state(tensor).live = true;
  state(tensor).kind = kind_of(tensor, &LiveBytes::activations);
}

void LiveTensors::write(Tensor tensor, Kind kind) {
  state(tensor).live = true;
  state(tensor).kind = kind_of(tensor, kind);
  take(state(tensor).kind, flow_.size(tensor));
}

void LiveTensors::free(Tensor tensor) {
  state(tensor).live = false;
  give(state(tensor).kind, flow_.size(tensor));
}

void LiveTensors::begin_gradient(Tensor tensor) {
  state(tensor).gradient = static_cast<int>(gradients_.size());
  gradients_.push_back({.size = flow_.size(tensor), .kind = gradient_kind(tensor), .tensors = 1});
}

void LiveTensors::share_gradient(Tensor owner, Tensor sharer) {
  state(sharer).gradient = state(owner).gradient;
  ++gradients_[static_cast<std::size_t>(state(owner).gradient)].tensors;
}

void LiveTensors::free_gradient(Tensor tensor, bool in_place) {
  const int gradient = std::exchange(state(tensor).gradient, -1);
  if (gradient < 0) return;
  Gradient& one = gradients_[static_cast<std::size_t>(gradient)];
  if (--one.tensors == 0 && !in_place) give(one.kind, one.size);
}

void LiveTensors::replace_by_gradient(Tensor saved, Tensor tensor) {
  free(saved);
  bytes_.net.*gradient_kind(tensor) += flow_.size(tensor);
}

}  // namespace llmsim::sim
