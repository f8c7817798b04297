#include "tests/runtime/thread_ranks.h"

#include <exception>
#include <numeric>
#include <thread>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace llmsim::runtime {

void on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

ThreadWorld::ThreadWorld(int size, std::chrono::milliseconds timeout) : timeout_(timeout) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  for (int rank = 0; rank < size; ++rank) {
    roll_calls_.push_back(
        std::make_shared<RollCall>(KeyStore(store), rank, size, "host" + std::to_string(rank)));
  }
}

std::unique_ptr<Communicator> ThreadWorld::connect(int rank, const GroupMembers& members) const {
  return gloo_communicator(roll_calls_[static_cast<std::size_t>(rank)], members,
                           {.timeout = timeout_});
}

std::vector<std::unique_ptr<Communicator>> gloo_group(int size, std::chrono::milliseconds timeout) {
  const ThreadWorld world(size, timeout);
  std::vector<std::unique_ptr<Communicator>> group(static_cast<std::size_t>(size));
  std::vector<int> ranks(group.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  on_threads(size, [&](int rank) {
    group[static_cast<std::size_t>(rank)] = world.connect(rank, {.ranks = ranks, .place = rank});
  });
  return group;
}

}  // namespace llmsim::runtime
