// One accelerator as the framework sees it (an MI250X counts as two: its GCDs), the kernels that it
// runs, and what they achieve.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "sim/base/dtype.h"
#include "sim/base/field.h"
#include "sim/base/quantity.h"

namespace llmsim::sim {

// Implementations of attention that never write the scores to memory.  They differ by up to four
// times on one device.  Which one runs depends on the framework and its date:
// Framework::attention_kernel names it, and Achieved::attention has its rates.
//
//   Flash1           FlashAttention, until July 2023
//   FlashTriton      FlashAttention written in Triton, as MPT models used it until 2024
//   Flash2           FlashAttention-2, which PyTorch's scaled_dot_product_attention calls on NVIDIA
//                    devices; designed for Ampere, so that it uses a third of Hopper's matrix units
//                    and a fifth of Blackwell's
//   Flash3           FlashAttention-3 (Hopper)
//   Flash4           FlashAttention-4 (Blackwell; its kernels for Hopper are FlashAttention-3's)
//   Cudnn            cuDNN's fused attention: TransformerEngine's choice from Hopper on
//   ComposableKernel AMD's Composable Kernel: the ROCm ports of FlashAttention-2 and
//                    TransformerEngine
//   Aotriton         what PyTorch calls on ROCm
//   AotritonFirst    the same before PyTorch's nightly build of 2024-09-30, with a backward pass
//                    several times slower
//   Splash           Pallas kernels on TPUs
//   Blockwise        blocks of 128 queries, each from plain GEMMs and elementwise operators: what
//                    the runtime runs where the library has no kernel; in 16 bits
//   BlockwiseFp32    the same in fp32: its elementwise part is no slower, its GEMMs are
enum class AttentionKernel {
  Flash1,
  FlashTriton,
  Flash2,
  Flash3,
  Flash4,
  Cudnn,
  ComposableKernel,
  Aotriton,
  AotritonFirst,
  Splash,
  Blockwise,
  BlockwiseFp32
};

inline constexpr int kNumAttentionKernels = 12;

// "flash-1", "flash-triton", "flash-2", "flash-3", "flash-4", "cudnn", "composable-kernel",
// "aotriton", "aotriton-first", "splash", "blockwise", "blockwise-fp32".
NameTable<AttentionKernel> name_table(AttentionKernel);

// Kernels of the operators that are memory-bound, as far as they differ in speed where arithmetic
// costs more than the bytes.
enum class MemoryBoundKernel {
  LayerNorm,
  RmsNorm,
  Softmax,
  Gelu,
  GatedActivation,
  Rotary,
  Add,           // residuals
  ColumnSum,     // gradients of biases
  Copy,          // into another layout
  Lookup,        // of the embedding, and the sums of its gradient
  CrossEntropy,  // loss, and gradient of the logits, in two passes
  ChunkedCrossEntropy,
  Cast,
  Optimizer,
  SquareSum,     // norm of gradients
  Scale,         // of gradients, in place
  ExpertChoice,  // of a router: softmax, the largest, the order of rows
  RowMove,       // rows of a matrix into another order
  WeightedSum,   // of the rows of a token
  Convolution,   // of each channel over some tokens
  Scan,          // of states: its chunks' GEMMs wait for what they load
  SelectiveScan  // of Mamba-1: most of what it loads and adds to lies in the last-level cache
};

inline constexpr int kNumMemoryBoundKernels = 22;

// "layer_norm", "rms_norm", ...
const char* name_of(MemoryBoundKernel kernel);

// How GEMMs on a device fall short of its peak.  See cost/kernels.h for the formula.
struct GemmCoefficients {
  double max_efficiency = 0.80;  // fraction of peak that a large aligned GEMM sustains
  // K at which the fill and drain of a tile's K loop cost as much as the loop.
  double k_half = 256.0;
  // 1: a nearly empty last wave costs a full one; 0: costs its share.
  double wave_quantisation = 0.5;
  // Rate of a GEMM whose rows in memory are no multiple of `alignment` elements.
  double misaligned_factor = 0.75;
  // The same where they are an even number of elements, relative to that.
  double even_rows_gain = 1.0;
  // The same of batched GEMMs, whose every factor starts at a misaligned address.
  double misaligned_batch_factor = 0.75;
  // Rows or columns below which a GEMM costs no less; CPUs go down to a vector.
  int smallest_tile = 64;
  int alignment = 8;  // elements (16 bytes of a 16-bit format)
  // Rate of a GEMM that accumulates a weight gradient, relative to the others.
  double weight_gradient_factor = 0.94;
  // Rate of a GEMM that multiplies rows with rows, relative to the others: CPUs without 16-bit
  // arithmetic run it by another kernel.
  double transposed_factor = 1.0;
  // Clock under a long run of GEMMs in this format, relative to Achieved::sustained_clock: 8-bit
  // units draw less power at the same clock.
  double clock_factor = 1.0;
  Seconds kernel_time{3e-6};  // start-up and epilogue of one kernel
};

// How attention kernels fall short of the matrix peak.  See cost/kernels.h.
struct AttentionCoefficients {
  double forward = 0.50;   // fraction of the 16-bit peak of a long, full, head_dim 128 forward pass
  double backward = 0.40;  // of a backward pass
  double seq_half = 512.0;           // sequence length at which half of that is reached
  double head_dim_64_factor = 0.80;  // rate at head_dim 64 relative to 128
};

// Rate of a memory-bound kernel relative to the achieved memory bandwidth.  See cost/kernels.h.
struct MemoryBoundRate {
  double cached = 1.0;    // operands fit the last-level cache
  double streamed = 1.0;  // they do not
};

struct MemoryBoundRates {
  std::array<MemoryBoundRate, kNumMemoryBoundKernels> forward{};  // by MemoryBoundKernel
  std::array<MemoryBoundRate, kNumMemoryBoundKernels> backward{};
};

// What processes of one host lose to one another.
struct HostSharing {
  double collectives = 0.0;  // share of a hidden collective's time that the overlapped kernels lose
  // Time that each other busy process adds to GEMMs and attention, relative to alone.
  double gemms = 0.0;
  double memory_bound = 0.0;  // the same of memory-bound kernels
};

// Measured sustained rates, relative to data-sheet peaks.
struct Achieved {
  std::array<GemmCoefficients, kNumDTypes> gemm;                      // by DType
  std::array<AttentionCoefficients, kNumAttentionKernels> attention;  // by AttentionKernel
  std::array<MemoryBoundRates, kNumDTypes> memory_bound;              // by DType of the activations
  Seconds kernel_time{2.5e-6};    // device time of a kernel that has almost nothing to do
  double memory_fraction = 0.85;  // of memory_bandwidth, for memory-bound kernels
  // Rate of GEMMs and attention inside training steps, relative to what the above says.
  double training_rate = 1.0;
  double training_rate_error = 0.10;  // standard deviation of its logarithm
  // Clock under a long training step in 16 bits relative to the clock of the measured kernels.
  double sustained_clock = 1.0;
  // Time of a framework's call on this device's host, relative to the hosts of Framework::host.
  double host_call_factor = 1.0;
  double collective_fraction = 0.80;  // of the scale-up link, for large messages
  double scale_out_fraction = 0.85;   // of the network, for large messages
  // What one compute unit moves that runs a collective (bus bandwidth), and the most that the
  // library takes; 0: the device has engines of its own for collectives.  See cost/contention.h.
  BytesPerSecond collective_unit_bandwidth{12.5e9};
  double collective_units = 32.0;
  double collective_traffic = 3.0;  // bytes of device memory for a byte on the wire
  // Rate that GEMMs lose for each share of the memory bandwidth that collectives hold: between none
  // and all of it, half within a factor of two.  Not fitted: step times of studies disagree even in
  // its sign (one number for all, 1.1 +- 0.1, is 0.6 points worse for open studies that are left
  // out and 1.0 better for those of first contact).
  double memory_interference = 0.50;
  // Processes of one host (FabricKind::Loopback) share its cores with the threads that
  // carry their messages, and its caches and memory with each other; all 0 and without
  // effect for other devices (cost/contention.h).
  HostSharing sharing;
  // Standard deviation of speed between equal devices (5 % between the best and worst of eight).
  double device_spread = 0.0175;
};

struct Device {
  std::string id;
  std::string name;
  std::string vendor;        // "NVIDIA", "AMD", "Google", ...
  std::string architecture;  // "Hopper (sm_90)"

