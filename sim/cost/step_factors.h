// What GEMMs and attention reach inside a training step, relative to the same kernels measured alone.
//
//   time in a step = time alone / (sustained_clock * training_rate * framework * host_sharing * library * low_precision *
//                                  determinism)
//
// Host sharing.  With n processes of one host at work (FabricKind::Loopback), each runs GEMMs and attention at 1 / (1 + (n - 1)
// x) of the rate that it reaches alone, and kernels that stream through memory at 1 / (1 + (n - 1) y): x and y are measured by
// doing both alone and together (HostSharing::gemms, streaming).  A last-level cache of C bytes holds C / n of each.
//
// Determinism.  To give the same bits every time PyTorch under use_deterministic_algorithms fills each new tensor before an
// operator writes it (fill_uninitialized_memory, on by default: torch.empty, empty_like, empty_strided, resize_).  Libraries that
// allocate their results so pay one more write of each:
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
// Sources of the other factors: fits to kernels and to whole runs (calibrate/README.md).
#pragma once

#include "sim/base/dtype.h"
#include "sim/cost/streaming.h"
#include "sim/hardware/cluster.h"
#include "sim/operators/operator.h"
#include "sim/run.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

struct StepFactors {
  double sustained_clock = 1.0;  // Achieved::sustained_clock
  double training_rate = 1.0;    // Achieved::training_rate
  double framework = 1.0;        // Framework::efficiency
  double host_sharing = 1.0;     // what other processes of the host leave (HostShare)
  double library = 1.0;          // GEMMs: Framework::gemm_efficiency
  double low_precision = 1.0;    // GEMMs in 8- and 4-bit formats: what the framework reaches of the library's rate
  double determinism = 1.0;      // attention, backward: sums in one order

  double rate() const {
    return sustained_clock * training_rate * framework * host_sharing * library * low_precision * determinism;
  }
};

StepFactors gemm_step_factors(const Run& run, DType dtype);
StepFactors attention_step_factors(const Run& run, bool backward);

// Of one process, relative to alone; all of it where the devices do not share a host.
struct HostShare {
  double gemms = 1.0;
  double streaming = 1.0;
  double cache = 1.0;
};

HostShare host_share(const Cluster& cluster);

// The streaming kernels of one process while the others do the same.
StreamingMachine streaming_machine(const Cluster& cluster, const StreamingForms& forms);

// Of the results of one operator; 0 for one that allocates none.  `element`: bytes of an activation.
Bytes filled_bytes(const Operator& op, bool backward, double element, const Framework& framework);

}  // namespace llmsim::sim
