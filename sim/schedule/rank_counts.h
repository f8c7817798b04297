// What one rank of a step has, executes, sends and holds, as whole numbers: predicted here, counted by
// runtime/measure/counted_step.h while the runtime's own step runs.  The two are equal, or the simulator is wrong.
//
//   parameters  of the rank's part of the model, whole (before they are sharded)
//   FLOPs       of GEMMs and of blockwise attention, by pass (schedule/stage_work.h)
//   sent        of each kind of group and collective: calls and bytes of a step (schedule/stage_work.h, schedule/communication.h)
//   held        bytes (memory/step_walk.h)
//
// Source: what it is held to, the runtime.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "sim/run.h"

namespace llmsim::sim {

struct CollectiveTotal {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
  bool operator==(const CollectiveTotal&) const = default;
};

struct PassFlopCounts {
  std::int64_t gemms = 0;
  std::int64_t attention = 0;
  bool operator==(const PassFlopCounts&) const = default;
};

struct HeldBytes {
  std::int64_t persistent = 0;  // between steps
  std::int64_t after_forward = 0;
  std::int64_t peak = 0;
  std::int64_t host = 0;  // under offload
  std::int64_t host_peak = 0;
  bool operator==(const HeldBytes&) const = default;
};

// By group and collective, as they are named: {"dp", "all_gather"}.
using SentTotals = std::map<std::pair<std::string, std::string>, CollectiveTotal>;

struct RankCounts {
  std::int64_t parameters = 0;
  PassFlopCounts forward;
  PassFlopCounts backward;
  SentTotals sent;
  HeldBytes held;
  bool operator==(const RankCounts&) const = default;
};

// Of a rank of pipeline stage `stage`; `shard`: its place among those that share its units.  Requires a strategy that the runtime
// executes; the cluster does not matter.
RankCounts rank_counts(Run run, int stage, int shard = 0);

}  // namespace llmsim::sim
