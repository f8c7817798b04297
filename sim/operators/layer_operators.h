// The operators of a layer, or of a part of one, on one rank for one micro-batch.
#pragma once

#include "sim/operators/operator.h"
#include "sim/operators/traffic.h"

namespace llmsim::sim {

struct LayerOperators {
  OperatorList forward;
  OperatorList backward;
  OperatorList recompute;  // repeated before the backward pass

  void add_forward(Module module, Operator op);
  void add_backward(Module module, Operator op);
  // Forward and backward kernels of a memory-bound operator; none where the framework has fused
  // them away.
  void add(OperatorKind kind, Module module, const char* label, double elements,
           const Traffic& traffic);
  // A part that is of `module` as a whole.
  void add(Module module, const LayerOperators& part);
  // A part whose operators have their modules.
  void add(const LayerOperators& part);
};

}  // namespace llmsim::sim
