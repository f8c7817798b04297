// The few functions of NCCL that the runtime calls, found in the library that libtorch's device
// part has loaded (NVIDIA: libnccl.so.2; AMD: librccl.so.1, the same interface).  No header of
// either is needed to build.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>

namespace llmsim::runtime {

struct NcclUniqueId {
  std::array<char, 128> bytes{};
};

using NcclComm = void*;    // ncclComm_t
using NcclStream = void*;  // cudaStream_t, hipStream_t

// ncclConfig_t of NCCL 2.14, which later ones still read: what they have in addition is left to
// them (init.cc, parseCommConfig).
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21400;
  int blocking = 0;
};

struct NcclLibrary {
  // ncclResult_t is 0 for success, 7 for "in progress".
  int (*get_unique_id)(NcclUniqueId*);
  int (*comm_init_rank)(NcclComm*, int ranks, NcclUniqueId, int rank);
  int (*comm_init_rank_config)(NcclComm*, int ranks, NcclUniqueId, int rank,
                               NcclConfig*);  // null before 2.14
  int (*comm_destroy)(NcclComm);
  int (*comm_abort)(NcclComm);
  int (*comm_get_async_error)(NcclComm, int* result);
  int (*all_reduce)(const void*, void*, std::size_t count, int type, int operation, NcclComm,
                    NcclStream);
  int (*all_gather)(const void*, void*, std::size_t part_count, int type, NcclComm, NcclStream);
  int (*reduce_scatter)(const void*, void*, std::size_t part_count, int type, int operation,
                        NcclComm, NcclStream);
  int (*broadcast)(const void*, void*, std::size_t count, int type, int root, NcclComm, NcclStream);
  int (*send)(const void*, std::size_t count, int type, int to, NcclComm, NcclStream);
  int (*receive)(void*, std::size_t count, int type, int from, NcclComm, NcclStream);
  int (*group_start)();
  int (*group_end)();
  const char* (*error_string)(int result);
};

// Throws Error that says what was looked for where neither library can be loaded.
const NcclLibrary& nccl_library();

// Throws Error with NCCL's words for a result that is neither success nor "in progress".
void check_nccl(const NcclLibrary& nccl, int result);

// What a call of a communicator comes to that returned `result` and does not block: asks `state`
// until it is no more "in progress".  Throws Error where it fails, and where that takes longer than
// `patience`; `what` is in the message ("a connection of the ranks").
void settle_nccl(const NcclLibrary& nccl, int result, const std::function<int()>& state,
                 const char* what, std::chrono::milliseconds patience);

// The state of a communicator: success, "in progress", or what has gone wrong on it since, as a
// lost link.
int state_of(const NcclLibrary& nccl, NcclComm comm);

struct NcclPlace {
  int ranks = 1;
  int rank = 0;
  NcclUniqueId id{};
};

// A communicator, made within `patience` where the library can be asked (2.14 and later); else the
// wrong network interface makes it wait for ever.  `goes_on` is asked meanwhile, and may throw.
NcclComm connect_nccl(const NcclLibrary& nccl, const NcclPlace& place,
                      std::chrono::milliseconds patience, const std::function<void()>& goes_on);

// In NCCL's words; null for success and "in progress".
const char* failure_of(const NcclLibrary& nccl, int result);

}  // namespace llmsim::runtime