  // Dense, by DType; 0 where the format is not supported.
  std::array<FlopsPerSecond, kNumDTypes> matrix_peak{};
  // Matrix instructions take a scale for each 16 or 32 elements (mxfp8, nvfp4).
  bool block_scales = false;
  FlopsPerSecond vector_peak;  // fp32 outside the matrix units
  Bytes memory;                // nominal
  Bytes usable_memory;         // what an allocator can get, before any context
  BytesPerSecond memory_bandwidth;
  Bytes cache;            // last-level cache, 0 if unknown
  int compute_units = 1;  // SMs, CUs, tensor cores of a TPU
  // Driver context and libraries of one process, with one communicator.
  Bytes context_memory{0.5e9};
  // Each further communicator. Source: BigScience memory notes, 1271 MiB with one and 1113 MiB
  // without on V100.
  Bytes communicator_memory = 158.0 * MiB;
  // Workspace of the matrix library. Source: PyTorch, cuBLAS workspaces of 8 x 16 KiB + 2 x 4 MiB;
  // 32 MiB from Hopper on.
  Bytes matmul_workspace = 8.125 * MiB;
  std::optional<double> watts;
  BytesPerSecond host_bandwidth;  // one direction of the host link
  // Host memory rate of one process that updates parameters, with a device's share of the node's
  // cores: 12 s for 8.03e9 parameters of 38 bytes.  Source: optimized_hf_llama_class_for_training
  // README, trace of a step on one A100; steps of 2.4 to 3.1 s for half of 3.1e9 parameters on each
  // of two A100 agree (deepspeedai/DeepSpeed pull request 7474).
  BytesPerSecond host_memory_bandwidth{25e9};

