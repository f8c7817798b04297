// The names under which the database keeps the coefficients of a device and of its links, and where
// each goes.
//
//   gemm.F.K          of GEMMs in one format, F in fp32 tf32 fp16 bf16 fp8 fp4
//   gemm.K            of all formats; K in max_efficiency k_half wave_quantisation
//                     misaligned_factor misaligned_batch_factor smallest_tile alignment
//                     weight_gradient_factor transposed_factor kernel_time_s
//   attention.A.K     of one kind of attention kernel, A in flash-1 flash-triton flash-2 flash-3
//                     flash-4 cudnn composable-kernel aotriton aotriton-first splash blockwise
//                     blockwise-fp32; K in forward backward seq_half head_dim_64_factor
//   attention.K       of all kernels
//   memory_bound.F.O.P
//                     rate of the memory-bound kernel O (sim/hardware/device.h) with activations of
//                     format F, relative to the achieved memory bandwidth; P in forward backward
//                     and, where the operands fit the last-level cache, forward_cached
//                     backward_cached.  It is listed where it is not 1.
//   kernel_time_s, memory_fraction, sustained_clock, training_rate, host_call_factor,
//     collective_fraction, scale_out_fraction, contention, device_spread
//   context_bytes, communicator_bytes, matmul_workspace_bytes, host_bytes_per_s,
//     host_memory_bytes_per_s, devices_per_host_link
//   sharing.K         of processes of one host (sim/cost/contention.h); K in collectives gemms
//                     memory_bound.  It is listed where it is not 0, as is fabric.sum_bytes_per_s.
//   fabric.latency_s, network.latency_s, network.ring_decay, network.ring_domains,
//     network.ring_step_s, network.slow_fraction, network.socket_bytes_per_s
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/hardware/cluster.h"

namespace llmsim::hwdb {

struct CoefficientRange {
  double least = 0.0;
  double most = 0.0;
};

// One coefficient of a cluster: the device's own, or of its fabric and network.
struct CoefficientValue {
  std::string key;
  double value = 0.0;
  std::string unit;  // "" for a ratio
};

// All keys, without those for all formats.
const std::vector<std::string>& coefficient_keys();

// What values a key may have; none for an unknown key.
std::optional<CoefficientRange> coefficient_range(std::string_view key);

// The keys that `key` sets: itself, or one per format or kernel for a key of all of them.  Empty
// for an unknown key.
std::vector<std::string> keys_set_by(std::string_view key);

// Sets the coefficient of a known key (see keys_set_by).
void set_coefficient(sim::Cluster& cluster, std::string_view key, double value);

// The coefficients as they stand.  Those of formats that the device lacks are left out.
std::vector<CoefficientValue> coefficient_values(const sim::Cluster& cluster);

}  // namespace llmsim::hwdb
