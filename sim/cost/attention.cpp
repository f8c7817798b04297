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

Seconds attention_time(const Operator& attention, bool backward, const AttentionMachine& machine) {
  const AttentionCoefficients& c = machine.coefficients;
  const double keys = static_cast<double>(attention.n), d = static_cast<double>(attention.k);
  const double half = attention.causal ? c.seq_half : c.seq_half / 3.0;
  const double blocks = static_cast<double>(attention.batch) * std::max(1.0, static_cast<double>(attention.m) / kQueryBlock);
  const double occupied = std::min(1.0, blocks / machine.compute_units);
  const double efficiency = (backward ? c.backward : c.forward) * head_factor(d, c.head_dim_64_factor);
  const Seconds compute = attention.repeats * attention.flops / (machine.peak * (efficiency * occupied * keys / (keys + half)));
  return std::max(compute, attention.moved / machine.bandwidth) + attention.launches * machine.kernel_time;
}

}  // namespace llmsim::sim
