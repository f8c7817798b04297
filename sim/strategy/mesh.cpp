#include "sim/strategy/mesh.h"

#include <algorithm>
#include <array>

namespace llmsim::sim {

const char* name_of(GroupKind kind) {
  constexpr std::array<const char*, 12> names{"tp", "cp", "dp",  "dp",  "dp",        "dp_replicate",
                                              "pp", "ep", "edp", "etp", "embedding", "pp_mirror"};
  return names[static_cast<std::size_t>(kind)];
}

int group_ranks(const Strategy& strategy, GroupKind kind) {
  const int data_context = strategy.dp * strategy.cp;
  switch (kind) {
    case GroupKind::Tensor: return strategy.tp;
    case GroupKind::Context: return strategy.cp;
    case GroupKind::Data: return strategy.dp;
    case GroupKind::DataContext: return data_context;
    case GroupKind::Shard: return strategy.shard_ranks();
    case GroupKind::Replicate: return data_context / strategy.shard_ranks();
    case GroupKind::Pipeline: return strategy.pp;
    case GroupKind::Expert: return strategy.ep;
    case GroupKind::ExpertData: return strategy.expert_data_ranks();
    case GroupKind::ExpertTensor: return strategy.expert_tensor_ranks();
    case GroupKind::Embedding:
    case GroupKind::Mirror: return std::min(2, strategy.pp);
  }
  return 1;
}

int group_stride(const Strategy& strategy, GroupKind kind) {
  const int tensor = strategy.tp;
  switch (kind) {
    case GroupKind::Tensor:
    case GroupKind::ExpertTensor: return 1;
    case GroupKind::Context:
    case GroupKind::DataContext:
    case GroupKind::Shard: return tensor;
    case GroupKind::Expert: return strategy.expert_tensor_ranks();
    case GroupKind::Data: return tensor * strategy.cp;
    case GroupKind::ExpertData: return strategy.expert_tensor_ranks() * strategy.ep;
    case GroupKind::Replicate: return tensor * strategy.shard_ranks();
    case GroupKind::Pipeline: return tensor * strategy.cp * strategy.dp;
    case GroupKind::Embedding:
    case GroupKind::Mirror:
      return std::max(1, strategy.pp - 1) * group_stride(strategy, GroupKind::Pipeline);
  }
  return 1;
}

GroupPlacement place_group(int ranks, int stride, int domain_size) {
  GroupPlacement place{.ranks = ranks, .stride = stride};
  place.ranks_per_domain = std::clamp(domain_size / stride, 1, ranks);
  place.domains = (ranks + place.ranks_per_domain - 1) / place.ranks_per_domain;
  place.groups_per_domain = std::max(1, domain_size / place.ranks_per_domain);
  return place;
}

GroupPlacement place_group(const Strategy& strategy, GroupKind kind, const Cluster& cluster) {
  const int domain = std::max(
      1, std::min(std::max(cluster.fabric.devices, cluster.devices_per_node), cluster.num_devices));
  return place_group(group_ranks(strategy, kind), group_stride(strategy, kind), domain);
}

}  // namespace llmsim::sim
