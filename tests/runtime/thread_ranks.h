// Ranks that are threads of the test, for tests of what they say to one another.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/parallel/communicator.h"
#include "runtime/parallel/gloo_communicator.h"

namespace llmsim::runtime {

// Runs body(rank) on `ranks` threads; throws what the lowest failing rank threw.
void on_threads(int ranks, const std::function<void(int)>& body);

// Ranks of one process that are connected over Gloo, with a store in memory.
class ThreadWorld {
 public:
  explicit ThreadWorld(int size, std::chrono::milliseconds timeout = std::chrono::seconds(60));

  // Called by each of the members on its own thread.
  std::unique_ptr<Communicator> connect(int rank, const GroupMembers& members) const;
  const std::shared_ptr<RollCall>& roll_call(int rank) const {
    return roll_calls_[static_cast<std::size_t>(rank)];
  }

 private:
  std::chrono::milliseconds timeout_;
  std::vector<std::shared_ptr<RollCall>> roll_calls_;
};

// The one group of `size` ranks, by rank.
std::vector<std::unique_ptr<Communicator>> gloo_group(
    int size, std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace llmsim::runtime
