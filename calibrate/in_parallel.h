// One computation for each of many items, over the cores of this machine.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace llmsim::calibrate {

// Calls `work(i)` for every i below `count` on so many threads (0: all cores), in any order.
// `work` must not throw, and several threads must be able to run it at once.
template <class Work>
void in_parallel(std::size_t count, unsigned threads, const Work& work) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next = 0;
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> pool;
  for (unsigned t = 1; t < threads; ++t) pool.emplace_back(loop);
  loop();
}

}  // namespace llmsim::calibrate
