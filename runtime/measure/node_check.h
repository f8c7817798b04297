// Which rank, device or link of a machine is not as the others: every rank times the same work, and
// is compared with the median.
//
//   slow      the median of a rank's repeats is above the median over all ranks by more than
//             `tolerance`, and by more than three times what the repeats' own spread explains.
//             Links within a node and across nodes are compared among themselves.
//   bimodal   the repeats fall into two groups, as where a device is throttled now and then or
//             shared with somebody.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "runtime/parallel/communicator.h"
#include "sim/base/quantity.h"

namespace llmsim::runtime {

using Times = std::vector<sim::Seconds>;  // of equal repeats

// Messages both ways between two ranks at once.
struct LinkTimes {
  int first = 0;
  int second = 0;
  Times times;
};

struct NodeReadings {
  std::vector<std::string> hosts;  // by rank, as those below
  std::vector<Times> gemm;         // a GEMM
  std::vector<Times> copy;         // of device memory
  std::vector<Times> ring;         // every rank sends to the next at once
  std::vector<LinkTimes> links;
};

enum class Fault { SlowGemm, SlowCopy, SlowRing, SlowLink, SlowLinks, Bimodal };

struct Finding {
  Fault fault = Fault::SlowGemm;
  std::vector<int> ranks;  // the rank, or both ends of the link
  double ratio = 1.0;      // to the median; Bimodal: of the slow repeats to the fast ones
  std::string text;        // one line: who, on which host, what, by how much
};

// Worst first.  `tolerance`: 0.1 is 10 % above the median.
std::vector<Finding> findings_of(const NodeReadings& readings, double tolerance);

// The ratio of slow to fast repeats where they fall into two groups.  Each has at least two repeats
// and a fifth of them, and the gap between the groups is wider than each of them and 15 % of the
// fast ones.
std::optional<double> two_groups(Times times);

// Work of one repeat on one rank, which says how long it took.
struct NodeProbes {
  std::function<sim::Seconds()> gemm;
  std::function<sim::Seconds()> copy;
};
// A GEMM of size x size by size x size in fp32, and a copy of `bytes`.
NodeProbes device_probes(c10::Device device, int size, sim::Bytes bytes);

struct NodeCheckOptions {
  c10::Device device = c10::kCPU;  // where messages come from
  sim::Bytes message = 4.0 * sim::MiB;
  int repeats = 15;
  int most_rounds = 63;  // of pairs that are tried at the same time: all pairs of up to 64 ranks
};

// Called on all ranks; gives all of them all readings.
NodeReadings read_nodes(Communicator& world, const std::vector<std::string>& hosts,
                        const NodeProbes& probes, const NodeCheckOptions& options);

// The partner of `rank` in a round of a tournament in which, after ranks - 1 rounds (one more for
// an odd number), each has met each; none: it sits this round out.
std::optional<int> partner_of(int rank, int round, int ranks);

}  // namespace llmsim::runtime
