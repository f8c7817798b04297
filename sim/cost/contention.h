// What kernels lose inside a training step: to clocks, software and neighbours on their host, and
// to the collectives that they overlap with.
#pragma once

#include "sim/base/dtype.h"
#include "sim/cost/collective.h"
#include "sim/cost/kernels.h"
#include "sim/hardware/cluster.h"
#include "sim/hardware/device.h"
#include "sim/operators/operator.h"
#include "sim/run.h"
#include "sim/strategy/framework.h"

namespace llmsim::sim {

// What GEMMs and attention reach inside a training step, relative to the
// same kernels measured alone.
//
//   time in a step = time alone / (sustained_clock * training_rate * framework * host_sharing *
//                                  library * low_precision * determinism)
//
// Host sharing.  With n processes of one host at work (FabricKind::Loopback), each runs GEMMs and
// attention at 1 / (1 + (n - 1) x) of the rate that it reaches alone, and kernels that stream
// through memory at 1 / (1 + (n - 1) y): x and y are measured by doing both alone and together
// (HostSharing::gemms, memory_bound).  A last-level cache of C bytes holds C / n of each.
//
// Determinism.  To give the same bits every time PyTorch under use_deterministic_algorithms fills
// each new tensor before an operator writes it (fill_uninitialized_memory, on by default:
// torch.empty, empty_like, empty_strided, resize_).  Libraries that allocate their results so pay
// one more write of each:
//
//   GEMMs                  m n elements; weight gradients too unless the GEMM accumulates into the
//                          gradient
//   attention              the output, a quarter of what the forward pass moves (q, k, v, output);
//                          backward the gradients of q, k, v, three eighths of what it moves (q, k,
//                          v, output, its gradient, those three)
//   norms                  half of what the forward pass moves (input, output); backward a third
//                          (input, gradient, gradient)
//   casts, copies          half of what they move
//
// Elementwise operators of PyTorch itself and compiled kernels allocate without filling.  The
// backward pass of attention sums in one order: Determinism::attention_backward.  Collectives keep
// to rings (default.collective_algorithm).  Source: PyTorch, torch.utils.deterministic and
// torch.empty; Megatron-LM training/arguments.py, deterministic_mode.  Sources of the other
// factors: fits to kernels and to whole runs (calibrate/README.md).

struct StepFactors {
  // Achieved::sustained_clock; GEMMs: times GemmCoefficients::clock_factor.
  double sustained_clock = 1.0;
  double training_rate = 1.0;  // Achieved::training_rate
  double framework = 1.0;      // Framework::efficiency
  double host_sharing = 1.0;   // what other processes of the host leave (HostShare)
  double library = 1.0;        // GEMMs: Framework::gemm_efficiency
  // GEMMs in 8- and 4-bit formats: what the framework reaches of the library's rate.
  double low_precision = 1.0;
  double determinism = 1.0;  // attention, backward: sums in one order

