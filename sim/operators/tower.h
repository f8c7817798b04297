// The towers for images and audio in the embedding of the first stage: the GEMMs of the patches
// with their activations, the layers (block.h), the projectors, and the rows of the stream that
// take what they give.
//
// Tensor ranks divide the layers where they divide heads and MLPs, else each does all; context
// ranks share out images and clips.  GEMMs outside of the layers are done by every tensor rank.
// Under full recomputation a layer saves its input and runs again, else it saves what its operators
// save; a tower that does not learn, or whose run trains adapters alone, has no backward pass and
// saves nothing.  Convolutions read and save what GEMMs of the same sizes do.
// Source: Megatron-LM core/models/multimodal/llava_model.py and core/models/vision.
#pragma once

#include <vector>

#include "sim/model/tower.h"
#include "sim/operators/layer_builder.h"

namespace llmsim::sim {

// How ranks divide the layers of a tower.
Strategy tower_strategy(const Tower& tower, const Strategy& strategy);

// Layers of a tower, `count` that do the same for a micro-batch on a rank.
struct TowerLayers {
  LayerOperators operators{};  // of one
  int count = 0;
  Bytes saved{}, forward{}, backward{};  // by one; what passes over one take on top
};

// Those of all towers that run, in the order of for_each_tower().
std::vector<TowerLayers> lower_tower_layers(const Transformer& model, const Strategy& strategy,
                                            const Framework& framework);

// All of the towers that run, with the operators of each layer where `lists_layers`.
void add_towers(LayerBuilder& b, bool lists_layers);

}  // namespace llmsim::sim
