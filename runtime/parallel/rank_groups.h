// The groups that one rank belongs to, laid out as the simulator lays them
// out (sim/strategy/mesh.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/parallel/communicator.h"
#include "sim/strategy/mesh.h"
#include "sim/strategy/strategy.h"

namespace llmsim::runtime {

// Ranks of the group of `kind` that `rank` belongs to, in order, and its place among them.
struct GroupMembers {
  std::vector<int> ranks;
  int place = 0;
  std::string name{};  // of a communicator to make; unique among those of the same ranks
};
GroupMembers group_members(const sim::Strategy& strategy, sim::GroupKind kind, int rank);

// 0, 1, ...: the members of a group of `size`, each at its own place.
std::vector<int> all_ranks(int size);

class RankGroups {
 public:
  // Makes the communicator of some members; called in the same order on all of them.
  using Connect = std::function<std::unique_ptr<Communicator>(const GroupMembers&)>;

  RankGroups(const sim::Strategy& strategy, int rank, const Connect& connect);

  int rank() const { return rank_; }
  // None for groups of one rank.
  Communicator* of(sim::GroupKind kind) const;
  // Between pipeline stages, for what goes back while of(Pipeline) carries what goes forward:
  // messages of one communicator between two ranks arrive in the order in which they were sent, and
  // with two stages both kinds go either way.
  Communicator* backward_pipeline() const { return backward_pipeline_.get(); }
  // Of all groups.
  void abandon() const;
  // All of them, by kind.
  std::vector<std::pair<sim::GroupKind, Communicator*>> communicators() const;
  // This rank's place in a group: 0 where it is alone.
  int place(sim::GroupKind kind) const;

 private:
  int rank_;
  std::map<sim::GroupKind, std::unique_ptr<Communicator>> groups_;
  std::unique_ptr<Communicator> backward_pipeline_;
};

// All groups of one rank that do nothing but count, for the meta device.
RankGroups counting_groups(const sim::Strategy& strategy, int rank);

}  // namespace llmsim::runtime
