// What a pass waits for beside its compute: weights and gradients on their way (overlap), its host,
// and the link to it.
//
// Sources are named with each.
#pragma once

#include <span>

#include "sim/base/quantity.h"
#include "sim/cost/price.h"
#include "sim/model/transformer.h"
#include "sim/run.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

// Compute and communication of one pass over the units of a stage (blocks, several blocks or parts
// of one, see Framework::unit_blocks), as events on three streams: compute, the data-parallel
// communicator, and that between replicas.
//
// A communicator carries one collective at a time, in the order of issue.  The gather of a unit's
// weights is issued when the unit `prefetch` places before it starts to compute (0: when the unit
// before it has computed, before that unit's reduction); a unit computes when its weights have
// arrived; its reduction is issued when it has computed, before the gathers that the next unit
// issues when it starts.  The sum over replicas follows on their own communicator, after the
// reduction where there is one.
//
//   compute      c_0        c_1        c_2
//   channel   g_0   g_1 r_0     g_2 r_1     r_2
//
// Either kind may be kept apart from compute: a gather is then issued when the unit before it has
// computed, and the unit after a reduction computes when that is through.
//
// A unit computes more slowly while a communicator is busy (cost/contention.h): by the loss of
// each, of both by the sum, but no more than 0.9 or the larger.  The exposed time is what the pass
// takes beyond its compute, slowed down as it is.
//
// Of n equal units that compute for c each and are gathered in g, without other traffic and with
// the loss l, it has a closed form, to which a test holds the events (prefetch 1; without prefetch
// no gather is hidden, and the exposed time is n g):
//
//   c'       = min(c + l g, c / (1 - l))      the gather is through before the unit, or not
//   end      = g + (n - 1) max(g, c') + c
//   slowdown = (n - 1) (c' - c)
//   exposed  = end - n c - slowdown = g + (n - 1) max(0, g - c')
//
// The order of issue is that of torch.distributed.fsdp (Zhao et al., "PyTorch FSDP", VLDB 2023,
// section 3.3: prefetching, one communicator, rate limiter); the event simulation is ours.

// Units of a pass, equal ones that come one after the other.
struct OverlapUnit {
  Seconds gather{};  // weights that must arrive before compute
  Seconds compute{};
  Seconds reduce{};     // gradients to send after compute
  Seconds replicate{};  // and to add up over replicas
  int count = 1;
};

// How a framework runs them.
struct OverlapBehaviour {
  int prefetch = 1;
  bool gathers_overlap = true;
  bool reductions_overlap = true;
  // The next unit computes when the reduction of the one before it is through.
  bool scatters_alone = false;
};

// A rate limiter lets no more gathers than this be under way.
inline constexpr int kMostPrefetch = 15;

// Share of its rate that compute loses while each communicator is busy.
struct OverlapLoss {
  double channel = 0.0;
  double replicas = 0.0;
};

struct OverlapTimes {
  Seconds end{};       // of all streams
  Seconds slowdown{};  // of all units' compute
};

// Runs the units in order.
OverlapTimes overlap_times(std::span<const OverlapUnit> units, const OverlapBehaviour& habits,
                           const OverlapLoss& loss = {});

