// The collectives of one group of ranks, in the vocabulary of the simulator,
// counted as it counts them.
//
// Sizes are nccl-tests': the whole buffer of an all-gather, reduce-scatter, all-reduce or
// all-to-all, one message of a send.  Tensors are contiguous.  A call blocks until its result may
// be used; `start_` forms return at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <ATen/core/Tensor.h>

#include "sim/operators/operator.h"

namespace llmsim::runtime {

enum class Reduction { Sum, Max };

struct CollectiveCount {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};

inline constexpr std::size_t kNumCollectiveKinds = 6;
// By sim::CollectiveKind.
using CollectiveCounts = std::array<CollectiveCount, kNumCollectiveKinds>;

// A collective in flight.  Its tensors must not be touched before wait() has returned.
class PendingCollective {
 public:
  virtual ~PendingCollective() = default;
  virtual void wait() = 0;
};

// Rows (of the first dimension) of the pieces of an all-to-all, by rank.
struct PieceRows {
  std::vector<std::int64_t> received;
  std::vector<std::int64_t> sent;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Each counts itself, then calls the transport below.
  void all_reduce(at::Tensor buffer, Reduction reduction = Reduction::Sum);
  void all_gather(at::Tensor whole, const at::Tensor& part);      // whole: size() parts, by rank
  void reduce_scatter(at::Tensor part, const at::Tensor& whole);  // sums
  void all_to_all(at::Tensor received, const at::Tensor& sent);   // size() equal pieces
  void all_to_all(at::Tensor received, const at::Tensor& sent, const PieceRows& rows);
  void broadcast(at::Tensor buffer, int root);
  void send(const at::Tensor& buffer, int to);
  void receive(at::Tensor buffer, int from);
  virtual void barrier() = 0;
  // Ends operations in flight, with Error where somebody waits for them; the group cannot be used
  // afterwards.  It is called when this rank cannot go on, so that the others notice.  Transports
  // inside one process have nothing in flight.
  virtual void abandon() {}

  std::unique_ptr<PendingCollective> start_all_reduce(at::Tensor buffer);
  std::unique_ptr<PendingCollective> start_all_gather(at::Tensor whole, const at::Tensor& part);
  std::unique_ptr<PendingCollective> start_reduce_scatter(at::Tensor part, const at::Tensor& whole);
  std::unique_ptr<PendingCollective> start_send(const at::Tensor& buffer, int to);

  CollectiveCounts counts() const;
  void reset_counts();

 protected:
  using Pending = std::unique_ptr<PendingCollective>;
  virtual Pending do_all_reduce(at::Tensor buffer, Reduction reduction) = 0;
  virtual Pending do_all_gather(at::Tensor whole, at::Tensor part) = 0;
  virtual Pending do_reduce_scatter(at::Tensor part, at::Tensor whole) = 0;
  // Pieces are contiguous, in the order of the ranks; any may be empty.
  struct Pieces {
    std::vector<at::Tensor> received;
    std::vector<at::Tensor> sent;
  };
  virtual Pending do_all_to_all(Pieces pieces) = 0;
  virtual Pending do_broadcast(at::Tensor buffer, int root) = 0;
  virtual Pending do_send(at::Tensor buffer, int to) = 0;
  virtual Pending do_receive(at::Tensor buffer, int from) = 0;

 private:
  void count(sim::CollectiveKind kind, const at::Tensor& buffer);

  // Of counts_: a pipeline stage sends from one thread and computes on another.
  mutable std::mutex mutex_;
  CollectiveCounts counts_{};
};

// A group of which only one rank exists: collectives are counted and carry nothing.  With the meta
// device one process stands for any rank of any cluster.

std::unique_ptr<Communicator> counting_communicator(int rank, int size);

}  // namespace llmsim::runtime
