// Prices of operator lists: how long a pass takes on a device, kind by kind.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "sim/cost/collective.h"
#include "sim/cost/contention.h"
#include "sim/cost/kernels.h"
#include "sim/operators/operator.h"
#include "sim/run.h"

namespace llmsim::sim {

inline constexpr int kNumCollectives = 6;

// Collectives of one kind, summed.
struct CollectiveTally {
  double count = 0.0;
  Bytes message{};
  Seconds time{};

  void add(Bytes size, Seconds duration, double times = 1.0);
  void add(const CollectiveTally& other, double times);
};
using CollectiveTallies = std::array<CollectiveTally, kNumCollectives>;  // by CollectiveKind

Seconds time_of(const CollectiveTallies& tallies);

// Kernels that the host launches.
struct LaunchTally {
  double kernels = 0.0;
  double low_precision_gemms = 0.0;  // GEMMs in 8- or 4-bit formats

  void add(const Operator& op);
  void add(const LaunchTally& other, double times);
};

// One pass over a list of operators.
struct PassPrice {
  Seconds gemm{};
  Seconds weight_gradients{};  // of gemm: GEMMs that make gradients of weights
  Seconds attention{};
  Seconds memory_bound{};
  Seconds collective{};          // tensor-parallel, if nothing were hidden
  Seconds collective_exposed{};  // what GEMMs do not hide
  Seconds context{};             // context-parallel, what attention does not hide
  Seconds expert{};              // tokens to and from experts of other ranks, what nothing hides
  Seconds contention{};          // GEMMs and attention slowed down by overlapped collectives
  LaunchTally launches{};
  LaunchTally ragged_launches{};  // of them those of operators whose shapes a router decides
  Flops flops{};
  CollectiveTallies tensor_collectives{};
  CollectiveTallies context_collectives{};
  CollectiveTallies expert_collectives{};
  CollectiveTallies expert_tensor_collectives{};

  // `times` as much of another pass.
  void add(const PassPrice& other, double times);

  Seconds compute() const { return gemm + attention + memory_bound; }
  Seconds total() const { return compute() + collective_exposed + context + expert + contention; }
};

// How the tokens of the run's MoE layers reach their experts.
ExpertRoute expert_route(const Run& run);

// Prices operators for one run: the machines and links that do not change
// from operator to operator.
class OperatorPricer {
 public:
  explicit OperatorPricer(const Run& run);

  PassPrice price(const OperatorList& operators, bool backward) const;
  // The price of each operator within its list; their sum is price().
  std::vector<PassPrice> each_price(const OperatorList& operators, bool backward) const;

  // Where the strategy pairs the passes of different micro-batches, the all-to-alls of one overlap
  // with the compute of the other.  A DualPipe joins passes itself (pipeline/pipeline.h).
  void overlap_all_to_alls(PassPrice& forward, PassPrice& backward) const;

 private:
  const GemmMachine& gemm_machine_for(DType dtype) const;
  ExposedTimes overlapped_with_gemms(const OperatorList& operators, std::size_t index,
                                     Seconds time) const;
  Seconds gemm_time(const Operator& op) const;
  OverlapGemm overlapped(const OperatorList& operators, std::size_t index, int pieces) const;
  void add(PassPrice& pass, const OperatorList& operators, std::size_t index, bool backward,
           Seconds& attention) const;
  void add_fill(PassPrice& pass, const Operator& op, bool backward) const;
  void add_context(PassPrice& pass, const Operator& op, Seconds attention) const;
  void add_expert(PassPrice& pass, const Operator& op) const;
  void add_tensor(PassPrice& pass, const OperatorList& operators, std::size_t index) const;

  std::array<std::optional<GemmMachine>, kNumDTypes> gemm_machines_;
  AttentionMachine attention_machine_;
  GroupLinks tensor_links_;
  GroupLinks context_links_;
  GroupLinks expert_links_;
  GroupLinks expert_tensor_links_;
  ExpertRoute route_;
  bool pairs_passes_;
  int ranks_;
  bool pipelines_gemms_;  // cuts GEMMs and collectives into pieces
  // Sums behind a GEMM by collectives of the framework's own, not by a ring of copies.
  bool scatters_pieces_;
  bool splits_backward_;  // weight gradients are passes of their own, long after the data gradients
  bool hides_in_gradients_;    // overlaps collectives with gradients that do not need them
  double copied_loss_ = 0.0;   // of GEMMs during a ring of copies
  double library_loss_ = 0.0;  // of GEMMs during a collective of the library
  double buffer_loss_ = 0.0;   // during one of the framework's own
  double context_loss_ = 0.0;
  double expert_loss_ = 0.0;
  MemoryBoundMachine memory_bound_machine_;
  double attention_rate_;  // in a step, relative to alone (contention.h)
  double attention_backward_rate_;
  double gemm_rate_;
  double low_precision_gemm_rate_;
  const Framework& framework_;
  double activation_bytes_;  // of an element
};

}  // namespace llmsim::sim
