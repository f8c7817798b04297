// What the tower for images counts for: its parameters, its FLOPs, and its layers as those of an
// encoder.  Notation: h, f, L of the tower, p values of a patch, H = hidden_size of the decoder, r
// and g values that a projector reads and has between its matrices, P projectors; a sequence has N
// tokens of images, of m patches each.
#pragma once

#include <cstdint>

#include "sim/base/quantity.h"
#include "sim/model/transformer.h"

namespace llmsim::sim {

// The tower of a run that has images, or null.
inline const VisionTower* running_tower(const Transformer& model) {
  return model.vision && model.vision->image_tokens > 0 ? &*model.vision : nullptr;
}

// Its layers: an encoder whose sequence is N m patches, in documents of an image each.  The model
// has a tower.
Transformer tower_layers(const Transformer& model);

// P (r g + g H), or P r H of projectors with one matrix.
std::int64_t projector_weights(const Transformer& model);

// L blocks + p h + projectors + other_parameters, whether images come or not; 0 without a tower.
std::int64_t vision_parameters(const Transformer& model);

// Forward, of a sequence's images; 0 without any.
//
//   N m (2 L (weights of a block) + 2 p h) + attention + 2 N (projector_weights)
Flops vision_flops(const Transformer& model);

}  // namespace llmsim::sim
