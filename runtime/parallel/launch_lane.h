// What is launched on the device of this process, in the order in which the program asks for it.
//
// Collectives of several groups must be launched in the same order on all ranks (NVIDIA/nccl#195):
// one thread of the process launches all of them.  A group connects in a thread of its own, because
// others are there only when they come to the same point: what is asked of it before it is
// connected waits for that and holds up no other group.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>

#include "runtime/parallel/ordered_worker.h"

namespace llmsim::runtime {

class LaunchLane {
 public:
  // `connect` runs at once; where it throws, so does all that is launched.
  explicit LaunchLane(std::function<void()> connect);
  // Waits for all that was launched.
  ~LaunchLane();
  LaunchLane(const LaunchLane&) = delete;
  LaunchLane& operator=(const LaunchLane&) = delete;

  // Called from one thread at a time.  Jobs of a lane run in order; those of connected lanes in the
  // order of the calls.
  std::future<void> launch(std::function<void()> job);

 private:
  std::promise<void> connection_;
  std::shared_future<void> connected_ = connection_.get_future().share();
  std::atomic<int> waiting_ = 0;  // jobs that wait for the connection
  OrderedWorker connecting_;      // last: it uses what stands above
};

}  // namespace llmsim::runtime
