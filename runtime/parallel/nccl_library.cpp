#include "runtime/parallel/nccl_library.h"

#include <dlfcn.h>

#include <string>
#include <thread>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kSuccess = 0, kInProgress = 7;

void* open_library() {
  std::string reasons;
  for (const char* name : {"libnccl.so.2", "librccl.so.1", "librccl.so"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
    reasons += std::string(reasons.empty() ? "" : "; ") + dlerror();
  }
  throw Error(
      "NCCL and RCCL are not there, so groups of GPUs cannot be made; a libtorch that has them "
      "inside itself does not share them, a package of NCCL does: " +
      reasons);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

template <class Function>
void find_needed(void* library, const char* name, Function& function) {
  find(library, name, function);
  if (function == nullptr)
    throw Error(std::string(name) + " is not in this NCCL: wants 2.7 or later");
}

NcclLibrary load() {
  void* library = open_library();
  NcclLibrary nccl{};
  find_needed(library, "ncclGetUniqueId", nccl.get_unique_id);
  find_needed(library, "ncclCommInitRank", nccl.comm_init_rank);
  find(library, "ncclCommInitRankConfig", nccl.comm_init_rank_config);
  find_needed(library, "ncclCommDestroy", nccl.comm_destroy);
  find_needed(library, "ncclCommAbort", nccl.comm_abort);
  find_needed(library, "ncclCommGetAsyncError", nccl.comm_get_async_error);
  find_needed(library, "ncclAllReduce", nccl.all_reduce);
  find_needed(library, "ncclAllGather", nccl.all_gather);
  find_needed(library, "ncclReduceScatter", nccl.reduce_scatter);
  find_needed(library, "ncclBroadcast", nccl.broadcast);
  find_needed(library, "ncclSend", nccl.send);
  find_needed(library, "ncclRecv", nccl.receive);
  find_needed(library, "ncclGroupStart", nccl.group_start);
  find_needed(library, "ncclGroupEnd", nccl.group_end);
  find_needed(library, "ncclGetErrorString", nccl.error_string);
  return nccl;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

const char* failure_of(const NcclLibrary& nccl, int result) {
  return result == kSuccess || result == kInProgress ? nullptr : nccl.error_string(result);
}

void check_nccl(const NcclLibrary& nccl, int result) {
  if (const char* failure = failure_of(nccl, result)) throw Error(std::string("NCCL: ") + failure);
}

int state_of(const NcclLibrary& nccl, NcclComm comm) {
  int state = kSuccess;
  const int asked = nccl.comm_get_async_error(comm, &state);
  return asked == kSuccess ? state : asked;
}

void settle_nccl(const NcclLibrary& nccl, int result, const std::function<int()>& state,
                 const char* what, std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  for (; result == kInProgress; result = state()) {
    if (Clock::now() > deadline)
      throw Error(std::string("NCCL: ") + what + " was not done within " +
                  std::to_string(patience.count() / 1000) +
                  " s; do NCCL_SOCKET_IFNAME and NCCL_IB_HCA name interfaces between the nodes?");
    std::this_thread::sleep_for(1ms);
  }
  check_nccl(nccl, result);
}

NcclComm connect_nccl(const NcclLibrary& nccl, const NcclPlace& place,
                      std::chrono::milliseconds patience, const std::function<void()>& goes_on) {
  NcclComm comm = nullptr;
  if (nccl.comm_init_rank_config == nullptr) {
    check_nccl(nccl, nccl.comm_init_rank(&comm, place.ranks, place.id, place.rank));
    return comm;
  }
  NcclConfig config;
  const auto state = [&] {
    goes_on();
    return state_of(nccl, comm);
  };
  try {
    const int result =
        nccl.comm_init_rank_config(&comm, place.ranks, place.id, place.rank, &config);
    settle_nccl(nccl, result, state, "a connection of the ranks", patience);
  } catch (...) {
    if (comm != nullptr) nccl.comm_abort(comm);
    throw;
  }
  return comm;
}

}  // namespace llmsim::runtime
