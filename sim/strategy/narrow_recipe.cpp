#include "sim/strategy/narrow_recipe.h"

#include <algorithm>

namespace llmsim::sim {
namespace {

constexpr double kFp32 = 4.0;
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
    case NarrowScaling::Blockwise: return kFp32 / (weight ? kBlockwise * kBlockwise : kBlockwise);
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

double wide_share(const NarrowRecipe& recipe, int num_layers) {
  return std::min(1.0, static_cast<double>(recipe.wide_first + recipe.wide_last) / num_layers);
}

}  // namespace llmsim::sim
