#include "sim/strategy/mesh.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace llmsim::sim {

const char* name_of(GroupKind kind) {
  constexpr std::array<const char*, 14> names{"tp",  "cp",  "cp",           "cp",       "dp",
                                              "dp",  "dp",  "dp_replicate", "pp",       "ep",
                                              "edp", "etp", "embedding",    "pp_mirror"};
  return names[static_cast<std::size_t>(kind)];
}

namespace {

// `ranks` of the data and context ranks of a stage, the first of `every`.
GroupAxes data_axes(const Strategy& s, int ranks, int every) {
  const int stride = s.tp * every;
  if (s.mesh_order == MeshOrder::PipelineLast) return {{ranks, stride}, {}};
  const int between = s.tp * s.cp * s.pp;  // data ranks, over context ranks and stages
  if (every >= s.cp) return {{ranks, between * (every / s.cp)}, {}};
  const int contexts = std::min(ranks, s.cp / every);
  return {{contexts, stride}, {ranks / contexts, between}};
}

int stage_stride(const Strategy& s) {
  return s.tp * s.cp * (s.mesh_order == MeshOrder::PipelineLast ? s.dp : 1);
}

}  // namespace

GroupAxes group_axes(const Strategy& s, GroupKind kind) {
  const int data_context = s.dp * s.cp, experts = s.expert_tensor_ranks() * s.ep,
            inner = s.context_inner_ranks();
  switch (kind) {
    case GroupKind::Tensor: return {{s.tp, 1}, {}};
    case GroupKind::Context: return {{s.cp, s.tp}, {}};
    case GroupKind::ContextInner: return {{inner, s.tp}, {}};
    case GroupKind::ContextOuter: return {{s.cp / inner, s.tp * inner}, {}};
    case GroupKind::Data: return data_axes(s, s.dp, s.cp);
    case GroupKind::DataContext: return data_axes(s, data_context, 1);
    case GroupKind::Shard: return data_axes(s, s.shard_ranks(), 1);
    case GroupKind::Replicate: return data_axes(s, data_context / s.shard_ranks(), s.shard_ranks());
    case GroupKind::Pipeline: return {{s.pp, stage_stride(s)}, {}};
    case GroupKind::Expert: return {{s.ep, s.expert_tensor_ranks()}, {}};
    case GroupKind::ExpertData:
      return {{s.expert_data_ranks(),
               s.mesh_order == MeshOrder::PipelineLast ? experts : s.tp * s.cp * s.pp},
              {}};
    case GroupKind::ExpertTensor: return {{s.expert_tensor_ranks(), 1}, {}};
    case GroupKind::Embedding:
    case GroupKind::Mirror:
      return {{std::min(2, s.pp), std::max(1, s.pp - 1) * stage_stride(s)}, {}};
  }
  return {};
}

int group_ranks(const Strategy& strategy, GroupKind kind) {
  return group_axes(strategy, kind).ranks();
}

int group_stride(const Strategy& strategy, GroupKind kind) {
  return group_axes(strategy, kind).inner.stride;
}

GroupPlacement place_group(const GroupAxes& axes, int domain_size) {
  const auto in_a_domain = [&](const GroupAxis& axis) {
    return std::clamp(domain_size / axis.stride, 1, axis.ranks);
  };
  const int ranks = axes.ranks();
  GroupPlacement place{.ranks = ranks, .stride = axes.inner.stride};
  place.ranks_per_domain = in_a_domain(axes.inner);
  if (place.ranks_per_domain == axes.inner.ranks) place.ranks_per_domain *= in_a_domain(axes.outer);
  place.domains = (ranks + place.ranks_per_domain - 1) / place.ranks_per_domain;
  place.groups_per_domain = std::max(1, domain_size / place.ranks_per_domain);
  return place;
}

int domain_size(const Cluster& cluster) {
  return std::max(
      1, std::min(std::max(cluster.fabric.devices, cluster.devices_per_node), cluster.num_devices));
}

int usual_context_inner(const Transformer& model, const Strategy& s, int domain_size) {
  const int heads = std::max(1, model.num_heads / s.tp),
            keys = std::max(1, model.mla ? heads : model.num_kv_heads / s.tp),
            most = std::max(1, domain_size / s.tp);
  const int all = std::gcd(std::gcd(heads, keys), s.cp);
  int inner = std::min(all, most);
  while (all % inner != 0) --inner;
  return inner;
}

GroupPlacement place_group(const Strategy& strategy, GroupKind kind, const Cluster& cluster) {
  return place_group(group_axes(strategy, kind), domain_size(cluster));
}

}  // namespace llmsim::sim
