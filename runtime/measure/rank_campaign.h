// A measuring run of several ranks, each a process: the check of the machine, its collectives with what the ranks of a host take
// from each other, and training steps that the ranks divide (the campaign's `steps`; its kernels are for one rank alone).
#pragma once

#include <chrono>

#include "runtime/measure/campaign.h"
#include "runtime/parallel/process_place.h"

namespace llmsim::runtime {

struct RankCampaignOptions {
  CampaignOptions campaign;  // its device without a number: each rank takes that of its place on the node
  bool check = false;
  bool collectives = true;
  std::chrono::milliseconds timeout = std::chrono::minutes(5);  // of every operation between ranks
};

// Called by the process of each rank.  Rank 0 prints the check on stdout and writes the records.  Throws Error where
// results cannot be written, or ranks do not answer.
void run_rank_campaign(const ProcessPlace& place, const RankCampaignOptions& options);

}  // namespace llmsim::runtime
