// Time of a flash-attention kernel on one device.
//
//   t = max(executed / (P e u), bytes / bandwidth) + launches * kernel_time,    e = efficiency * h(d) * n / (n + n_half)
//
// executed = flops * Operator::repeats: a backward kernel makes the scores again, five GEMMs where four count.  P is the matrix
// peak in the format of the activations, n the keys a query sees; n_half is seq_half under a causal mask (half-empty diagonal
// tiles, uneven rows) and a third of it without.  u = min(1, blocks / compute_units) is the share of the device that blocks of
// 128 queries can occupy, batch * heads * max(1, m / 128) of them.  The head-size factor is
//
//   h(d) = 1 / (1 + (1 / h64 - 1) (128 / d - 1)) for d < 128, else 1
//
// with h64 = head_dim_64_factor: linear in 1/d through 1 at 128 and 1 / h64 at 64.
//
// Assumes that loads hide behind compute or the other way round.  Source: throughput tables of each kernel
// (hwdb/facts/achieved_attention.json); fitted by calibrate/attention_fit.h.
#pragma once

#include <algorithm>

#include "sim/hardware/device.h"
#include "sim/operators/operator.h"

namespace llmsim::sim {

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
//   flops / time = peak * efficiency * head_size * sequence * occupancy * useful * roofline() * launch()
//
// useful: of what the kernel executes, 1 / Operator::repeats.
struct AttentionFactors {
  FlopsPerSecond peak{};
  double efficiency = 1.0;
  double head_size = 1.0;
  double sequence = 1.0;
  double occupancy = 1.0;
  double useful = 1.0;

  Seconds compute{};
  Seconds memory{};
  Seconds kernel_time{};  // of all launches

  Seconds time() const { return std::max(compute, memory) + kernel_time; }
  double roofline() const { return compute / std::max(compute, memory); }
  double launch() const { return std::max(compute, memory) / time(); }
  bool memory_bound() const { return memory > compute; }
};

AttentionFactors attention_factors(const Operator& attention, bool backward, const AttentionMachine& machine);

Seconds attention_time(const Operator& attention, bool backward, const AttentionMachine& machine);

}  // namespace llmsim::sim
