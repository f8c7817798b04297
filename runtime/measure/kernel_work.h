// Operators of the simulator as something to call: real kernels of runtime/kernels on random data.
//
// Weights are colder than activations: in a step an activation has just been written by the
// operator before, a weight was read last in another pass.  So activations are the same tensors in
// every call, and weights, gradients and optimizer states rotate through copies that together are
// twice as large as the last-level cache.
#pragma once

#include <functional>
#include <optional>

#include <c10/core/Device.h>

#include "runtime/measure/shapes.h"
#include "sim/base/quantity.h"

namespace llmsim::runtime {

struct Work {
  std::function<void()> run;
  // What `run` does that is not part of the operator; may be empty.
  std::function<void()> overhead{};
};

// None for operators that have no kernel of their own here.  Blockwise attention includes the
// layout change of q, k and v, which the simulator lists only for the unfused form.
std::optional<Work> work_of(const KernelCase& one, c10::Device device, sim::Bytes cache);

}  // namespace llmsim::runtime
