// Time of a matrix product on one device.
//
// The product's (m, n) plane is cut into tiles of tm x tn; each compute unit works through the K loop of one tile at a time; a K
// loop may be split over s units.  With u compute units, peak P, x = batch * ceil(m/tm) * ceil(n/tn) * s / u tiles per unit and
//
//   waves = 1 for x < 1, else (1 - w) x + w ceil(x)                     w: wave_quantisation
//   rate  = max_efficiency * P / u * (1 + c/128 + c/256) / (1 + c/tm + c/tn)    small tiles reload their operands more often
//   loop  = 2 tm tn (k / s + k_half) / rate                             k_half: fill, drain and epilogue
//
// the time is   t = max(min over tiles and splits of waves * loop / alignment, bytes / bandwidth) + kernel_time.
// alignment = misaligned_factor where a leading dimension is no multiple of `alignment` elements, else 1.
//
// Assumes random data and a warm device.  Sources: tile and wave quantisation, NVIDIA "Matrix Multiplication Background";
// coefficients are fitted to measured grids, see calibrate/gemm_fit.h.
#pragma once

#include "sim/hardware/device.h"
#include "sim/operators/operator.h"

namespace llmsim::sim {

// What the formula needs to know of a device.
struct GemmMachine {
  FlopsPerSecond peak;
  int compute_units = 1;
  BytesPerSecond bandwidth;  // achieved
  GemmCoefficients coefficients;
};

// Operand reload cost c above, in elements of a tile edge.
inline constexpr double kTileReload = 24.0;

// The machine for a format on a device.  Throws Error where the device cannot multiply in it.
GemmMachine gemm_machine(const Device& device, DType dtype);

Seconds gemm_time(const Operator& product, const GemmMachine& machine);

}  // namespace llmsim::sim
