// The few functions of NCCL that the runtime calls, found in the library that libtorch's device part has loaded (NVIDIA:
// libnccl.so.2; AMD: librccl.so.1, the same interface).  No header of either is needed to build.
#pragma once

#include <array>
#include <cstddef>

namespace llmsim::runtime {

struct NcclUniqueId {
  std::array<char, 128> bytes{};
};

using NcclComm = void*;    // ncclComm_t
using NcclStream = void*;  // cudaStream_t, hipStream_t

struct NcclLibrary {
  // ncclResult_t is 0 for success, 7 for "in progress".
  int (*get_unique_id)(NcclUniqueId*);
  int (*comm_init_rank)(NcclComm*, int ranks, NcclUniqueId, int rank);
  int (*comm_destroy)(NcclComm);
  int (*comm_abort)(NcclComm);
  int (*comm_get_async_error)(NcclComm, int* result);
  int (*all_reduce)(const void*, void*, std::size_t count, int type, int operation, NcclComm, NcclStream);
  int (*all_gather)(const void*, void*, std::size_t part_count, int type, NcclComm, NcclStream);
  int (*reduce_scatter)(const void*, void*, std::size_t part_count, int type, int operation, NcclComm, NcclStream);
  int (*broadcast)(const void*, void*, std::size_t count, int type, int root, NcclComm, NcclStream);
  int (*send)(const void*, std::size_t count, int type, int to, NcclComm, NcclStream);
  int (*receive)(void*, std::size_t count, int type, int from, NcclComm, NcclStream);
  int (*group_start)();
  int (*group_end)();
  const char* (*error_string)(int result);
};

// Throws Error that says what was looked for where neither library can be loaded.
const NcclLibrary& nccl_library();

}  // namespace llmsim::runtime
