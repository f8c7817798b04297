// What towers for images and for audio count for: parameters, FLOPs, and their layers as those of
// encoders.  Notation: L layers of a tower; W and R, the weights of a patch's GEMMs and of a
// projector's, and W_n and R_n the same times the rows of each; P projectors; a sequence has N
// tokens of the tower, of m patches each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/quantity.h"
#include "sim/model/transformer.h"

namespace llmsim::sim {

// visit(name, tower) of the towers that a model has: "vision", "audio".
template <class Visit>
void for_each_tower(const Transformer& model, const Visit& visit) {
  if (model.vision) visit("vision", *model.vision);
  if (model.audio) visit("audio", *model.audio);
}

// The same of those that a run has tokens of.
template <class Visit>
void for_each_running_tower(const Transformer& model, const Visit& visit) {
  for_each_tower(model, [&](const char* name, const Tower& tower) {
    if (tower.tokens > 0) visit(name, tower);
  });
}

bool has_running_tower(const Transformer& model);

// A GEMM of a patch or of a token.
struct TowerGemm {
  std::int64_t rows = 1, in = 0, out = 0;

  std::int64_t weights() const { return in * out; }
};

// Of a text as Tower says it, where h is `width`; none where the text is no such list.
std::vector<TowerGemm> tower_gemms(const std::string& text, int width);

// The layers of a tower: encoders whose sequence is N m patches, in documents of an image or clip
// each, and for windowed layers of a window each.  One kind of layer or two.
std::vector<Transformer> tower_layers(const Tower& tower);

// L blocks + W + P R + other_parameters, whether the tower runs or not; `hidden_size` is that of
// the decoder.
std::int64_t tower_parameters(const Tower& tower, int hidden_size);

// Forward, of a sequence's tokens:
//
//   N m (2 L (weights of a block) + 2 W_n) + attention + 2 N P R_n
Flops tower_flops(const Tower& tower, int hidden_size);

// Of all towers that run; 0 without any.
std::int64_t running_tower_parameters(const Transformer& model);
Flops running_tower_flops(const Transformer& model);

}  // namespace llmsim::sim
