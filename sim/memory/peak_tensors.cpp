#include "sim/memory/peak_tensors.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "sim/cost/layer_prices.h"
#include "sim/memory/step_walk.h"

namespace llmsim::sim {
namespace {

// Rounding of sums leaves less than this.
constexpr Bytes kNothing{0.5};

// The stream of residuals is one tensor, whoever holds it.
bool is_stream(const PeakTensor& tensor) {
  return tensor.name == std::string_view(kResidualStream);
}

bool is_same(const PeakTensor& a, const PeakTensor& b) {
  if (a.kind != b.kind || std::string_view(a.name) != b.name) return false;
  if (is_stream(a)) return true;
  return a.site == b.site && a.use == b.use && a.module == b.module &&
         a.shape.rows == b.shape.rows && a.shape.columns == b.shape.columns &&
         a.shape.element == b.shape.element;
}

MemoryKind kind_of(Bytes LiveBytes::*kind) {
  if (kind == &LiveBytes::recomputed) return MemoryKind::Recomputed;
  if (kind == &LiveBytes::gradients) return MemoryKind::ActivationGradients;
  return kind == &LiveBytes::logits ? MemoryKind::Logits : MemoryKind::Activations;
}

}  // namespace

const char* name_of(LayerSite site) {
  switch (site) {
    case LayerSite::Stage: return "stage";
    case LayerSite::Embedding: return "embedding";
    case LayerSite::Block: return "block";
    case LayerSite::Head: return "LM head";
  }
  return "";
}

void TensorAmounts::add(PeakTensor tensor) {
  if (tensor.size == Bytes(0.0)) return;
  const auto known = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const PeakTensor& one) { return is_same(one, tensor); });
  if (known == tensors_.end()) {
    tensors_.push_back(tensor);
    return;
  }
  known->size += tensor.size;
  if (!known->has_shape()) known->shape = tensor.shape, known->site = tensor.site;
}

TensorAmounts& TensorAmounts::operator+=(const TensorAmounts& other) {
  for (const PeakTensor& tensor : other.tensors_) add(tensor);
  return *this;
}

TensorAmounts& TensorAmounts::operator-=(const TensorAmounts& other) {
  for (PeakTensor tensor : other.tensors_) {
    tensor.size = -tensor.size;
    add(tensor);
  }
  return *this;
}

Bytes TensorAmounts::total() const {
  Bytes sum;
  for (const PeakTensor& tensor : tensors_) sum += tensor.size;
  return sum;
}

void add_to(TensorAmounts& amounts, MemoryKind kind, Bytes size, const char* what) {
  amounts.add({.kind = kind, .name = what, .size = size});
}

TensorAmounts amount_of(const std::vector<LiveTensor>& tensors, LayerSite site) {
  TensorAmounts amounts;
  for (const LiveTensor& tensor : tensors) {
    amounts.add({.kind = kind_of(tensor.kind),
                 .site = site,
                 .name = tensor.name,
                 .shape = tensor.shape,
                 .use = tensor.use,
                 .module = tensor.module,
                 .size = tensor.size});
  }
  return amounts;
}

std::vector<PeakTensor> peak_tensors(const Run& run, int stage) {
  const LayerPrices prices = layers_with_tensors(run);
  const StageContents contents(run);
  std::vector<PeakTensor> tensors =
      StageWalks(run, prices, contents).amounts_at_peak(stage).tensors();
  std::erase_if(tensors, [](const PeakTensor& tensor) {
    return std::abs(tensor.size.value()) < kNothing.value();
  });
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const PeakTensor& a, const PeakTensor& b) { return a.size > b.size; });
  return tensors;
}

}  // namespace llmsim::sim
