// Runs a training with its ranks as threads.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/model/block.h"
#include "runtime/model/trainer.h"
#include "runtime/parallel/rank_groups.h"

namespace llmsim::runtime {

// Of one rank, in fp32.
struct RankGradients {
  BlockContext context;  // its model and its sizes
  struct Piece {
    ParameterShape parameter;
    std::int64_t begin = 0;
    at::Tensor gradient;
  };
  std::vector<Piece> pieces;
};

// Of all ranks.
struct LocalTraining {
  std::vector<StepResult> steps;               // rank 0's, with the loss of all
  std::vector<RankGradients> first_gradients;  // of the first step, by rank
};

// Makes the communicator of some members for one of them, on its thread.
using ConnectRank =
    std::function<std::unique_ptr<Communicator>(int rank, const GroupMembers& members)>;

// An error of any rank is thrown here.
LocalTraining train_over(const TrainingSetup& setup, int steps, const ConnectRank& connect);

// The same through shared memory.
LocalTraining train_locally(const TrainingSetup& setup, int steps);

}  // namespace llmsim::runtime
