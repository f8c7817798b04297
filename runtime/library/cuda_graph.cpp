#include "runtime/library/cuda_graph.h"

#include "sim/base/error.h"

#if LLMSIM_HAVE_CUDA_HEADERS

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

namespace llmsim::runtime {

struct CapturedGraph::Impl {
  at::cuda::CUDAGraph graph;
};

bool can_capture_graphs(c10::Device device) { return device.is_cuda(); }

CapturedGraph::CapturedGraph(const std::function<void()>& work) : impl_(std::make_unique<Impl>()) {
  c10::cuda::device_synchronize();  // the stream that captures does not wait for others
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  work();
  impl_->graph.capture_begin();
  work();
  impl_->graph.capture_end();
  c10::cuda::device_synchronize();
}

void CapturedGraph::replay() { impl_->graph.replay(); }

}  // namespace llmsim::runtime

#else

namespace llmsim::runtime {

struct CapturedGraph::Impl {};

bool can_capture_graphs(c10::Device) { return false; }

CapturedGraph::CapturedGraph(const std::function<void()>&) {
  throw Error("graphs cannot be captured: the runtime was built without CUDA headers");
}

void CapturedGraph::replay() {}

}  // namespace llmsim::runtime

#endif

namespace llmsim::runtime {

CapturedGraph::~CapturedGraph() = default;

}  // namespace llmsim::runtime
