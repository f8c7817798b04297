// Time of an operator that streams bytes through device memory.
//
//   t = moved / (q r B) + kernels * kernel_time
//
// B is the achieved memory bandwidth, q the operator's own rate (Operator::rate).  r is the rate of the operator's kernel, pass
// and format relative to it: 1 on accelerators, whose vector units are faster than their memory; on a CPU exponentials,
// conversions and strides cost more than the bytes, and what fits the last-level cache of C bytes never reaches memory.  With r_c
// where it fits and r_s where it does not,
//
//   ln r = (1 - w) ln r_c + w ln r_s,   w from 0 at C / 2 to 1 at 2 C, linear in ln moved
//
// Without a known cache everything is streamed.
#pragma once

#include "sim/hardware/device.h"
#include "sim/model/transformer.h"
#include "sim/operators/operator.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// A copy that moves so many last-level caches, half of them read and half written, measures memory:
// little of what it reads is still in the cache.
inline constexpr double kCopyOfMemory = 4.0;

// What decides which kernels a run's streaming operators are.
struct StreamingForms {
  DType dtype = DType::Bf16;  // of the activations
  Norm norm = Norm::LayerNorm;
  bool gated_mlp = false;
  bool chunked_loss = false;
};

StreamingForms streaming_forms(const Transformer& model, const Strategy& strategy);

// Requires a streaming operator.
StreamingKernel streaming_kernel(const Operator& op, const StreamingForms& forms);

bool is_streaming(OperatorKind kind);

struct StreamingMachine {
  BytesPerSecond bandwidth;  // achieved
  Bytes cache{};
  Seconds kernel_time;
  StreamingRates rates;
  StreamingForms forms;
};

StreamingMachine streaming_machine(const Device& device, const StreamingForms& forms);

Seconds streaming_time(const Operator& op, bool backward, const StreamingMachine& machine);

// r and w above.
double relative_rate(const StreamingRate& rate, Bytes moved, Bytes cache);
double streamed_share(Bytes moved, Bytes cache);

}  // namespace llmsim::sim
