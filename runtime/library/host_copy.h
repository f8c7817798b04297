// Tensors that go to the memory of the host and come back.
//
// Of a GPU they are copied to pinned memory.  A CPU's memory is the host's: they are copied all the same and counted apart
// (memory_meter.h), and so they are on the meta device.
#pragma once

#include <ATen/core/Tensor.h>

namespace llmsim::runtime {

at::Tensor copied_to_host(const at::Tensor& tensor);
at::Tensor copied_to_device(const at::Tensor& tensor, c10::Device device);

}  // namespace llmsim::runtime
