// A thread that does what it is given, in order, until something fails; everything
// after that fails alike.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

namespace llmsim::runtime {

class OrderedWorker {
 public:
  OrderedWorker();
  // Finishes what it was given.
  ~OrderedWorker();

  std::future<void> then(std::function<void()> job);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<void()>> tasks_;
  bool ended_ = false;
  std::exception_ptr failure_;  // of the thread alone
  std::thread thread_;          // last: it uses what stands above
};

}  // namespace llmsim::runtime
