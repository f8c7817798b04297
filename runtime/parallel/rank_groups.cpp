#include "runtime/parallel/rank_groups.h"

#include <numeric>

namespace llmsim::runtime {
namespace {

using sim::GroupKind;

// Those that collectives run over.
struct NamedKind {
  GroupKind kind;
  const char* name;
};
constexpr NamedKind kKinds[] = {
    {GroupKind::Tensor, "tp"},           {GroupKind::Data, "dp"},
    {GroupKind::Shard, "dp_shard"},      {GroupKind::Replicate, "dp_replicate"},
    {GroupKind::Pipeline, "pp_forward"}, {GroupKind::Embedding, "embedding"},
    {GroupKind::Expert, "ep"},           {GroupKind::ExpertData, "edp"}};
constexpr const char* kBackward = "pp_backward";

// Without replicas of shards the data group is the group of shards, and that of the experts where
// they are divided as all else.
bool runs(const sim::Strategy& strategy, GroupKind kind) {
  if (kind == GroupKind::Expert || kind == GroupKind::ExpertData) return strategy.divides_experts();
  return strategy.sharding == sim::Sharding::Hsdp ||
         (kind != GroupKind::Shard && kind != GroupKind::Replicate);
}

bool stage_between_ends(const sim::Strategy& strategy, int rank) {
  const int stage = rank / sim::group_stride(strategy, GroupKind::Pipeline);
  return stage > 0 && stage < strategy.pp - 1;
}

}  // namespace

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

GroupMembers group_members(const sim::Strategy& strategy, GroupKind kind, int rank) {
  const int size = sim::group_ranks(strategy, kind), stride = sim::group_stride(strategy, kind);
  GroupMembers members;
  if (kind == GroupKind::Embedding && stage_between_ends(strategy, rank)) {
    members.ranks = {rank};
    return members;
  }
  members.place = rank / stride % size;
  const int first = rank - members.place * stride;
  for (int i = 0; i < size; ++i) members.ranks.push_back(first + i * stride);
  return members;
}

RankGroups::RankGroups(const sim::Strategy& strategy, int rank, const Connect& connect)
    : rank_(rank) {
  for (const auto& [kind, name] : kKinds) {
    if (!runs(strategy, kind)) continue;
    GroupMembers members = group_members(strategy, kind, rank);
    if (members.ranks.size() == 1) continue;
    members.name = name;
    groups_[kind] = connect(members);
    if (kind != GroupKind::Pipeline) continue;
    members.name = kBackward;
    backward_pipeline_ = connect(members);
  }
}

Communicator* RankGroups::of(GroupKind kind) const {
  const auto found = groups_.find(kind);
  return found == groups_.end() ? nullptr : found->second.get();
}

void RankGroups::abandon() const {
  for (const auto& [kind, group] : groups_) group->abandon();
  if (backward_pipeline_) backward_pipeline_->abandon();
}

std::vector<std::pair<GroupKind, Communicator*>> RankGroups::communicators() const {
  std::vector<std::pair<GroupKind, Communicator*>> all;
  for (const auto& [kind, group] : groups_) all.emplace_back(kind, group.get());
  if (backward_pipeline_) all.emplace_back(GroupKind::Pipeline, backward_pipeline_.get());
  return all;
}

int RankGroups::place(GroupKind kind) const {
  const Communicator* group = of(kind);
  return group == nullptr ? 0 : group->rank();
}

RankGroups counting_groups(const sim::Strategy& strategy, int rank) {
  return {strategy, rank, [](const GroupMembers& members) {
            return counting_communicator(members.place, static_cast<int>(members.ranks.size()));
          }};
}

}  // namespace llmsim::runtime
