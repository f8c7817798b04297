#include "runtime/parallel/ordered_worker.h"

#include <utility>

namespace llmsim::runtime {

OrderedWorker::OrderedWorker() : thread_([this] { work(); }) {}

OrderedWorker::~OrderedWorker() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::future<void> OrderedWorker::then(std::function<void()> job) {
  std::packaged_task<void()> task([this, job = std::move(job)]() mutable {
    // What it holds is free when its future is ready.
    const auto running = std::exchange(job, nullptr);
    if (failure_) std::rethrow_exception(failure_);
    try {
      running();
    } catch (...) {
      failure_ = std::current_exception();
      throw;
    }
  });
  std::future<void> done = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return done;
}

void OrderedWorker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ended_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace llmsim::runtime
