// Where the ranks of a group sit: which of them share a node, and how many groups share a node's
// network ports.
//
// Ranks are numbered with the tensor dimension fastest, then context, then data and pipeline in one
// order or the other (MeshOrder).  Device r sits on node r / devices_per_node.
//
// Source: Megatron Core parallel_state.py, RankGenerator.
#pragma once

#include "sim/hardware/cluster.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

// The dimensions over which collectives run.  ContextInner is neighbours among the context ranks,
// ContextOuter every cp_inner-th of them (ContextScheme::AllToAllRing).  DataContext is data x
// context together (gradients, sharded states); Shard and Replicate are its inner and outer part
// under Hsdp.  Embedding is the first and the last pipeline stage, which each have a copy of a tied
// table; Mirror is two stages of a DualPipe that hold the same model chunks, the first and the last
// like stage s and p - 1 - s.  Expert is the ranks of a stage that have different experts,
// ExpertData those that have the same ones, ExpertTensor those that divide one (strategy.h).
enum class GroupKind {
  Tensor,
  Context,
  ContextInner,
  ContextOuter,
  Data,
  DataContext,
  Shard,
  Replicate,
  Pipeline,
  Expert,
  ExpertData,
  ExpertTensor,
  Embedding,
  Mirror
};

// "tp", "cp", "cp", "cp", "dp", "dp", "dp", "dp_replicate", "pp", "ep", "edp", "etp",
// "embedding", "pp_mirror".
const char* name_of(GroupKind kind);

// Every `stride`-th device, `ranks` of them.
struct GroupAxis {
  int ranks = 1;
  int stride = 1;

  bool operator==(const GroupAxis&) const = default;
};

// Where the ranks of a group are: `inner` ones, and `outer` sets of these.  Data and context ranks
// with the stages of a pipeline between them need both.
struct GroupAxes {
  GroupAxis inner, outer;

  int ranks() const { return inner.ranks * outer.ranks; }
};

struct GroupPlacement {
  int ranks = 1;
  int stride = 1;             // distance of neighbours in device numbers
  int ranks_per_domain = 1;   // of one group inside one scale-up domain
  int domains = 1;            // scale-up domains that one group spans
  int groups_per_domain = 1;  // groups of the same kind that share a domain's network ports

  bool operator==(const GroupPlacement&) const = default;
};

GroupAxes group_axes(const Strategy& strategy, GroupKind kind);
// Number of ranks of a group and the distance of neighbours.
int group_ranks(const Strategy& strategy, GroupKind kind);
int group_stride(const Strategy& strategy, GroupKind kind);

// Placement on domains of `domain_size` devices.
GroupPlacement place_group(const GroupAxes& axes, int domain_size);

// Devices of a domain: those of the scale-up fabric (72 GPUs of an NVL72 rack), or of the node.
int domain_size(const Cluster& cluster);

// Ranks of an all-to-all under ContextScheme::AllToAllRing where nobody says: the most that divide
// cp, and the heads and key/value heads of a tensor rank, and with their tensor ranks
// share a domain.
int usual_context_inner(const Transformer& model, const Strategy& strategy, int domain_size);

// Placement of the groups of `kind` on the domains of a cluster.
GroupPlacement place_group(const Strategy& strategy, GroupKind kind, const Cluster& cluster);

}  // namespace llmsim::sim
