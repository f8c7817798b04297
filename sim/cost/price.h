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

  void add(const CollectiveTally& other, double times);
  void add(Bytes size, Seconds duration, double times) { add({1.0, size, duration}, times); }
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
  CollectiveTallies context_collectives{};        // of all context ranks
  CollectiveTallies context_inner_collectives{};  // of an all-to-all inside a ring
  CollectiveTallies context_outer_collectives{};  // of a ring over all-to-alls
  CollectiveTallies expert_collectives{};
  CollectiveTallies expert_tensor_collectives{};

  // `times` as much of another pass.
  void add(const PassPrice& other, double times);

  Seconds compute() const { return gemm + attention + memory_bound; }
  Seconds total() const { return compute() + collective_exposed + context + expert + contention; }
};

// An operator with its price within its list.
struct PricedOperator : Operator {
  Seconds time{};          // that the device takes, of a collective what nothing hides
  Seconds message_time{};  // of a collective, hidden or not
  bool recomputed = false;
  std::optional<int> layer{};  // of the model, in a pass of a chunk; none of embedding and LM head

  bool is_all_to_all() const;  // dispatch or combine, which an overlapped pass hides
};

// How the tokens of the run's MoE layers reach their experts.
ExpertRoute expert_route(const Run& run);

// Prices operators for one run: the machines and links that do not change
// from operator to operator.
class OperatorPricer {
 public:
  explicit OperatorPricer(const Run& run);  // which must outlive it

  PassPrice price(const OperatorList& operators, bool backward) const;
  // The price of each operator; their sum is price().
  std::vector<PricedOperator> each_price(const OperatorList& operators, bool backward) const;

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
  struct ContextGroup {
    GroupLinks links;
    double loss;  // of its rate that compute loses while it overlaps with a collective
    CollectiveTallies PassPrice::*tallies;
  };
  ContextGroup context_group(GroupKind kind, CollectiveTallies PassPrice::*tallies) const;
  const ContextGroup& context_group_of(GroupKind kind) const;
  void add_context(PassPrice& pass, const Operator& op, Seconds attention) const;
  void add_expert(PassPrice& pass, const Operator& op) const;
  void add_tensor(PassPrice& pass, const OperatorList& operators, std::size_t index) const;

  const Run& run_;
  std::array<std::optional<GemmMachine>, kNumDTypes> gemm_machines_{};
  DType activations_ = activation_dtype(run_.strategy.precision);
  AttentionMachine attention_machine_ =
      attention_machine(run_.cluster.device, activations_, run_.framework.attention_kernel);
  MemoryBoundMachine memory_bound_machine_ = memory_bound_machine(
      run_.cluster, run_.framework, memory_bound_forms(run_.model, run_.strategy));
  GroupLinks tensor_links_ = group_links(run_, GroupKind::Tensor);
  ContextGroup context_ = context_group(GroupKind::Context, &PassPrice::context_collectives),
               context_inner_ =
                   context_group(GroupKind::ContextInner, &PassPrice::context_inner_collectives),
               context_outer_ =
                   context_group(GroupKind::ContextOuter, &PassPrice::context_outer_collectives);
  GroupLinks expert_links_ = group_links(run_, GroupKind::Expert);
  GroupLinks expert_tensor_links_ = group_links(run_, GroupKind::ExpertTensor);
  ExpertRoute route_ = expert_route(run_);
  // Rates in a step, relative to alone (contention.h).
  double attention_rate_ = attention_step_factors(run_, false).rate();
  double attention_backward_rate_ = attention_step_factors(run_, true).rate();
  double gemm_rate_ = gemm_step_factors(run_, DType::Bf16).rate();
  double low_precision_gemm_rate_ = gemm_step_factors(run_, DType::Fp8).rate();
  // What GEMMs lose of their rate during a ring of copies, a collective of the library, and one of
  // the framework's own; and compute during collectives of other groups.
  double copied_loss_, library_loss_, buffer_loss_, expert_loss_;
};

}  // namespace llmsim::sim
