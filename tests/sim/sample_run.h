// A small run with round numbers, for tests that work results out by hand.
#pragma once

#include "sim/model/parameters.h"
#include "sim/run.h"

namespace llmsim::sim {

// gtest's Test has a member named Run; inside tests the simulator's is called by this name.
using TrainingRun = Run;

// A device of 100 TFLOP/s and 1 TB/s without any overhead: a GEMM takes flops / peak.
inline Device ideal_device() {
  Device device;
  device.id = "ideal";
  device.matrix_peak.fill(100.0 * TFLOPS);
  device.vector_peak = 10.0 * TFLOPS;
  device.memory = device.usable_memory = 80.0 * GiB;
  device.memory_bandwidth = 1.0 * TBps;
  device.host_bandwidth = 25.0 * GBps;
  device.context_memory = Bytes(0.0);
  device.achieved.gemm.fill({.max_efficiency = 1.0,
                             .k_half = 0.0,
                             .wave_quantisation = 0.0,
                             .misaligned_factor = 1.0,
                             .misaligned_batch_factor = 1.0,
                             .alignment = 8,
                             .weight_gradient_factor = 1.0,
                             .kernel_time = Seconds(0.0)});
  device.achieved.attention.fill(
      {.forward = 1.0, .backward = 1.0, .seq_half = 0.0, .head_dim_64_factor = 1.0});
  device.achieved.kernel_time = Seconds(0.0);
  device.achieved.memory_fraction = 1.0;
  device.achieved.collective_fraction = 1.0;
  device.achieved.scale_out_fraction = 1.0;
  device.achieved.collective_unit_bandwidth = BytesPerSecond(0.0);
  device.achieved.collective_traffic = 0.0;
  device.achieved.device_spread = 0.0;
  return device;
}

// Nodes of eight ideal devices: 100 GB/s inside, 10 GB/s per device between nodes, no latency.
inline Cluster ideal_cluster(int num_devices) {
  Cluster cluster;
  cluster.id = "ideal";
  cluster.device = ideal_device();
  cluster.num_devices = num_devices;
  cluster.fabric.device_bandwidth = cluster.fabric.pair_bandwidth =
      cluster.fabric.package_bandwidth = 100.0 * GBps;
  cluster.fabric.latency = Seconds(0.0);
  cluster.network.node_bandwidth = 80.0 * GBps;
  cluster.network.latency = Seconds(0.0);
  return cluster;
}

// Eight layers of width 1024: every size divides by 8.
inline Transformer small_model() {
  Transformer model;
  model.name = "small";
  model.num_layers = 8;
  model.hidden_size = 1024;
  model.num_heads = model.num_kv_heads = 8;
  model.head_dim = 128;
  model.ffn_size = 4096;
  model.vocab_size = 32768;
  model.seq_len = 1024;
  model.position = Position::Learned;
  return model;
}

// Its tokens in a micro-batch of one sequence, and its width.
inline constexpr double kTokens = 1024.0, kHidden = 1024.0;

// The same with two of eight experts of width 512 in every layer.
inline Transformer small_moe() {
  Transformer model = small_model();
  model.moe = Moe{.num_experts = 8, .top_k = 2, .expert_ffn_size = 512};
  return model;
}

// One device, one micro-batch, no host cost.
inline Run small_run(int num_devices = 1) {
  Run run;
  run.model = small_model();
  run.cluster = ideal_cluster(num_devices);
  run.strategy.dp = num_devices;
  run.strategy.global_batch = 8 * num_devices;
  run.framework.fusion = ElementwiseFusion::Fused;
  run.framework.host.per_kernel = Seconds(0.0);
  return run;
}

inline double parameter_count(const Run& run) {
  return static_cast<double>(parameters(run.model).total());
}

}  // namespace llmsim::sim
