// The collectives of a step on its busiest rank: summed by kind and group, and message by message.
//
// Which collectives there are, how often and of what size follows from stage_work.h and
// data_parallel_collectives.h, which name their sources; the summing up is ours.
#pragma once

#include <vector>

#include "sim/cost/layer_prices.h"
#include "sim/run.h"
#include "sim/schedule/data_parallel_collectives.h"
#include "sim/schedule/passes.h"
#include "sim/schedule/stage_work.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

// One kind of collective over one group, over the whole step, on the busiest rank.
struct CommunicationTerm {
  // "all_gather", "reduce_scatter", "all_reduce", "send_recv", "all_to_all".
  const char* collective = "";
  const char* group = "";  // as name_of(GroupKind) in strategy/mesh.h has it
  int ranks = 1;
  Bytes size{};       // message bytes (nccl-tests' size) summed over the step
  double count = 0;   // calls per step
  Seconds time{};     // if nothing were hidden
  Seconds exposed{};  // what compute does not hide
};

// Time of all calls of a collective, one after the other.
Seconds repeated_time(const Run& run, const RepeatedCollective& collective);

// Time of a message between two stages, until the receiver has all of it.
Seconds transfer_time(const Run& run, bool backward);

// Times of what stages send to their neighbours overlapped with the passes of others: 0 on one
// stage, and where the framework's transfers block, which makes them a part of the passes.
struct StageTransfers {
  Seconds forward{}, backward{};
};
StageTransfers overlapped_transfers(const Run& run);

// The component to which a collective after the last backward pass belongs; nothing hides it.
Term closing_term(const RepeatedCollective& closing);

// The collectives of the data ranks of a stage with these model chunks in a step: weights,
// gradients, the norm's sum of squares.  Exposed times are left at 0.
std::vector<CommunicationTerm> data_communication(const Run& run,
                                                  const DataParallelCollectives& exchange,
                                                  const std::vector<ModelChunk>& chunks);

// `chunks` are those of the busiest stage, `terms` its time.
std::vector<CommunicationTerm> communication_of(const Run& run, const LayerPrices& prices,
                                                const DataParallelCollectives& exchange,
                                                const std::vector<ModelChunk>& chunks,
                                                const Terms& terms);

// Every collective message by message: each kind, group and message once, with its calls in a step;
// none over one rank.  Blocks that a low-precision recipe leaves in 16 bits count as the others
// here.  Requires a valid run.
std::vector<RepeatedCollective> step_collectives(const Run& run);

}  // namespace llmsim::sim
