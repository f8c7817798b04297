// What ranks that are processes of one host take from each other: calls that each rank makes alone,
// while the others wait, and that all make at once, each on its own data.
//
//   {"type": "sharing", "key": "sharing/gemm", "kind": "gemm", "ranks", "bytes", "outcome": "ok",
//    "alone_s", "together_s", "slowdown", "spread", "repeats_n"}
//
//   gemm         GEMMs of 512 x 512 in fp32
//   copy         from memory to memory, four times the last-level cache, or what fits the memory
//   cached_copy  an eighth of the last-level cache, which all ranks' copies fit together
//
// A time is that of the slowest rank; the slowdown is the median of pairs, together over alone,
// that follow each other.
#pragma once

#include <functional>

#include <nlohmann/json_fwd.hpp>

#include "runtime/measure/statistics.h"
#include "runtime/parallel/communicator.h"
#include "sim/base/quantity.h"

namespace llmsim::runtime {

struct SharingBenchOptions {
  int local_rank = 0;
  int local_ranks = 1;
  sim::Bytes cache{};         // the last-level cache; 0: unknown, 32 MiB are assumed
  sim::Bytes memory{1e18};    // that the buffers of one rank may take
  sim::Seconds budget{10.0};  // for all of it

  // As in CollectiveBenchOptions; both on rank 0.
  std::function<bool(const std::string& key)> has = [](const std::string&) { return false; };
  std::function<void(const nlohmann::json& record)> record{};
};

// Called on all ranks of `world`, whose tensors are on the CPU.
void bench_sharing(Communicator& world, const SharingBenchOptions& options);

}  // namespace llmsim::runtime
