// What it costs to give the same bits every time.
//
// PyTorch under use_deterministic_algorithms fills each new tensor before an operator writes it (fill_uninitialized_memory, on by
// default: torch.empty, empty_like, empty_strided, resize_).  Libraries that allocate their results so pay one more write of
// each:
//
//   GEMMs                  m n elements; weight gradients too unless the GEMM accumulates into the gradient
//   attention              the output, a quarter of what the forward pass moves (q, k, v, output); backward the gradients of
//                          q, k, v, three eighths of what it moves (q, k, v, output, its gradient, those three)
//   norms                  half of what the forward pass moves (input, output); backward a third (input, gradient, gradient)
//   casts, copies          half of what they move
//
// Elementwise operators of PyTorch itself and compiled kernels allocate without filling.  The backward pass of attention sums in
// one order: Determinism::attention_backward.  Collectives keep to rings (default.collective_algorithm).
// Source: PyTorch, torch.utils.deterministic and torch.empty; Megatron-LM training/arguments.py, deterministic_mode.
#pragma once

#include "sim/operators/operator.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

// Of the results of one operator; 0 for one that allocates none.  `element`: bytes of an activation.
Bytes filled_bytes(const Operator& op, bool backward, double element, const Framework& framework);

}  // namespace llmsim::sim
