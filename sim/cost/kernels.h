// Time of a kernel on one device, measured alone: GEMMs, flash attention and memory-bound
// operators.  contention.h has what is left of its rate inside a training step.
//
// All of it is a roofline (Williams et al., CACM 52(4), 2009): a kernel is compute-bound where its
// arithmetic intensity, FLOPs per byte moved, is higher than the device's ratio of peak to
// bandwidth, and memory-bound elsewhere.
#pragma once

#include <algorithm>

#include "sim/hardware/device.h"
#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// What a kernel of arithmetic takes.
struct RooflineFactors {
  FlopsPerSecond peak{};
  Seconds compute{};
  Seconds memory{};
  Seconds overlapped{};   // of both
  Seconds kernel_time{};  // of all launches

  Seconds time() const { return overlapped + kernel_time; }
  // What is left of the compute rate under loads; of a GEMM 2^(-1/3) where both take equally long.
  double roofline() const { return compute / overlapped; }
  double launch() const { return overlapped / time(); }
  bool memory_bound() const { return memory > compute; }
};

// Time of a GEMM on one device.
//
// The GEMM's (m, n) plane is cut into tiles of tm x tn; each compute unit works through the K loop
// of one tile at a time; a K loop may be split over s units.  With u compute units, peak P, x =
// batch * ceil(m/tm) * ceil(n/tn) * s / u tiles per unit and
//
//   waves = 1 for x < 1, else (1 - w) x + w ceil(x)              w: wave_quantisation
//   rate  = max_efficiency * P / u
//             * (1 + c/128 + c/256) / (1 + c/tm + c/tn)          small tiles reload operands more
//   loop  = 2 tm tn (k / s + k_half) / rate                      k_half: fill, drain and epilogue
//
//   compute = min over tiles and splits of waves * loop / (alignment * pass)
//   memory  = bytes / bandwidth
//   t       = (compute^3 + memory^3)^(1/3) + kernels * kernel_time
//
// t is the larger of the two, and up to 26 % more where they are equal.
//
//   tiles      256 x 128, 128 x 256, 128 x 128, 128 x 64, 64 x 128 and 64 x 64.  Where m or n is
//              less than 64, a device whose `smallest_tile` is less than 64 has tiles with an edge
//              of the next multiple of it
//   splits     s = 1, 2, 4, 8 or 16, as long as x <= 2 and k / s >= 256
//   alignment  misaligned_factor (misaligned_batch_factor where batch > 1) where the rows of a
//              factor or of the result, n and k (of a weight gradient n and m), are no multiple of
//              `alignment` elements, times even_rows_gain where they are even; else 1
//   pass       weight_gradient_factor where the GEMM makes a weight gradient, transposed_factor
//              where it multiplies rows with rows (forward), else 1
//
// On accelerators the layouts of forward and data-gradient GEMMs (NT and NN, row-major) run alike:
// 1.00 in the median of 14 shapes measured in both, on A100 and on B200 (MooreThreads/SimuMax;
// tests/calibrate/kernel_fits_test.cpp holds it).
//
// The GEMMs of several experts are one of `batch` small ones.  Where each is a kernel of its own,
// each has its kernel_time: with one for all, those of TransformerEngine would be 19 to 34 % too
// fast on B200, in the median of each pass; on A100, where they take longer, it hardly counts
// (MooreThreads/SimuMax, 120 GEMMs; tests/calibrate/kernel_fits_test.cpp).
//
// Assumes random data and a warm device.  Sources: tile and wave quantisation, NVIDIA "Matrix
// Multiplication Background"; the exponent and all coefficients are fitted to measured grids, see
// calibrate/gemm_fit.h and calibrate/README.md.

// Operand reload cost c above, in elements of a tile edge: the best of one value for the bf16 grids
// of seven devices; 32 to 128 describe them as well (calibrate/README.md).
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
//   flops / time = peak * max_efficiency * k_ramp * tile * waves * padding * alignment
//                    * weight_gradient * transposed * roofline() * launch()
//
// k_ramp = (k/s) / (k/s + k_half); tile, the operand reload of the tile that was chosen; waves,
// what tiles that reach over the edges and a last wave that is not full leave; padding, useful rows
// of those that a grouped GEMM works on.
struct GemmFactors : RooflineFactors {
  double max_efficiency = 1.0;
  double k_ramp = 1.0;
  double tile = 1.0;
  double waves = 1.0;
  double padding = 1.0;
  double alignment = 1.0;
  double weight_gradient = 1.0;
  double transposed = 1.0;
};