  Achieved achieved;

  // Of memory, by memory-bound kernels.
  BytesPerSecond achieved_bandwidth() const { return achieved.memory_fraction * memory_bandwidth; }

  // Best matrix rate for a format, falling back to one of more bits where the device does not have
  // it (bf16 on V100 -> none).  Throws Error where no fallback exists.
  FlopsPerSecond peak(DType dtype) const;
};

// "fp32, fp16, bf16": the formats with a peak.
std::string supported_formats(const Device& device);

struct PowerLimit {
  double watts = 0.0;
  FlopsPerSecond peak;  // of the matrix units in 16 bits
};

constexpr double kPowerExponent = 0.63;  // a below

// Clock of a device whose GEMMs nobody has measured, from a device with the same chip under another
// power limit.
//
// Under a long training step matrix units run as fast as the power limit allows.  A unit at clock f
// takes power f^(1/a), so n units under a limit W run at f ~ (W / n)^a.  With the data sheet's peak
// P ~ n,
//
//   clock / clock_like = ((W / P) / (W_like / P_like))^a       a = 0.63; clocks are relative to the
//                                                              data sheet's
//
// and never above the clock of short runs.  Source of a: MI325X (1000 W) sustains 20 % more than
// MI300X (750 W) with the same peak, ln 1.2 / ln (4/3) = 0.63 (ROCm blogs, measuring max-achievable
// FLOPs, part 2); the best bf16 GEMMs of one collector on B200, B300, GB200 and GB300 (1000 to 1400
// W) grow with the power limit to the power of 0.61 (ai-dynamo/aiconfigurator @095f58a). Assumes
// the same architecture, whose units take the same power at the same clock.
//
// `clock`: the sustained clock of `like`, relative to short runs.  Requires
// positive limits and peaks.
double power_limited_clock(double clock, const PowerLimit& device, const PowerLimit& like);

}  // namespace llmsim::sim
