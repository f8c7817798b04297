#include "runtime/parallel/core_share.h"

#include <cstddef>

#include <sched.h>

namespace llmsim::runtime {

std::vector<int> allowed_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<std::size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

std::vector<int> core_share(const std::vector<int>& cores, int rank, int ranks) {
  const auto each = static_cast<std::ptrdiff_t>(cores.size()) / ranks;
  return {cores.begin() + rank * each, cores.begin() + (rank + 1) * each};
}

}  // namespace llmsim::runtime
