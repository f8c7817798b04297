#include "sim/cost/recipe_support.h"

#include <string>

#include "sim/base/error.h"

namespace llmsim::sim {
void require_recipe(const Device& device, const LowPrecisionRecipe& recipe, Precision precision) {
  if (!is_low_precision(matmul_dtype(precision)) || device.block_scales) return;
  const LowPrecisionScaling scaling = scaling_of(recipe, precision);
  if (scaling != LowPrecisionScaling::Mxfp8 && scaling != LowPrecisionScaling::Nvfp4) return;
  throw Error("precision = " + std::string(scaling == LowPrecisionScaling::Mxfp8 ? "mxfp8" : "nvfp4") + ": " + device.id +
              " multiplies no factors with a scale for each 16 or 32 elements, only " + supported_formats(device) +
              " (fp8 with delayed, current, rowwise or blockwise scaling)");
}

}  // namespace llmsim::sim
