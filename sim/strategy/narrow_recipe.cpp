#include "sim/strategy/narrow_recipe.h"

#include <algorithm>

#include "sim/base/dtype.h"

namespace llmsim::sim {
namespace {

constexpr double kBlockwise = 128.0;

}  // namespace

NarrowScaling scaling_of(const NarrowRecipe& recipe, Precision precision) {
  if (precision == Precision::Mxfp8) return NarrowScaling::Mxfp8;
  return precision == Precision::Nvfp4 ? NarrowScaling::Nvfp4 : recipe.scaling;
}

bool has_block_scales(NarrowScaling scaling) {
  return scaling == NarrowScaling::Blockwise || scaling == NarrowScaling::Mxfp8 || scaling == NarrowScaling::Nvfp4;
}

double scale_bytes(NarrowScaling scaling, bool weight) {
  switch (scaling) {
    case NarrowScaling::Blockwise: return kFp32Bytes / (weight ? kBlockwise * kBlockwise : kBlockwise);
    case NarrowScaling::Mxfp8: return 1.0 / 32.0;
    case NarrowScaling::Nvfp4: return 1.0 / 16.0;
    default: return 0.0;
  }
}

double narrow_bytes(const NarrowRecipe& recipe, Precision precision, bool weight) {
  const DType dtype = matmul_dtype(precision);
  return size_of(dtype).value() + (is_narrow(dtype) ? scale_bytes(scaling_of(recipe, precision), weight) : 0.0);
}

double narrow_copies(const NarrowRecipe& recipe, Precision precision) {
  const NarrowScaling scaling = scaling_of(recipe, precision);
  return scaling == NarrowScaling::Delayed || scaling == NarrowScaling::Current ? recipe.copies : 2.0;
}

int row_multiple(NarrowScaling scaling) {
  switch (scaling) {
    case NarrowScaling::Blockwise: return 128;
    case NarrowScaling::Mxfp8:
    case NarrowScaling::Nvfp4: return 32;
    default: return 16;
  }
}

bool leaves_blocks_wide(const NarrowRecipe& recipe, Precision precision) {
  return recipe.wide_first + recipe.wide_last > 0 && is_narrow(matmul_dtype(precision));
}

WideBlocks wide_blocks(const NarrowRecipe& recipe, Precision precision, const Transformer& model, const ModelPart& part) {
  WideBlocks wide;
  if (!leaves_blocks_wide(recipe, precision)) return wide;
  const auto add = [&](int first, int last) {
    const int from = std::max(first, part.first_layer), count = std::min(last, part.first_layer + part.blocks) - from;
    if (count <= 0) return;
    const int moe_models = count_moe_layers(model, from, count);
    wide.moe += moe_models, wide.dense += count - moe_models;
  };
  const int first = std::min(recipe.wide_first, model.num_layers);
  add(0, first);
  add(std::max(first, model.num_layers - recipe.wide_last), model.num_layers);
  return wide;
}

}  // namespace llmsim::sim
