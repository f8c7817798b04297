#include "tests/runtime/local_training.h"

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <ATen/ATen.h>

#include "runtime/parallel/model_parallel_gradients.h"
#include "tests/runtime/local_communicator.h"

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
  std::map<std::pair<std::string, std::vector<int>>, std::vector<std::unique_ptr<Communicator>>>
      groups_;
};

// Losses of data ranks and stages add up; tensor ranks have the same one.
class Results {
 public:
  explicit Results(int ranks) { training_.first_gradients.resize(static_cast<std::size_t>(ranks)); }

  void add(std::size_t step, const StepResult& result, int tensor_parallel, int rank) {
    const std::lock_guard lock(mutex_);
    std::vector<StepResult>& steps = training_.steps;
    if (steps.size() <= step) steps.resize(step + 1);
    const double loss = steps[step].loss + result.loss / tensor_parallel;
    if (rank == 0) steps[step] = result;
    steps[step].loss = loss;
  }
  void add(RankGradients gradients, int rank) {
    const std::lock_guard lock(mutex_);
    training_.first_gradients[static_cast<std::size_t>(rank)] = std::move(gradients);
  }
  LocalTraining all() const { return training_; }

 private:
  std::mutex mutex_;
  LocalTraining training_;
};

RankGradients copied(const std::vector<GradientSlice>& slices, const TrainingSetup& setup,
                     const RankGroups& groups) {
  RankGradients copy;
  copy.context.model = setup.model;
  copy.context.shape = rank_shape(setup.model, setup.strategy,
                                  {.tensor = groups.place(sim::GroupKind::Tensor),
                                   .expert = groups.place(sim::GroupKind::Expert)});
  for (const GradientPiece& piece : gradient_pieces(slices)) {
    copy.pieces.push_back({.parameter = *piece.parameter,
                           .begin = piece.begin,
                           .gradient = piece.gradient.clone().to(at::kFloat)});
  }
  return copy;
}

}  // namespace

LocalTraining train_over(const TrainingSetup& setup, int steps, const ConnectRank& connect) {
  Results results(setup.strategy.num_devices());
  std::vector<std::thread> ranks;
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(setup.strategy.num_devices()));
  for (int rank = 0; rank < setup.strategy.num_devices(); ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        const RankGroups groups(setup.strategy, rank, [&](const GroupMembers& members) {
          return connect(rank, members);
        });
        Trainer trainer(setup, groups);
        for (int step = 0; step < steps; ++step) {
          StepObserver observer;
          if (step == 0)
            observer.gradients_summed = [&](const auto& slices) {
              results.add(copied(slices, setup, groups), rank);
            };
          results.add(static_cast<std::size_t>(step),
                      trainer.step(trainer.next_batches(), observer), setup.strategy.tp, rank);
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

LocalTraining train_locally(const TrainingSetup& setup, int steps) {
  Switchboard switchboard;
  return train_over(setup, steps,
                    [&](int, const GroupMembers& members) { return switchboard.connect(members); });
}

}  // namespace llmsim::runtime