  double rate() const {
    return sustained_clock * training_rate * framework * host_sharing * library * low_precision *
           determinism;
  }
};

StepFactors gemm_step_factors(const Run& run, DType dtype);
StepFactors attention_step_factors(const Run& run, bool backward);

// The machine of a run's GEMMs: the device's, with misaligned GEMMs as fast as the framework's
// release of the matrix library and its programs make them, at most as fast as aligned ones:
//
//   misaligned_factor       = min(1, GemmCoefficients::misaligned_factor
//                                    * Framework::misaligned_gemm_gain * misaligned_gemm_rate)
//   misaligned_batch_factor = min(1, GemmCoefficients::misaligned_batch_factor
//                                    * Framework::misaligned_batch_rate)
GemmMachine gemm_machine(const Run& run, DType dtype);

// Of one process, relative to alone; all of it where the devices do not share a host.
struct HostShare {
  double gemms = 1.0;
  double memory_bound = 1.0;
  double cache = 1.0;
};

HostShare host_share(const Cluster& cluster);

// The memory-bound kernels of one process under a framework, while the others do the same.
MemoryBoundMachine memory_bound_machine(const Cluster& cluster, const Framework& framework,
                                        const MemoryBoundForms& forms);

// Bytes of the results of one operator that are filled first; 0 where it allocates none.
// `element`: bytes of an activation.
Bytes filled_bytes(const Operator& op, bool backward, double element, const Framework& framework);

// What a collective takes from the kernels that it overlaps with.
//
//   units    A collective runs as c thread blocks that each keep a compute unit to themselves: as
//            many as its links are built for, c = ceil(b0 / v), b0 the nominal bus bandwidth of its
//            group and v what one unit moves.  A kernel has U - c of U units left.
//   memory   A byte on the wire is r = 3 of device memory: written by the neighbour, read, and
//            stored as result or sum.  At a bus bandwidth of b they hold r b / M of the achieved
//            memory bandwidth M.  Copies go without the buffer between: r - 1.
//
//   cores    Processes of one host carry their collectives on the cores that compute
//            (FabricKind::Loopback).  For every second that a collective takes alone, hiding it
//            costs the kernels that hide it s seconds (HostSharing::collectives, measured); with
//            s = 1 overlap gains nothing.  Neither units nor memory count then.
//
// GEMMs and attention run at 1 - c / U - k r b / M of their rate, k the share of the lost bandwidth
// that they feel through caches and memory queues; memory-bound kernels at 1 - r b / M, however
// many units they have.  Devices with engines of their own for collectives (v = 0) and copies cost
// no units.  Waiting for links or for the host costs and suffers nothing.
//
// A collective that overlaps with independent work: while it runs for t, the work advances by
// (1 - s) t, with s the share of its rate that it loses.
//
// A tensor-parallel collective and the GEMM that it feeds or follows are cut into n pieces each.
// In a ring of copies the first piece is the rank's own, so n pieces of compute meet n - 1 pieces
// of communication.  For a collective of c and a GEMM of g that takes p in each piece, s of its
// rate lost while a message travels
//
//   ring of copies        t = p + (n - 1) step(p, c / (n - 1))
//   scattered pieces      t = p + (n - 1) step(p, c / n) + c / n
//                         (sums that are sent when a piece is done; the last one is exposed)
//
// where step is the longer of the two, the GEMM slowed down (smaller GEMMs run less well, too: n p
// > g).  An independent GEMM just overlaps with the collective.  Overlap is never slower than one
// after the other.
//
// Sources: NVIDIA/nccl issue 689 (blocks of collectives share no unit with other kernels; 2 of them
// reach a 12-24 GB/s adapter, 16 the 190 GB/s of eight).  Check: 24 blocks on an H100 take a GEMM
// from 80 to 47 % of peak (NVIDIA developer forum, topic 337991), this model to 50 %.
// Pieces: Wang et al., "Overlap Communication with Dependent Computation via Decomposition", ASPLOS
// 2023; TransformerEngine's userbuffers; Megatron Core's
// LinearWithGradAccumulationAndAsyncCommunication.

// Shares of a device, 0 to 1, that one collective holds while it runs.
struct DeviceShare {
  double units = 0.0;
  double memory = 0.0;
  // Of a host whose cores carry the collective themselves: all kernels lose them.
  double cores = 0.0;
};

// Of a collective over these links; nothing on a single rank.
DeviceShare collective_share(const GroupLinks& links, const Device& device);

// Of copies of the same bytes by engines that are no compute units.
DeviceShare copied_share(const GroupLinks& links, const Device& device);

// Of a collective that is given this many units.
DeviceShare collective_share(const GroupLinks& links, const Device& device, double units);

// Work by what bounds it.
struct WorkMix {
  Seconds arithmetic{};    // GEMMs and attention
  Seconds memory_bound{};  // memory-bound kernels
  Seconds waiting{};       // neither: links, host

  Seconds total() const { return arithmetic + memory_bound + waiting; }
};

// Rates of the two kinds of work during a collective, relative to alone.
struct WorkRates {
  double arithmetic = 1.0;
  double memory_bound = 1.0;
};
WorkRates rates_overlapped(const DeviceShare& share, const Device& device);

// Share of its rate that work of this mix loses: 1 - total / (sum over kinds of time / rate).
double rate_loss(const WorkRates& rates, const WorkMix& mix);

// A collective and independent work, both started together.
struct ExposedTimes {
  Seconds exposed{};   // of the collective, after the work has ended
  Seconds slowdown{};  // of the work
};
ExposedTimes run_overlapped(Seconds collective, Seconds work, double loss);

struct OverlapGemm {
  Seconds whole{};  // g
  Seconds piece{};  // p
};

// `messages`: how many the collective is cut into, pieces - 1 or pieces.
ExposedTimes pipelined(Seconds collective, const OverlapGemm& gemm, int pieces, int messages,
                       double loss);

// GEMMs of `operators` with which the collective at `index` overlaps, by its `tensor_overlap`:
// [first, last), of one module.  Casts between GEMMs belong to them.
OperatorRange overlapped_gemms(const OperatorList& operators, std::size_t index);

// Whether a GEMM of the range is one of those that the collective overlaps with.
bool is_overlapped(const Operator& collective, const Operator& gemm);

}  // namespace llmsim::sim
