// Where in a step the memory of a run has its peak: of which stage, in which pass, and how much is in flight then.
//
// What lives there are the terms of the stage's peak (footprint.h), which add up to it.
#pragma once

#include <optional>

#include "sim/cost/layer_prices.h"
#include "sim/memory/footprint.h"
#include "sim/run.h"

namespace llmsim::sim {

struct MemoryPeak {
  int stage = 0;
  const char* phase = "";            // "idle", "forward", "loss", "backward", "update"
  std::optional<int> micro_batch{};  // none outside passes
  std::optional<int> layer{};        // of the model; none at its ends
  int passes_in_flight = 0;          // of one chunk each, whose activations are kept; 0: not known, or none
  int blocks_in_flight = 0;          // that keep some
  double parameters = 0.0;           // of the stage on one rank, before they are sharded
};

// Of the fullest stage: the first micro-batch that reaches the peak.
MemoryPeak memory_peak(const Run& run, const LayerPrices& prices, const Memory& memory);

}  // namespace llmsim::sim
