#include "runtime/parallel/communicator.h"

#include <numeric>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

std::vector<at::Tensor> pieces_of(const at::Tensor& whole, const std::vector<std::int64_t>& rows,
                                  int ranks) {
  if (rows.size() != static_cast<std::size_t>(ranks) ||
      std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) != whole.size(0)) {
    throw Error("all-to-all of " + std::to_string(whole.size(0)) +
                " rows: wants a number of rows for each of " + std::to_string(ranks) +
                " ranks, as many together");
  }
  return whole.split_with_sizes(rows);
}

class Nothing : public PendingCollective {
 public:
  void wait() override {}
};

class CountingCommunicator : public Communicator {
 public:
  CountingCommunicator(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override {}

 protected:
  Pending do_all_reduce(at::Tensor, Reduction) override { return nothing(); }
  Pending do_all_gather(at::Tensor, at::Tensor) override { return nothing(); }
  Pending do_reduce_scatter(at::Tensor, at::Tensor) override { return nothing(); }
  Pending do_all_to_all(Pieces) override { return nothing(); }
  Pending do_broadcast(at::Tensor, int) override { return nothing(); }
  Pending do_send(at::Tensor, int) override { return nothing(); }
  Pending do_receive(at::Tensor, int) override { return nothing(); }

 private:
  static Pending nothing() { return std::make_unique<Nothing>(); }
  int rank_;
  int size_;
};

}  // namespace

void Communicator::count(sim::CollectiveKind kind, const at::Tensor& buffer) {
  const std::lock_guard lock(mutex_);
  CollectiveCount& entry = counts_[static_cast<std::size_t>(kind)];
  ++entry.calls;
  entry.bytes += static_cast<std::int64_t>(buffer.nbytes());
}

CollectiveCounts Communicator::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Communicator::reset_counts() {
  const std::lock_guard lock(mutex_);
  counts_ = {};
}

void Communicator::all_reduce(at::Tensor buffer, Reduction reduction) {
  count(sim::CollectiveKind::AllReduce, buffer);
  do_all_reduce(std::move(buffer), reduction)->wait();
}

void Communicator::all_gather(at::Tensor whole, const at::Tensor& part) {
  start_all_gather(std::move(whole), part)->wait();
}

void Communicator::reduce_scatter(at::Tensor part, const at::Tensor& whole) {
  start_reduce_scatter(std::move(part), whole)->wait();
}

void Communicator::all_to_all(at::Tensor received, const at::Tensor& sent) {
  const auto ranks = static_cast<std::size_t>(size());
  if (received.numel() != sent.numel() || sent.numel() % size() != 0) {
    throw Error("all-to-all of " + std::to_string(sent.numel()) + " elements into " +
                std::to_string(received.numel()) + ": wants as many, divisible by " +
                std::to_string(size()) + " ranks");
  }
  const std::vector<std::int64_t> rows(ranks, sent.numel() / size());
  all_to_all(received.view(-1), sent.view(-1), {.received = rows, .sent = rows});
}

void Communicator::all_to_all(at::Tensor received, const at::Tensor& sent, const PieceRows& rows) {
  count(sim::CollectiveKind::AllToAll, sent);
  do_all_to_all({.received = pieces_of(received, rows.received, size()),
                 .sent = pieces_of(sent, rows.sent, size())})
      ->wait();
}

void Communicator::broadcast(at::Tensor buffer, int root) {
  count(sim::CollectiveKind::Broadcast, buffer);
  do_broadcast(std::move(buffer), root)->wait();
}

void Communicator::send(const at::Tensor& buffer, int to) { start_send(buffer, to)->wait(); }

// Counted where it is sent.
void Communicator::receive(at::Tensor buffer, int from) {
  do_receive(std::move(buffer), from)->wait();
}

std::unique_ptr<PendingCollective> Communicator::start_all_reduce(at::Tensor buffer) {
  count(sim::CollectiveKind::AllReduce, buffer);
  return do_all_reduce(std::move(buffer), Reduction::Sum);
}

std::unique_ptr<PendingCollective> Communicator::start_all_gather(at::Tensor whole,
                                                                  const at::Tensor& part) {
  count(sim::CollectiveKind::AllGather, whole);
  return do_all_gather(std::move(whole), part);
}

std::unique_ptr<PendingCollective> Communicator::start_reduce_scatter(at::Tensor part,
                                                                      const at::Tensor& whole) {
  count(sim::CollectiveKind::ReduceScatter, whole);
  return do_reduce_scatter(std::move(part), whole);
}

std::unique_ptr<PendingCollective> Communicator::start_send(const at::Tensor& buffer, int to) {
  count(sim::CollectiveKind::SendRecv, buffer);
  return do_send(buffer, to);
}

std::unique_ptr<Communicator> counting_communicator(int rank, int size) {
  return std::make_unique<CountingCommunicator>(rank, size);
}

}  // namespace llmsim::runtime
