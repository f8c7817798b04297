// Time of a GEMM on one device.
//
// The GEMM's (m, n) plane is cut into tiles of tm x tn; each compute unit works through the K loop of one tile at a time; a K
// loop may be split over s units.  With u compute units, peak P, x = batch * ceil(m/tm) * ceil(n/tn) * s / u tiles per unit and
//
//   waves = 1 for x < 1, else (1 - w) x + w ceil(x)                     w: wave_quantisation
//   rate  = max_efficiency * P / u * (1 + c/128 + c/256) / (1 + c/tm + c/tn)    small tiles reload their operands more often
//   loop  = 2 tm tn (k / s + k_half) / rate                             k_half: fill, drain and epilogue
//
//   compute = min over tiles and splits of waves * loop / (alignment * pass)
//   memory  = bytes / bandwidth
//   t       = (compute^3 + memory^3)^(1/3) + kernel_time
//
// t is the larger of the two, and up to 26 % more where they are equal.  Tiles are 256 x 128, 128 x 256, 128 x 128, 128 x 64,
// 64 x 128 and 64 x 64; of an edge that the GEMM's m or n < 64 does not fill, a device whose `smallest_tile` is less than 64 has
// one of the next multiple of that.  K loops are split in s = 1, 2, 4, 8 or 16 as long as x <= 2 and k / s >= 256.
// alignment = misaligned_factor (misaligned_batch_factor where batch > 1) where a dimension is no multiple of `alignment`
// elements, else 1; the tokens of a ragged GEMM are spared that.  pass = weight_gradient_factor where the GEMM accumulates a
// weight gradient, else 1.  The layouts of
// forward and data-gradient GEMMs (NT and NN, row-major) run alike: 1.00 in the median of 14 shapes measured in both, on A100
// and on B200 (MooreThreads/SimuMax; tests/calibrate/kernel_fits_test.cpp holds it).
//
// Assumes random data and a warm device.  Sources: tile and wave quantisation, NVIDIA "Matrix Multiplication Background";
// the exponent and all coefficients are fitted to measured grids, see calibrate/gemm_fit.h and calibrate/README.md.
#pragma once

#include "sim/hardware/device.h"
#include "sim/operators/operator.h"

namespace llmsim::sim {

// Operand reload cost c above, in elements of a tile edge: the best of one value for the bf16 grids of seven
// devices; 32 to 128 describe them as well (calibrate/README.md).
inline constexpr double kTileReload = 64.0;

// What the formula needs to know of a device.
struct GemmMachine {
  FlopsPerSecond peak;
  int compute_units = 1;
  BytesPerSecond bandwidth;  // achieved
  GemmCoefficients coefficients;
};

// The machine for a format on a device.  Throws Error where the device cannot multiply in it.
GemmMachine gemm_machine(const Device& device, DType dtype);

// What one GEMM reaches, as factors of the peak in the order of the formula:
//
//   flops / time = peak * max_efficiency * k_ramp * tile * waves * padding * alignment * weight_gradient * roofline() * launch()
//
// k_ramp = (k/s) / (k/s + k_half); tile, the operand reload of the tile that was chosen; waves, what tiles that reach over the
// edges and a last wave that is not full leave; padding, useful rows of those that a grouped GEMM works on.
struct GemmFactors {
  FlopsPerSecond peak{};
  double max_efficiency = 1.0;
  double k_ramp = 1.0;
  double tile = 1.0;
  double waves = 1.0;
  double padding = 1.0;
  double alignment = 1.0;
  double weight_gradient = 1.0;

  Seconds compute{};
  Seconds memory{};
  Seconds overlapped{};  // of both
  Seconds kernel_time{};

  Seconds time() const { return overlapped + kernel_time; }
  // What is left of the compute rate beside the loads: 2^(-1/3) where both take as long.
  double roofline() const { return compute / overlapped; }
  double launch() const { return overlapped / time(); }
  bool memory_bound() const { return memory > compute; }
};

GemmFactors gemm_factors(const Operator& gemm, const GemmMachine& machine);

Seconds gemm_time(const Operator& gemm, const GemmMachine& machine);

}  // namespace llmsim::sim