GemmFactors gemm_factors(const Operator& gemm, const GemmMachine& machine);

Seconds gemm_time(const Operator& gemm, const GemmMachine& machine);

// Time of a flash-attention kernel on one device.
//
//   t = max(executed / (P e u), bytes / bandwidth) + launches * kernel_time
//   e = efficiency * h(d) * n / (n + n_half)
//
// executed = flops * Operator::repeats: a backward kernel recomputes the scores, five GEMMs where
// four count.  P is the matrix peak in the format of the activations, n the keys a query sees;
// n_half is seq_half under a causal mask (half-empty diagonal tiles, uneven rows) and a third of it
// without.  u = min(1, blocks / compute_units) is the share of the device that blocks of 128
// queries can occupy, batch * heads * max(1, m / 128) of them.  The head-size factor is
//
//   h(d) = 1 / (1 + (1 / h64 - 1) (128 / d - 1)) for d < 128, else 1
//
// with h64 = head_dim_64_factor: linear in 1/d through 1 at 128 and 1 / h64 at 64.
//
// Assumes that loads hide behind compute or the other way round.  Source: throughput tables of each
// kernel (hwdb/facts/achieved_attention.json); fitted by calibrate/attention_fit.h.

struct AttentionMachine {
  FlopsPerSecond peak;
  int compute_units = 1;
  BytesPerSecond bandwidth;
  AttentionCoefficients coefficients;
  Seconds kernel_time;
};

AttentionMachine attention_machine(const Device& device, DType dtype, AttentionKernel kernel);

// What a kernel reaches, as factors of the peak in the order of the formula:
//
//   flops / time = peak * efficiency * head_size * sequence * occupancy * useful
//                    * roofline() * launch()
//
// useful: of what the kernel executes, 1 / Operator::repeats.
struct AttentionFactors : RooflineFactors {
  double efficiency = 1.0;
  double head_size = 1.0;
  double sequence = 1.0;
  double occupancy = 1.0;
  double useful = 1.0;
};

AttentionFactors attention_factors(const Operator& attention, bool backward,
                                   const AttentionMachine& machine);

Seconds attention_time(const Operator& attention, bool backward, const AttentionMachine& machine);

// Time of a memory-bound operator: one of low arithmetic intensity, whose bytes bound it.
//
//   t = moved / (q r B) + kernels * kernel_time
//
// B is the achieved memory bandwidth, q the operator's own rate (Operator::rate).  r is the rate of
// the operator's kernel, pass and format relative to it: 1 on accelerators, whose vector units are
// faster than their memory; on a CPU exponentials, conversions and strides cost more than the
// bytes, and what fits the last-level cache of C bytes never reaches memory.  With r_c where it
// fits and r_s where it does not,
//
//   ln r = (1 - w) ln r_c + w ln r_s,   w from 0 at C / 2 to 1 at 2 C, linear in ln moved
//
// Without a known cache everything is streamed.

// A copy that moves so many last-level caches, half of them read and half written, measures memory:
// little of what it reads is still in the cache.
inline constexpr double kCopyOfMemory = 4.0;

// What decides which kernels a run's memory-bound operators are.
struct MemoryBoundForms {
  DType dtype = DType::Bf16;  // of the activations
  Norm norm = Norm::LayerNorm;
  bool gated_mlp = false;
  bool chunked_loss = false;
};

MemoryBoundForms memory_bound_forms(const Transformer& model, const Strategy& strategy);

// Requires a memory-bound operator.
MemoryBoundKernel memory_bound_kernel(const Operator& op, const MemoryBoundForms& forms);

bool is_memory_bound(OperatorKind kind);

struct MemoryBoundMachine {
  BytesPerSecond bandwidth;  // achieved
  Bytes cache{};
  Seconds kernel_time;
  MemoryBoundRates rates;
  MemoryBoundForms forms;
};

MemoryBoundMachine memory_bound_machine(const Device& device, const MemoryBoundForms& forms);

Seconds memory_bound_time(const Operator& op, bool backward, const MemoryBoundMachine& machine);

// r and w above.
double relative_rate(const MemoryBoundRate& rate, Bytes moved, Bytes cache);
double streamed_share(Bytes moved, Bytes cache);

}  // namespace llmsim::sim