// What a device waits for of its host: kernels that are not launched yet, and copies over the host
// link under offload.
//
// Launches.  A framework calls one kernel after the other on the host; the device executes them in
// that order.  With host time h and device time d a pass takes
//
//   t = (d^4 + h^4)^(1/4)            the longer of the two, and up to 19 % more where they are
//                                    equal: the queue between them is short of work in some places
//                                    and full in others.  Source of the exponent: the two measured
//                                    studies with steps about the turn, LoRA of Qwen on A100 (6)
//                                    and GPT-2 and Llama on H100 (20): median errors 2.8 and 4.7 %
//                                    with 3, 3.2 and 4.6 % with 4, 4.7 and 7.0 % with 6, 5.1 and
//                                    7.8 % with the longer of the two
//   alone       wait_i = t_i - d_i   a stage of a pipeline begins each pass with an empty queue,
//                                    because it has waited for its neighbour
//   run ahead   wait = t - d         with h and d of both passes together, one queue for the whole
//                                    step: calls made during a long backward pass feed the next
//                                    forward pass
//   in step     wait = t - d + u     alone, but that the host waits for the device before each gather
//                                    (ShardedWeights::fetches_synchronise): what it does around
//                                    units, u, no kernel hides
//
// The host time of a pass is its kernels, the bookkeeping of 8- and 4-bit GEMMs, the hooks around
// units of sharded weights, and the bookkeeping of recomputed blocks.  Captured as a graph, a pass
// is one call and waits for nothing.
//
// A hook takes per_unit, and per_slice for each rank of a weight that is gathered or reduced by
// itself: lists of views and copies, one for each rank.  A unit that recomputation gathers counts
// once more.
//
// Copies.  What one pass sends over the host link, and how much of it the device waits for:
//
//   weights      up in every pass (Zero3 fetches them as it gathers them); beside compute where the
//                framework prefetches
//   gradients    down after every backward pass; where sums are kept on the host, up again to be
//                added to; at the end of a step once more in fp32, or cast by the host
//   checkpoints  down in the forward pass, up in the backward pass
//
// Copies to pinned memory run beside compute, each direction a stream of its own: only what is
// longer than compute shows,
//
//   exposed = waited + max(0, max(down, up) / link - compute)
//
// Copies through pageable memory and casts on the host are waited for.
//
// Sources: the exponent, as said above; the rest is ours, after ZeRO-Offload (Ren et al., USENIX
// ATC 2021) and the copies that frameworks make (strategy/framework.h).

// What the host calls in one pass.
struct HostCalls {
  double kernels = 0.0;
  double low_precision_gemms = 0.0;
  double units = 0.0;   // of sharded weights, each fetched and released
  double slices = 0.0;  // of weights, one for each rank that has a part
  double recomputed_blocks = 0.0;
  double moe_blocks = 0.0;
  double gradients = 0.0;  // tensors whose gradients go to a bucket

  // Adds the calls of `times` passes.
  void add(const LaunchTally& launches, double times);
  // Around units, and everything else.
  Seconds unit_time(const Framework& framework) const;
  Seconds launch_time(const Framework& framework) const;
  Seconds time(const Framework& framework) const {
    return unit_time(framework) + launch_time(framework);
  }
};

// Units of sharded weights in a block: as many as are wrapped, or each module that holds weights
// (norms, and the four or five GEMMs of a block).
double units_per_block(const Transformer& model, const Framework& framework);

// Weight matrices of a block that are gathered by themselves, times the ranks that share them: of
// modules that are units.
double slices_per_block(const Transformer& model, const Framework& framework, int ranks);

// Whether the units of a recomputed block are fetched for the recomputation too.
bool fetches_recomputed(const ShardedWeights& sharded);

struct PassLoad {
  Seconds device{};
  Seconds host{};    // calls that kernels hide
  Seconds around{};  // and those that nothing hides
};

struct LaunchWaits {
  Seconds forward{};
  Seconds backward{};
};

LaunchWaits launch_waits(const PassLoad& forward, const PassLoad& backward, bool runs_ahead);

class HostTraffic {
 public:
  // `run` must outlive the traffic.
  explicit HostTraffic(const Run& run);

  void weights(Bytes size);
  // Of `count` gradients; `last`: of the step.
  void gradients(double count, Bytes size, bool last);
  void checkpoints(Bytes size, bool backward);

  // Time that a pass of `compute` is longer for the traffic.
  Seconds exposed(Seconds compute) const;

 private:
  const HostCopies& copies_;
  bool prefetches_;
  BytesPerSecond link_;  // share of one rank, one direction
  Seconds down_{};
  Seconds up_{};
  Seconds waited_{};
};

}  // namespace llmsim::sim
