// Times collectives over every shape of group that a strategy can make, alone
// and overlapped with GEMMs.
//
//   {"type": "collective", "key": ..., "kind": "all_reduce", "dtype": "bf16", "ranks", "stride",
//    "ranks_per_node", "nodes", "groups", "bytes", "outcome": "ok", "median_s", "spread",
//    "half_width", "repeats_n", "algbw_bytes_per_s", "busbw_bytes_per_s"}
//   {"type": "overlap", "key": ..., as above to "bytes", "gemm_size", "gemms",
//    "collective_alone_s", "collective_beside_s", "collective_slowdown", "gemm_alone_s",
//    "gemm_beside_s", "gemm_slowdown"}
//
// Bytes, algbw and busbw are nccl-tests': algbw = bytes / t; busbw = algbw times 2 (n - 1) / n for
// all-reduce, (n - 1) / n for all-gather, reduce-scatter and all-to-all, and 1 for broadcast and
// for send/recv, in which every rank sends to the next one.  All groups of a shape work at the same
// time, as in training, and a repeat takes as long as its slowest rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <c10/core/Device.h>
#include <nlohmann/json_fwd.hpp>

#include "runtime/measure/statistics.h"
#include "runtime/parallel/communicator.h"
#include "runtime/parallel/rank_groups.h"
#include "sim/base/dtype.h"
#include "sim/base/quantity.h"

namespace llmsim::runtime {

// Groups of every `stride`-th rank, `ranks` of them each; together they are the world.
struct GroupShape {
  int ranks = 1;
  int stride = 1;

  auto operator<=>(const GroupShape&) const = default;
};

// Within a node, strided within a node, and across nodes: sizes are powers of two and what fills a
// node or the world.  Strides of more than a node are left out: such groups use the same links as
// those of one rank a node.
std::vector<GroupShape> group_shapes(int world, int ranks_per_node);

// The group of `shape` that `rank` belongs to.
GroupMembers members_of(const GroupShape& shape, int rank);

struct CollectiveBenchOptions {
  c10::Device device = c10::kCPU;
  int ranks_per_node = 1;
  std::vector<sim::DType> dtypes = {sim::DType::Fp32, sim::DType::Bf16};
  sim::Bytes smallest = 1.0 * sim::KiB;
  sim::Bytes largest = 1.0 * sim::GiB;  // sizes grow fourfold
  bool overlap = true;
  int gemm_size = 1024;  // of the GEMMs that a collective overlaps with: size x size by size x size
  // Ranks that are processes of a host: each collective follows a GEMM, as in training.  Threads
  // and connections that have just been used answer sooner.
  bool after_gemms = false;
  // For all of it, shared by the cases; a series ends before the size that its
  // share does not last for.
  sim::Seconds budget{60.0};
  RepeatOptions repeats;

  // Asked on rank 0: whether the file has this record already.
  std::function<bool(const std::string& key)> has = [](const std::string&) { return false; };
  // Called on rank 0.
  std::function<void(const nlohmann::json& record)> record;
};

// Called on all ranks of `world`; `connect` makes the groups.
void bench_collectives(Communicator& world, const RankGroups::Connect& connect,
                       const CollectiveBenchOptions& options);

}  // namespace llmsim::runtime
