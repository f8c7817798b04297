// The strategies that a search tries, mesh by mesh and switch by switch.
//
// Every combination of tp, pp, cp, dp, micro-batch, expert ranks, sequence parallelism, virtual
// stages, sharding and recomputation that makes sense is tried, or the values that the search is
// restricted to; whether one keeps the rules of a layout is asked later (strategy/validity.h).
// GPipe is left out because it takes as long as 1F1B and holds more; zero-bubble schedules and
// DualPipe are tried where they are asked for, because few frameworks have them; ZeRO-2 and ZeRO-3
// are tried without pipelining only, because they exchange whole gradients or weights for every
// micro-batch.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/field.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// The fields that a search chooses; recompute is one as a whole.
inline constexpr std::array<std::string_view, 10> kSearchedFields{
    "tp",       "pp",       "dp", "cp", "ep", "micro_batch", "virtual_stages", "pipeline_schedule",
    "sharding", "recompute"};

// The values that a search may give to fields of a strategy, by key; "recompute" as people type it
// (text_of(Recompute)).
using Restriction = std::map<std::string, std::vector<FieldValue>>;

inline constexpr std::array<Sharding, 5> kAllShardings{
    Sharding::None, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3, Sharding::Hsdp};

// What a search starts from: all that it does not choose is as in these.
struct SearchBase {
  const Transformer& model;
  int num_devices;
  Strategy strategy;
  // By Sharding: with what the framework does there.
  std::array<Strategy, kAllShardings.size()> under;
};

// Calls `visit` with one strategy after the other.  Throws Error for a value of the restriction
// that its field cannot have.
void for_each_strategy(const SearchBase& base, const Restriction& restriction,
                       const std::function<void(const Strategy&)>& visit);

}  // namespace llmsim::sim
