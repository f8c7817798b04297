// Work that is captured once and replayed with one call, on devices that can.
//
// Needs the CUDA headers; without them at build time nothing can be captured.
#pragma once

#include <functional>
#include <memory>

#include <c10/core/Device.h>

namespace llmsim::runtime {

bool can_capture_graphs(c10::Device device);

class CapturedGraph {
 public:
  // Runs `work` once to warm up and once more to capture it.  Throws Error where
  // can_capture_graphs() is false.
  explicit CapturedGraph(const std::function<void()>& work);
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  void replay();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmsim::runtime
