// What a layout costs in addition to its predicted step time t: what predictions are known to miss,
// and the labour of whoever has to understand, tune and debug it.  Plans are ordered by
//
//   cost = t e^(b + d + l)
//
//   b   bias of the layout's traits (strategy/layout_ratio.h)
//   d   doubt: the error e of ratios (layout_ratio.h) for each doubling of the micro-batch, and of
//       sharded parameters where the framework has ZeRO-1.  Of many micro-batches, recompute
//       policies and groups of shards a search takes what it predicts too well, so that the error
//       counts against what has most choice
//   l   labour: the costs below times how much of each the layout takes.  One that takes 0.05 more
//       comes first where it is 5 % faster
//
// Source of the costs: judgements, chosen so that first plans are about as simple as 208 layouts
// that NVIDIA tunes (NVIDIA-NeMo/Megatron-Bridge scripts/performance @067f987df, 2026-08-22).
#pragma once

#include <array>
#include <vector>

#include "sim/search/plan_query.h"
#include "sim/search/searched_fields.h"
#include "sim/strategy/layout_ratio.h"

namespace llmsim::sim {

// What labour depends on, next to the strategy.
struct LabourContext {
  int num_layers = 1;
  int seq_len = 1;
  int domain_devices = 1;  // that share a fast domain
  bool has_zero1 = true;   // else sharded parameters are the framework's usual way
};

struct Labour {
  const char* key;   // "uneven_stages"
  const char* what;  // "stages with different numbers of layers"
  double cost;       // in logarithms of step times
  SearchLevel level;
  double (*amount)(const Strategy&, const LabourContext&);
};

const std::vector<Labour>& labours();
LabourContext labour_context(const PlanQuery& query);
// Those of which a strategy takes some.
std::vector<const Labour*> labours_of(const Strategy& strategy, const LabourContext& context);

class LayoutCosts {
 public:
  explicit LayoutCosts(const PlanQuery& query);

  // e^(b + d + l).
  double of(const Strategy& strategy) const;
  // Its factor that a level chooses; those of all levels multiply to it but for rounding.
  double of(SearchLevel level, const Strategy& strategy) const;
  // What the factors of the levels after one multiply to at least, whatever they choose.
  double least_after(SearchLevel level) const {
    return least_after_[static_cast<std::size_t>(level)];
  }

 private:
  double log_of(SearchLevel level, const Strategy& strategy) const;

  bool counts_ = true;
  RatioErrors errors_;
  LabourContext context_;
  std::array<double, 4> least_after_{1.0, 1.0, 1.0, 1.0};  // by SearchLevel
};

}  // namespace llmsim::sim
