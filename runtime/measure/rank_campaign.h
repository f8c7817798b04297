// A measuring run of several ranks, each a process: the check of the machine, its collectives with
// what the ranks of a host take from each other, and training steps that the ranks divide (the
// campaign's `steps`; its kernels are for one rank alone).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "runtime/measure/campaign.h"
#include "runtime/measure/statistics.h"
#include "runtime/measure/step_bench.h"
#include "runtime/parallel/communicator.h"
#include "runtime/parallel/process_place.h"
#include "runtime/parallel/rank_groups.h"
#include "runtime/parallel/roll_call.h"

namespace llmsim::runtime {

// Training steps that ranks divide, one case after the other, where any rank may run out of memory.
//
// A rank that does says so in the roll call and leaves its groups; the others then get no answer
// from it, leave theirs, and all meet again in new ones for the next case.  The record of the case
// names the ranks:
//
//   {"type": "step", "key": ..., "outcome": "oom", "oom_ranks": [{"rank": 1, "host": "node7"}],
//     "run": {...}}
class RankSteps {
 public:
  // Connects all ranks; called on each of them.  `connect` makes groups of some; `timeout` is what
  // ranks give each other.
  RankSteps(std::shared_ptr<RollCall> roll_call, RankGroups::Connect connect,
            std::string accelerator, std::chrono::milliseconds timeout);

  // Of all ranks; another one after each measurement.
  Communicator& everyone() const { return *everyone_; }

  // Called on every rank.  Throws Error where a rank does not answer for another reason.
  nlohmann::json measure(const StepCase& one, const RepeatOptions& options);

 private:
  std::unique_ptr<Communicator> connect_all() const;
  // None: somebody gave up.
  std::optional<nlohmann::json> measured(const StepCase& one, const RepeatOptions& options);

  std::shared_ptr<RollCall> roll_call_;
  RankGroups::Connect connect_;
  std::string accelerator_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<Communicator> everyone_;
};

struct RankCampaignOptions {
  // Its device without a number: each rank takes that of its place on the node.
  CampaignOptions campaign;
  bool check = false;
  bool collectives = true;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  // of every operation between ranks
};

// Called by the process of each rank.  Rank 0 prints the check on stdout and writes the records.
// Throws Error where results cannot be written, or ranks do not answer.
void run_rank_campaign(const ProcessPlace& place, const RankCampaignOptions& options);

}  // namespace llmsim::runtime
