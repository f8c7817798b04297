#include "runtime/parallel/nccl_library.h"

#include <string>

#include <dlfcn.h>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

void* open_library() {
  std::string reasons;
  for (const char* name : {"libnccl.so.2", "librccl.so.1", "librccl.so"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
    reasons += std::string(reasons.empty() ? "" : "; ") + dlerror();
  }
  throw Error("NCCL and RCCL are not there, so groups of GPUs cannot be made: " + reasons);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw Error(std::string(name) + " is not in this NCCL: wants 2.7 or later");
}

NcclLibrary load() {
  void* library = open_library();
  NcclLibrary nccl{};
  find(library, "ncclGetUniqueId", nccl.get_unique_id);
  find(library, "ncclCommInitRank", nccl.comm_init_rank);
  find(library, "ncclCommDestroy", nccl.comm_destroy);
  find(library, "ncclCommAbort", nccl.comm_abort);
  find(library, "ncclCommGetAsyncError", nccl.comm_get_async_error);
  find(library, "ncclAllReduce", nccl.all_reduce);
  find(library, "ncclAllGather", nccl.all_gather);
  find(library, "ncclReduceScatter", nccl.reduce_scatter);
  find(library, "ncclBroadcast", nccl.broadcast);
  find(library, "ncclSend", nccl.send);
  find(library, "ncclRecv", nccl.receive);
  find(library, "ncclGroupStart", nccl.group_start);
  find(library, "ncclGroupEnd", nccl.group_end);
  find(library, "ncclGetErrorString", nccl.error_string);
  return nccl;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

}  // namespace llmsim::runtime
