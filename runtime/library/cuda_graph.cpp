#include "runtime/library/cuda_graph.h"

#include "sim/base/error.h"

#if LLMSIM_HAVE_CUDA_HEADERS

#include <exception>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

namespace llmsim::runtime {

struct CapturedGraph::Impl {
  at::cuda::CUDAGraph graph;
};

namespace {

// A stream that still captures would let every other call of the process fail.
void end_capture(at::cuda::CUDAGraph& graph) {
  try {
    graph.capture_end();
  } catch (const std::exception&) {
    static_cast<void>(cudaGetLastError());  // says that the capture is void, which is known
  }
}

}  // namespace

bool can_capture_graphs(c10::Device device) { return device.is_cuda(); }

CapturedGraph::CapturedGraph(const std::function<void()>& work) : impl_(std::make_unique<Impl>()) {
  c10::cuda::device_synchronize();  // the stream that captures does not wait for others
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  work();
  impl_->graph.capture_begin();
  try {
    work();
  } catch (...) {
    end_capture(impl_->graph);
    throw;
  }
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
