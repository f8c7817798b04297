#include "runtime/parallel/counting_communicator.h"

namespace llmsim::runtime {
namespace {

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

std::unique_ptr<Communicator> counting_communicator(int rank, int size) {
  return std::make_unique<CountingCommunicator>(rank, size);
}

}  // namespace llmsim::runtime
