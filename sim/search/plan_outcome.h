// What a search has found, and what it has looked at.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/predict.h"

namespace llmsim::sim {

struct NearestMiss {
  std::string rule;
  Strategy strategy;
  Bytes needed;  // for "out of memory" of a device and "out of host memory" of a node
  Bytes available;
};

// evaluated = feasible + pruned + all of `rejected`.
struct Plan {
  bool complete = true;       // false: progress ended the search, and what is left was not seen
  std::size_t evaluated = 0;  // strategies of the space
  std::size_t feasible = 0;   // looked at one by one: they fit
  std::size_t priced = 0;  // of these, whose step was simulated; of the others a bound was enough
  std::size_t pruned = 0;  // neither among the best nor on the front, whether or not they fit
  std::map<std::string, std::size_t> rejected{};  // rule -> how many
  // Per rule, the strategy that came closest: among all where nothing fits, else among those that
  // were looked at one by one.
  std::vector<NearestMiss> nearest{};
  // One of each idea, in the order of ranking.h; the first `ties` of them are ties.
  std::vector<Prediction> plans{};
  std::size_t ties = 0;
  // Ideas that are clearly slower than a plan and need no less.
  std::vector<Prediction> others{};
  double headroom = 0.0;              // that plans leave; 0 where nothing leaves what was asked for
  std::optional<Prediction> tight{};  // faster than all plans, with less headroom
  std::vector<Prediction> pareto{};   // of all that fit no other is both faster and smaller
};

}  // namespace llmsim::sim
