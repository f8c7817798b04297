#include "runtime/library/host_copy.h"

#include <ATen/ATen.h>

#include "runtime/library/memory_meter.h"

namespace llmsim::runtime {

at::Tensor copied_to_host(const at::Tensor& tensor) {
  const OnHost placed;
  at::TensorOptions options = tensor.options();
  if (tensor.is_cuda()) options = options.device(at::kCPU).pinned_memory(true);
  return at::empty(tensor.sizes(), options).copy_(tensor);
}

at::Tensor copied_to_device(const at::Tensor& tensor, c10::Device device) {
  return at::empty(tensor.sizes(), at::TensorOptions(tensor.scalar_type()).device(device)).copy_(tensor);
}

}  // namespace llmsim::runtime
