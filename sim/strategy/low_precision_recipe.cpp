#include "sim/strategy/low_precision_recipe.h"

#include <algorithm>

#include "sim/base/dtype.h"

namespace llmsim::sim {
namespace {

constexpr double kBlockwise = 128.0;

constexpr auto kScalings = in_order<LowPrecisionScaling>(
    {"delayed", "current", "rowwise", "rowwise-gw-hp", "blockwise", "mxfp8", "nvfp4"});

}  // namespace

NameTable<LowPrecisionScaling> name_table(LowPrecisionScaling) { return kScalings; }

LowPrecisionScaling scaling_of(const LowPrecisionRecipe& recipe, Precision precision) {
  if (precision == Precision::Mxfp8) return LowPrecisionScaling::Mxfp8;
  return precision == Precision::Nvfp4 ? LowPrecisionScaling::Nvfp4 : recipe.scaling;
}

double scale_bytes(LowPrecisionScaling scaling, bool weight) {
  switch (scaling) {
    case LowPrecisionScaling::Blockwise:
      return kFp32Bytes / (weight ? kBlockwise * kBlockwise : kBlockwise);
    case LowPrecisionScaling::Mxfp8: return 1.0 / 32.0;
    case LowPrecisionScaling::Nvfp4: return 1.0 / 16.0;
    default: return 0.0;
  }
}

double low_precision_bytes(const LowPrecisionRecipe& recipe, Precision precision, bool weight) {
  const DType dtype = matmul_dtype(precision);
  return size_of(dtype).value() +
         (is_low_precision(dtype) ? scale_bytes(scaling_of(recipe, precision), weight) : 0.0);
}

double low_precision_copies(const LowPrecisionRecipe& recipe, Precision precision) {
  const LowPrecisionScaling scaling = scaling_of(recipe, precision);
  return scaling == LowPrecisionScaling::Delayed || scaling == LowPrecisionScaling::Current
             ? recipe.copies
             : 2.0;
}

int row_multiple(LowPrecisionScaling scaling) {
  switch (scaling) {
    case LowPrecisionScaling::Blockwise: return 128;
    case LowPrecisionScaling::Mxfp8:
    case LowPrecisionScaling::Nvfp4: return 32;
    default: return 16;
  }
}

bool keeps_blocks_in_high_precision(const LowPrecisionRecipe& recipe, Precision precision) {
  return recipe.high_precision_first + recipe.high_precision_last > 0 &&
         is_low_precision(matmul_dtype(precision));
}

LayerCounts high_precision_blocks(const LowPrecisionRecipe& recipe, Precision precision,
                                  const Transformer& model, const ModelChunk& chunk) {
  LayerCounts high{};
  if (!keeps_blocks_in_high_precision(recipe, precision)) return high;
  const auto add = [&](int first, int last) {
    const int from = std::max(first, chunk.first_layer),
              count = std::min(last, chunk.first_layer + chunk.blocks) - from;
    if (count <= 0) return;
    for_each_kind(count_layers(model, from, count),
                  [&](std::size_t slot, int layers) { high[slot] += layers; });
  };
  const int first = std::min(recipe.high_precision_first, model.num_layers);
  add(0, first);
  add(std::max(first, model.num_layers - recipe.high_precision_last), model.num_layers);
  return high;
}

bool is_high_precision_layer(const LowPrecisionRecipe& recipe, Precision precision,
                             const Transformer& model, int layer) {
  if (!keeps_blocks_in_high_precision(recipe, precision) || layer >= model.num_layers) return false;
  return layer < recipe.high_precision_first ||
         layer >= model.num_layers - recipe.high_precision_last;
}

}  // namespace llmsim::sim
