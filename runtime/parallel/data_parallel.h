// Where weights, gradients and optimizer states live over the data-parallel ranks, and the
// collectives that move them.
//
//   form          weights   gradients  states    collectives of a step, p passes (micro-batches)
//   Replicated    whole     whole      whole     all-reduce of the gradients, by buckets
//   Zero1         whole     whole      shard     reduce-scatter of each unit's gradients,
//                                                all-gather of its weights, in place
//   Zero2         whole     shard      shard     the same; whole gradients of a unit live while its
//                                                backward pass runs
//   Zero3, FSDP   shard     shard      shard     per pass: all-gather forward, all-gather backward,
//                                                reduce-scatter of each unit
//   Hsdp          as Zero3 inside a group; the shards' gradients are then summed over its replicas
//
// A model calls the hooks around each unit's passes; between them the unit has whole weights and,
// where it was asked for them, whole gradients to add to.  The slices are what this rank updates.
//
// Gradients are sums, so whatever has been summed over ranks is carried on by one of them alone:
// its owner, or rank 0.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/kernels/adamw.h"
#include "runtime/model/parameter_unit.h"
#include "runtime/parallel/communicator.h"
#include "runtime/parallel/rank_groups.h"
#include "sim/strategy/strategy.h"

namespace llmsim::runtime {

// How a form communicates weights and gradients; each field matters to some forms only.
struct ExchangeBehaviour {
  std::int64_t bucket = 0;  // Replicated: bytes of gradients in one all-reduce; 0: those of a unit
  // Replicated, Zero1, Zero2: gradients are summed after each, not once a step.
  bool every_micro_batch = false;
  bool regathers_in_backward = true;  // Zero3, Hsdp: weights are freed after forward
  int prefetch_units = 1;             // Zero3, Hsdp: gathers in flight while a unit computes
  bool states_on_host = false;        // master weights, optimizer states and the update
};

// Elements [begin, begin + gradient.numel()) of a unit's gradients: those that this rank updates.
struct GradientSlice {
  const ParameterUnit* unit = nullptr;
  std::int64_t begin = 0;
  at::Tensor gradient;
};

class DataParallel {
 public:
  virtual ~DataParallel() = default;

  // Takes over a unit whose `weights` are whole, in fp32.
  virtual void adopt(ParameterUnit& unit) = 0;
  // No more units will come.
  virtual void complete() {}

  // A pass begins that will use these units in this order.
  virtual void begin_pass(const std::vector<ParameterUnit*>& units) = 0;
  virtual void before_forward(ParameterUnit& unit) = 0;
  virtual void after_forward(ParameterUnit& unit) = 0;
  virtual void before_backward(ParameterUnit& unit) = 0;  // with gradients
  // `last`: of the step; what was accumulated may be sent.
  virtual void after_backward(ParameterUnit& unit, bool last) = 0;
  // Whole gradients before the backward pass: the chunked loss makes some in its forward pass.
  virtual void provide_gradients(ParameterUnit& unit) = 0;

  // After the last backward pass: until all gradients are summed.
  virtual void finish_gradients() = 0;
  // The sums, in the order of adopted units.
  virtual std::vector<GradientSlice> gradient_slices() const = 0;
  // The ranks that have the other slices of the same units; none: this rank has all of them.
  virtual Communicator* slice_group() const = 0;
  // The optimizer step with gradients times `scale`, which are zero afterwards.
  virtual void update(std::int64_t step, const AdamWOptions& options, double scale) = 0;
};

// The form of data parallelism that a strategy has.  `groups` must outlive it.  Where the states
// live follows from the strategy, not from `behaviour`.
std::unique_ptr<DataParallel> data_parallel_form(const sim::Strategy& strategy,
                                                 NumberFormats formats, ExchangeBehaviour behaviour,
                                                 const RankGroups& groups);

}  // namespace llmsim::runtime
