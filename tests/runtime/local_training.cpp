#include "tests/runtime/local_training.h"

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "runtime/parallel/local_communicator.h"

namespace llmsim::runtime {
namespace {

// Every rank asks for its groups; the first of a group's members makes it.
class Switchboard {
 public:
  std::unique_ptr<Communicator> connect(const GroupMembers& members) {
    const std::lock_guard lock(mutex_);
    auto& group = groups_[{members.name, members.ranks}];
    if (group.empty()) group = local_group(static_cast<int>(members.ranks.size()));
    return std::move(group[static_cast<std::size_t>(members.place)]);
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::vector<int>>, std::vector<std::unique_ptr<Communicator>>> groups_;
};

// Losses of data ranks and stages add up; tensor ranks have the same one.
class Results {
 public:
  void add(std::size_t step, const StepResult& result, int tensor_parallel, int rank) {
    const std::lock_guard lock(mutex_);
    if (steps_.size() <= step) steps_.resize(step + 1);
    const double loss = steps_[step].loss + result.loss / tensor_parallel;
    if (rank == 0) steps_[step] = result;
    steps_[step].loss = loss;
  }
  std::vector<StepResult> all() const { return steps_; }

 private:
  std::mutex mutex_;
  std::vector<StepResult> steps_;
};

}  // namespace

std::vector<StepResult> train_over(const TrainingSetup& setup, int steps, const ConnectRank& connect) {
  Results results;
  std::vector<std::thread> ranks;
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(setup.strategy.num_devices()));
  for (int rank = 0; rank < setup.strategy.num_devices(); ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        const RankGroups groups(setup.strategy, rank, [&](const GroupMembers& members) { return connect(rank, members); });
        Trainer trainer(setup, groups);
        for (int step = 0; step < steps; ++step) {
          results.add(static_cast<std::size_t>(step), trainer.step(trainer.next_batches()), setup.strategy.tensor_parallel, rank);
        }
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return results.all();
}

std::vector<StepResult> train_locally(const TrainingSetup& setup, int steps) {
  Switchboard switchboard;
  return train_over(setup, steps, [&](int, const GroupMembers& members) { return switchboard.connect(members); });
}

}  // namespace llmsim::runtime
