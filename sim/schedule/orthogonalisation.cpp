#include "sim/schedule/orthogonalisation.h"

#include <algorithm>

#include "sim/cost/collective.h"
#include "sim/cost/contention.h"
#include "sim/cost/kernels.h"
#include "sim/operators/newton_schulz.h"

namespace llmsim::sim {
namespace {

constexpr int kToOwnerAndBack = 2;
constexpr int kGathers = 3;  // of momentum, of the update and of the new momentum

Seconds matrix_time(const Run& run, const MuonMatrices& matrices) {
  const GemmMachine machine = gemm_machine(run, DType::Bf16);
  const GroupLinks links = group_links(run, matrices.group);
  const double rate = run.cluster.device.achieved.sustained_clock * run.framework.efficiency;
  Seconds time;
  for (const auto& [op, times] : newton_schulz(
           matrices, muon_tensor_mode(run.strategy, run.framework.update), run.framework.update))
    time += times * (op.kind == OperatorKind::Collective
                         ? collective_time(op.collective, op.message, links)
                         : gemm_time(op, machine) / rate);
  return time;
}

// The matrices that one group of ranks shares.
struct MatricesOfGroup {
  GroupKind group = GroupKind::Shard;
  int ranks = 1;
  std::vector<SharedMatrices> list{};

  double values() const {
    double sum = 0.0;
    for (const SharedMatrices& equal : list) sum += static_cast<double>(equal.count) * equal.values;
    return sum;
  }
};

Seconds time_of_shards(const Run& run, const MatricesOfGroup& matrices,
                       const BusiestRank& busiest) {
  const GroupLinks links = group_links(run, matrices.group);
  if (run.framework.update.gathers_momentum) {
    const Bytes all(matrices.values() * gradient_wire_bytes(run));
    return busiest.time + kGathers * collective_time(CollectiveKind::AllGather, all, links);
  }
  const Bytes most(kFp32Bytes * std::max(matrices.values() / matrices.ranks, busiest.values));
  return std::max(busiest.time,
                  kToOwnerAndBack * collective_time(CollectiveKind::AllToAll, most, links));
}

Seconds time_of_group(const Run& run, const MatricesOfGroup& matrices) {
  const BusiestRank busiest = busiest_rank(matrices.list, matrices.ranks);
  const bool shards = run.strategy.sharding >= Sharding::Zero3 && matrices.ranks > 1;
  return shards ? time_of_shards(run, matrices, busiest) : busiest.time;
}

}  // namespace

Seconds orthogonalisation_time(const Run& run, const LayerCounts& of_kind) {
  const Strategy& strategy = run.strategy;
  if (strategy.optimizer != OptimizerKind::Muon || strategy.adapters) return Seconds(0.0);
  MatricesOfGroup shared{.ranks = strategy.shard_ranks()},
      experts{.group = GroupKind::ExpertData, .ranks = strategy.expert_shard_ranks()};
  for (const MuonMatrices& equal :
       muon_matrices(run.model, strategy, run.framework.update, of_kind)) {
    (equal.of_experts ? experts : shared)
        .list.push_back({.count = equal.count,
                         .work = equal.work(),
                         .values = equal.values(),
                         .time = matrix_time(run, equal)});
  }
  return time_of_group(run, shared) + time_of_group(run, experts);
}

std::vector<Seconds> orthogonalisation_times(const Run& run, const EqualStages& stages) {
  std::vector<Seconds> times;
  for (std::size_t kind = 0; kind < stages.num_chunk_kinds(); ++kind)
    times.push_back(orthogonalisation_time(run, stages.chunk_of_kind(kind).of_kind));
  return times;
}

}  // namespace llmsim::sim
