// What a collective takes from the kernels that run beside it.
//
//   units    A collective runs as c thread blocks that each keep a compute unit to themselves: as many as its links are built
//            for, c = ceil(b0 / v), b0 the nominal bus bandwidth of its group and v what one unit moves.  A kernel has U - c of
//            U units left.
//   memory   A byte on the wire is r = 3 of device memory: written by the neighbour, read, and stored as result or sum.  At a bus
//            bandwidth of b they hold r b / M of the achieved memory bandwidth M.  Copies go without the buffer between: r - 1.
//
//   cores    Processes of one host carry their collectives on the cores that compute (FabricKind::Loopback).  For every second
//            that a collective takes alone, hiding it costs the kernels beside it s seconds (HostSharing::collectives, measured);
//            s = 1 leaves nothing to hide.  Neither units nor memory count then.
//
// GEMMs and attention run at 1 - c / U - k r b / M of their rate, k the share of the lost bandwidth that they feel through
// caches and memory queues; memory-bound kernels at 1 - r b / M, however many units they have.  Devices with engines of their own
// for collectives (v = 0) and copies cost no units.  Waiting for links or for the host costs and suffers nothing.
//
// A collective beside work that needs nothing of it: while it runs, t, the work does (1 - s) t, s the share of its rate that it
// loses.
//
// A tensor-parallel collective and the GEMM that it feeds or follows are cut into n pieces each.  In a ring of copies the first
// piece is the rank's own, so n pieces of compute meet n - 1 pieces of communication.  For a collective of c and a GEMM of g
// that takes p in each piece, s of its rate lost while a message travels
//
//   ring of copies        t = p + (n - 1) step(p, c / (n - 1))
//   scattered pieces      t = p + (n - 1) step(p, c / n) + c / n     sums that are sent when a piece is done: the last one shows
//
// where step is the longer of the two, the GEMM slowed down (smaller GEMMs run less well, too: n p > g).  A GEMM that
// needs nothing of the collective just runs beside it.  Nothing is ever slower than one after the other.
//
// Sources: NVIDIA/nccl issue 689 (blocks of collectives share no unit with other kernels; 2 of them reach a 12-24 GB/s adapter,
// 16 the 190 GB/s of eight).  Check: 24 blocks on an H100 take a GEMM from 80 to 47 % of peak (NVIDIA developer forum, topic
// 337991), this model to 50 %.
// Pieces: Wang et al., "Overlap Communication with Dependent Computation via Decomposition", ASPLOS 2023; TransformerEngine's
// userbuffers; Megatron Core's LinearWithGradAccumulationAndAsyncCommunication.
#pragma once

#include "sim/cost/collective.h"
#include "sim/hardware/device.h"
#include "sim/operators/operator.h"

namespace llmsim::sim {

// Shares of a device, 0 to 1, that one collective holds while it runs.
struct DeviceShare {
  double units = 0.0;
  double memory = 0.0;
  double cores = 0.0;  // of a host whose cores carry the collective themselves: all kernels lose them
};

// Of a collective over these links; nothing on a single rank.
DeviceShare collective_share(const GroupLinks& links, const Device& device);

// Of copies of the same bytes by engines that are no compute units.
DeviceShare copied_share(const GroupLinks& links, const Device& device);

// Of a collective that is given this many units.
DeviceShare collective_share(const GroupLinks& links, const Device& device, double units);

// Work by what bounds it.
struct WorkMix {
  Seconds arithmetic{};  // GEMMs and attention
  Seconds streaming{};   // memory-bound kernels
  Seconds waiting{};     // neither: links, host

  Seconds total() const { return arithmetic + streaming + waiting; }
};

// Rates of the two kinds of work beside a collective, relative to alone.
struct WorkRates {
  double arithmetic = 1.0;
  double streaming = 1.0;
};
WorkRates rates_beside(const DeviceShare& share, const Device& device);

// Share of its rate that work of this mix loses: 1 - total / (sum of part / rate).
double rate_loss(const WorkRates& rates, const WorkMix& mix);

// A collective beside work that needs nothing of it, both started together.
struct BesideTimes {
  Seconds exposed{};   // of the collective, after the work has ended
  Seconds slowdown{};  // of the work
};
BesideTimes run_beside(Seconds collective, Seconds work, double loss);

struct OverlapGemm {
  Seconds whole{};  // g
  Seconds piece{};  // p
};

// `messages`: how many the collective is cut into, pieces - 1 or pieces.
BesideTimes pipelined(Seconds collective, const OverlapGemm& gemm, int pieces, int messages, double loss);

// GEMMs of `operators` beside which the collective at `index` runs, as its `tensor_overlap` says: [first, last).  Casts
// between GEMMs belong to them.
OperatorRange overlapped_gemms(const OperatorList& operators, std::size_t index);

// Whether a GEMM of the range is one of those the collective runs beside.
bool is_overlapped(const Operator& collective, const Operator& gemm);

}  // namespace llmsim::sim
