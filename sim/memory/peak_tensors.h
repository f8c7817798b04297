// What lives at the peak of a stage, tensor by tensor.
//
// The stage is followed as memory_footprint does (step_walk.h), with an account whose amounts are
// lists of tensors, so that the sizes of the list add up to the peak.  Source: ours.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/memory/memory_account.h"
#include "sim/operators/layer_memory.h"
#include "sim/run.h"

namespace llmsim::sim {

// Which layers a tensor is of; none: of the stage as a whole.
enum class LayerSite : std::uint8_t { Stage, Embedding, Block, Head };

const char* name_of(LayerSite site);  // "stage", "embedding", "block", "LM head"

// All tensors at the peak that are alike.
struct PeakTensor {
  MemoryKind kind = MemoryKind::Activations;
  LayerSite site = LayerSite::Stage;
  const char* name = "";  // "q", "logits", "residual stream"; "": all that the kind has
  TensorShape shape{};    // of one; 1 x 1 where it is not known
  TensorUse use = TensorUse::Saved;
  Module module = Module::Norm;  // that saves it, or whose workspace it is
  Bytes size{};                  // of all of them; less than 0: what others store of `name`

  bool has_shape() const { return shape.rows * shape.columns > 1.0; }
  // How many there are: layers times micro-batches in flight.
  double count() const { return has_shape() ? size / shape.size() : 1.0; }
};

// An amount of memory (memory_account.h) that is the sum of a list.
class TensorAmounts {
 public:
  TensorAmounts& operator+=(const TensorAmounts& other);
  TensorAmounts& operator-=(const TensorAmounts& other);
  void add(PeakTensor tensor);
  friend TensorAmounts operator+(TensorAmounts a, const TensorAmounts& b) { return a += b; }

  Bytes total() const;
  const std::vector<PeakTensor>& tensors() const { return tensors_; }

 private:
  std::vector<PeakTensor> tensors_;
};

inline double total_of(const TensorAmounts& amounts) { return amounts.total().value(); }
void add_to(TensorAmounts& amounts, MemoryKind kind, Bytes size, const char* what);
TensorAmounts amount_of(const std::vector<LiveTensor>& tensors, LayerSite site);

// Those of the stage at its peak, largest first.  Requires a valid run.
std::vector<PeakTensor> peak_tensors(const Run& run, int stage);

}  // namespace llmsim::sim
