#include "runtime/parallel/launch_lane.h"

#include <chrono>
#include <exception>
#include <utility>

namespace llmsim::runtime {
namespace {

OrderedWorker& launching_thread() {
  static OrderedWorker thread;
  return thread;
}

// A job that fails fails alone: the launching thread goes on.
class Task {
 public:
  explicit Task(std::function<void()> job) : job_(std::move(job)) {}

  std::future<void> done() { return done_.get_future(); }

  void run() {
    std::exception_ptr failure;
    try {
      job_();
    } catch (...) {
      failure = std::current_exception();
    }
    job_ = nullptr;  // what it holds is free when its future is ready
    if (failure) {
      done_.set_exception(failure);
    } else {
      done_.set_value();
    }
  }

 private:
  std::function<void()> job_;
  std::promise<void> done_;
};

}  // namespace

LaunchLane::LaunchLane(std::function<void()> connect) {
  connecting_.then([this, connect = std::move(connect)] {
    try {
      connect();
      connection_.set_value();
    } catch (...) {
      connection_.set_exception(std::current_exception());
    }
  });
}

LaunchLane::~LaunchLane() {
  connecting_.then([] {}).wait();
  launching_thread().then([] {}).wait();
}

std::future<void> LaunchLane::launch(std::function<void()> job) {
  const auto task = std::make_shared<Task>([connected = connected_, job = std::move(job)] {
    connected.get();  // throws what the connection did
    job();
  });
  std::future<void> done = task->done();
  const bool connected = connected_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (connected && waiting_ == 0) {
    launching_thread().then([task] { task->run(); });
    return done;
  }
  ++waiting_;
  connecting_.then([this, task] {
    launching_thread()
        .then([this, task] {
          --waiting_;  // what is launched from now on comes behind this
          task->run();
        })
        .wait();
  });
  return done;
}

}  // namespace llmsim::runtime
