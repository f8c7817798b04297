#include "runtime/parallel/tensor_parallel.h"

#include <ATen/ATen.h>

namespace llmsim::runtime {

at::Tensor TensorParallel::column_input(const at::Tensor& x) const {
  return divides_tokens() ? gathered(x) : x;
}
at::Tensor TensorParallel::column_gradient(at::Tensor dx) const { return reduced(std::move(dx)); }
at::Tensor TensorParallel::row_output(at::Tensor y) const { return reduced(std::move(y)); }
at::Tensor TensorParallel::row_gradient(const at::Tensor& dy) const {
  return divides_tokens() ? gathered(dy) : dy;
}

at::Tensor TensorParallel::gathered(const at::Tensor& part) const {
  at::Tensor whole = at::empty({part.size(0) * size(), part.size(1)}, part.options());
  group_->all_gather(whole, part);
  return whole;
}

at::Tensor TensorParallel::reduced(at::Tensor whole) const {
  if (size() == 1) return whole;
  if (!sequence_parallel_) {
    group_->all_reduce(whole);
    return whole;
  }
  at::Tensor part = at::empty({whole.size(0) / size(), whole.size(1)}, whole.options());
  group_->reduce_scatter(part, whole);
  return part;
}

}  // namespace llmsim::runtime
