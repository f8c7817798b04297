// Time of a flash-attention kernel on one device.
//
//   t = executed / (P e u) + kernel_time,    e = efficiency * (head-size factor) * n / (n + n_half)
//
// executed = flops * Operator::repeats: a backward kernel makes the scores again, five GEMMs where four count.
// P is the 16-bit matrix peak, n the keys a query sees; n_half is seq_half under a causal mask (half-empty diagonal tiles, uneven
// rows) and a third of it without.  u = min(1, blocks / compute_units) is the share of the device that batch * heads * m / 128
// blocks of queries can occupy. Head sizes between and beyond 64 and 128 are interpolated in 1/d and capped at 128. Source:
// throughput tables of each kernel (hwdb/facts/achieved_attention.json); fitted by calibrate/attention_fit.h.
#pragma once

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

Seconds attention_time(const Operator& attention, bool backward, const AttentionMachine& machine);

}  // namespace llmsim::sim
