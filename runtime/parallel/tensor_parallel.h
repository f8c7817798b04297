// What the tensor ranks of a block exchange around its column- and row-parallel GEMMs
// (Megatron-LM's f and g).
//
// Without sequence parallelism the residual stream is whole on every rank: outputs of row-parallel
// GEMMs are summed, and so are the gradients of what column-parallel GEMMs read.  With it each rank
// holds t / n tokens between them: the sums become reduce-scatters and all-gathers go before
// column-parallel GEMMs.  With one rank everything is free and copies nothing.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/parallel/communicator.h"

namespace llmsim::runtime {

class TensorParallel {
 public:
  TensorParallel() = default;  // one rank
  TensorParallel(Communicator& group, bool sequence_parallel)
      : group_(&group), sequence_parallel_(sequence_parallel) {}

  int rank() const { return group_ == nullptr ? 0 : group_->rank(); }
  int size() const { return group_ == nullptr ? 1 : group_->size(); }
  bool divides_tokens() const { return sequence_parallel_ && size() > 1; }
  Communicator* group() const { return size() > 1 ? group_ : nullptr; }

  at::Tensor column_input(const at::Tensor& x) const;  // x, or x of all ranks
  // Summed; this rank's tokens where they are divided.
  at::Tensor column_gradient(at::Tensor dx) const;
  at::Tensor row_output(at::Tensor y) const;            // the same
  at::Tensor row_gradient(const at::Tensor& dy) const;  // dy, or dy of all ranks

 private:
  at::Tensor gathered(const at::Tensor& part) const;
  at::Tensor reduced(at::Tensor whole) const;

  Communicator* group_ = nullptr;
  bool sequence_parallel_ = false;
};

}  // namespace llmsim::runtime
