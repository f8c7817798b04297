// The weights of a layer while they are put together (parameters.h).  Private to model.
#pragma once

#include <cstdint>

#include "sim/model/parameters.h"

namespace llmsim::sim {

// The weights of one layer, as they are added.
struct LayerTable {
  const Transformer& model;
  std::int64_t hidden, kv_heads;
  LayerWeights list{};

  void add(const LayerWeight& weight) { list.add(weight); }

  void column_parallel(LayerWeight weight) {
    weight.divided = TensorAxis::Columns;
    add(weight);
  }

  void row_parallel(LayerWeight weight) {
    weight.divided = TensorAxis::Rows, weight.columns = hidden;
    add(weight);
  }

  // In layers of at least `norms`.
  void norm(WeightName name, int norms) {
    if (model.norm_weight && model.norms_per_layer >= norms)
      add({.name = name, .part = LayerPart::Norms, .columns = hidden, .biases = model.bias.norm});
  }

  // A vector of a mixer that tensor ranks divide.
  void divided_vector(WeightName name, std::int64_t size) {
    column_parallel({.name = name, .part = LayerPart::Mixer, .columns = size});
  }
};

}  // namespace llmsim::sim
