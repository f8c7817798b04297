#include "sim/cost/attention.h"

#include <algorithm>

namespace llmsim::sim {
namespace {

constexpr double kQueryBlock = 128.0;

// 1 at 128, the fitted factor at 64, linear in 1/d between and below.
double head_factor(double d, double factor_64) {
  if (d >= 128.0) return 1.0;
  const double slope = (1.0 / factor_64 - 1.0) / (1.0 / 64.0 - 1.0 / 128.0);
  return 1.0 / (1.0 + slope * (1.0 / d - 1.0 / 128.0));
}

}  // namespace

AttentionMachine attention_machine(const Device& device, DType dtype, AttentionKernel kernel) {
  return {.peak = device.peak(dtype),
          .compute_units = device.compute_units,
          .bandwidth = device.achieved.memory_fraction * device.memory_bandwidth,
          .coefficients = device.achieved.attention[static_cast<std::size_t>(kernel)],
          .kernel_time = device.achieved.gemm[static_cast<std::size_t>(dtype)].kernel_time};
}

AttentionFactors attention_factors(const Operator& attention, bool backward, const AttentionMachine& machine) {
  const AttentionCoefficients& c = machine.coefficients;
  const double keys = static_cast<double>(attention.n), d = static_cast<double>(attention.k);
  const double half = attention.causal ? c.seq_half : c.seq_half / 3.0;
  const double blocks = static_cast<double>(attention.batch) * std::max(1.0, static_cast<double>(attention.m) / kQueryBlock);
  AttentionFactors factors{.peak = machine.peak, .efficiency = backward ? c.backward : c.forward};
  factors.head_size = head_factor(d, c.head_dim_64_factor);
  factors.occupancy = std::min(1.0, blocks / machine.compute_units);
  factors.useful = 1.0 / attention.repeats;
  const double long_sequence = factors.efficiency * factors.head_size * factors.occupancy;
  const double reached = long_sequence * keys / (keys + half);
  factors.sequence = reached / long_sequence;
  factors.compute = attention.repeats * attention.flops / (machine.peak * reached);
  factors.memory = attention.moved / machine.bandwidth;
  factors.kernel_time = attention.launches * machine.kernel_time;
  return factors;
}

Seconds attention_time(const Operator& attention, bool backward, const AttentionMachine& machine) {
  return attention_factors(attention, backward, machine).time();
}

}  // namespace llmsim::sim
