// Runs a training with its ranks as threads.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/model/trainer.h"
#include "runtime/parallel/rank_groups.h"

namespace llmsim::runtime {

// Makes the communicator of some members for one of them, on its thread.
using ConnectRank = std::function<std::unique_ptr<Communicator>(int rank, const GroupMembers& members)>;

// The results of rank 0 with the loss of all ranks; an error of any rank is thrown here.
std::vector<StepResult> train_over(const TrainingSetup& setup, int steps, const ConnectRank& connect);

// The same through shared memory.
std::vector<StepResult> train_locally(const TrainingSetup& setup, int steps);

}  // namespace llmsim::runtime
