// Which low-precision recipes a device can multiply with.
//
// Scales of the tensor, of rows and of 128 values are multiplied in after a GEMM of 8-bit factors or of a part of it: every
// device with 8-bit GEMMs can.  Scales of 16 or 32 elements belong to the matrix instruction: `Device::block_scales`.
// Sources: NVIDIA PTX ISA, mma with block scaling (sm_100 and later); AMD CDNA4 ISA, V_MFMA_SCALE.
#pragma once

#include "sim/hardware/device.h"
#include "sim/strategy/low_precision_recipe.h"

namespace llmsim::sim {

// Throws Error that says what the device does multiply in where it cannot in this recipe.
void require_recipe(const Device& device, const LowPrecisionRecipe& recipe, Precision precision);

}  // namespace llmsim::sim
