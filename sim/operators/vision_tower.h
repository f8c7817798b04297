// The tower for images in the embedding of the first stage: the GEMM of the patches, the layers
// (block.h), the projectors, and the rows of the stream that take what they give.
//
// Tensor ranks divide the layers where they divide heads and MLPs, else each does all; context
// ranks share out the images.  GEMMs outside of the layers are done by every tensor rank.  Under
// full recomputation a layer saves its input and runs again, else it saves what its operators
// save; a tower that does not learn, or whose run trains adapters alone, has no backward pass and
// saves nothing.
// Source: Megatron-LM core/models/multimodal/llava_model.py and core/models/vision.
#pragma once

#include "sim/model/vision_tower.h"
#include "sim/operators/layer_builder.h"

namespace llmsim::sim {

// How ranks divide the layers of the tower.  Requires model.vision.
Strategy tower_strategy(const Transformer& model, const Strategy& strategy);

// Requires running_tower(b.model).
void add_vision_tower(LayerBuilder& b);

}  // namespace llmsim::sim
