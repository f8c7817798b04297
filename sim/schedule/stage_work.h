// What one rank of a pipeline stage executes in a step: the FLOPs of its GEMMs and of
// attention, and the collectives of its model-parallel groups.  Both are sums over the
// operators that are priced.
//
// With m micro-batches (through a DualPipe half of them in each direction), over the
// model chunks of a stage:
//
//   FLOPs        forward m (blocks, head); backward m (blocks, what is recomputed of them, head).
//                A chunked loss makes the gradients of the head in the forward pass.
//   tensor       the collectives of those operators, m times
//   pipeline     m activations from every chunk but the model's last, m gradients from every chunk
//                but the first; where they are divided among the tensor ranks, as many all-gathers
//                over these of what arrives
//   closing      once a step, when all micro-batches are through:
//                sequence parallelism  gradients of what every tensor rank has and sees its own
//                                      tokens of (norms, biases of row-parallel GEMMs), side by
//                                      side: all-reduce over the tensor ranks; where data ranks
//                                      divide flat units, of this rank's shard alone
//                tied embeddings       gradients of the table: all-reduce between the first and the
//                                      last stage
//                DualPipe              gradients of both copies of a chunk: all-reduce between
//                                      stages s and p - 1 - s, priced as the pair with the largest
//                                      distance, the first and the last
//                partial sums          gradients of routers, and of gates of shared experts, in the
//                                      same all-reduce; without sequence parallelism they alone
//                gradient norm         one fp32 value: all-reduces over the tensor ranks and over
//                                      the stages; whole gradients of divided experts over the
//                                      expert ranks
//
// Checked against counted operators and calls in tests/runtime.
//
// Sources: Narayanan et al. 2021, arXiv 2104.04473, section 4.1 (scatter and gather between
// stages); Korthikanti et al. 2022, arXiv 2205.05198 (sequence parallelism); Megatron Core
// distributed/finalize_model_grads.py (closing all-reduces).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/memory/shards.h"
#include "sim/operators/operator.h"
#include "sim/run.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

struct WorkFlops {
  Flops gemms{};
  Flops attention{};  // of flash kernels: useful scores
};

struct RepeatedCollective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  GroupKind group = GroupKind::Tensor;
  Bytes message{};  // of one call
  double calls = 1.0;
};

struct StageWork {
  WorkFlops forward;
  WorkFlops backward;
  std::vector<RepeatedCollective> collectives;
};

// `chunks` of one stage (stage_chunks in strategy/stages.h); `shard`: the rank's place among those
// that share its units.
StageWork stage_work(const Run& run, const std::vector<ModelChunk>& chunks, int shard = 0);

// The activations of a micro-batch on their way to the next stage, or their gradients on the way
// back: the bytes that a rank sends, and those that the receiving tensor ranks then gather, 0
// unless they divide the message.  Under sequence parallelism each rank has its own shard anyway.
struct StageMessage {
  Bytes sent{};
  Bytes gathered{};
};
StageMessage stage_message(const Run& run, bool backward);

// Those between stages, none without a pipeline, and the closing ones.
std::vector<RepeatedCollective> stage_messages(const Run& run,
                                               const std::vector<ModelChunk>& chunks);
std::vector<RepeatedCollective> closing_collectives(const Run& run,
                                                    const std::vector<ModelChunk>& chunks,
                                                    int shard = 0);
// The same from its rank_parameters.
std::vector<RepeatedCollective> closing_collectives(const Run& run, const RankParameters& rank,
                                                    const std::vector<ModelChunk>& chunks,
                                                    int shard = 0);

// What one rank of a step has, executes, sends and holds, as whole numbers: predicted here, counted
// by runtime/measure/counted_step.h while the runtime's own step runs.  The two are equal, or the
// simulator is wrong.
//
//   parameters  of the rank's share of the model, whole (before they are sharded)
//   FLOPs       of GEMMs and of blockwise attention, by pass
//   sent        of each kind of group and collective: calls and bytes of a step (those above, and
//               schedule/communication.h)
//   held        bytes (memory/step_walk.h)
//
// Source: what it is held to, the runtime.

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

// Of a rank of pipeline stage `stage`; `shard`: its place among those that share its units.
// Requires a strategy that the runtime executes; the cluster does not matter.
RankCounts rank_counts(Run run, int stage, int shard = 0);

}  // namespace llmsim::sim
