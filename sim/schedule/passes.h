// The forward and backward pass of one model part for one micro-batch, term by term.
//
// A pass is its operators' device time; the host's launch time where that is longer; the part of the exchange of weights and
// gradients that does not fit under it (see overlap.h); and the host link under offload.
//
// How they add up is ours; each part names its source: overlap.h, host_waits.h, data_exchange.h, cost/contention.h.
#pragma once

#include "sim/cost/layer_prices.h"
#include "sim/run.h"
#include "sim/schedule/data_exchange.h"
#include "sim/schedule/terms.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

struct PartPasses {
  Terms forward;
  Terms first_forward;  // of a step: gathers the weights that a sharded optimizer has updated
  Terms backward;
  Terms last_backward;  // of a step: sends the accumulated gradients

  // Of a backward pass what makes gradients of weights, where that is a pass of its own: their GEMMs and what adds them up.
  // All else, recomputation and waiting for the host included, is with the gradients of the data.
  Terms weights;
};

PartPasses part_passes(const Run& run, const LayerPrices& prices, const DataExchange& exchange, const RankParameters& rank,
                       const ModelPart& part);

}  // namespace llmsim::sim
