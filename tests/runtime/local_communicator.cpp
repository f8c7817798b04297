#include "tests/runtime/local_communicator.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include <ATen/ATen.h>

#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

// Where the ranks of a group meet: each puts down a tensor, and takes up all of them when the last
// has come.
class MeetingPlace {
 public:
  MeetingPlace(int size, std::chrono::seconds patience) : size_(size), patience_(patience) {}

  int size() const { return size_; }

  // All ranks' tensors, by rank.  `meeting`: how many times this rank has met before.
  std::vector<at::Tensor> meet(std::int64_t meeting, int rank, at::Tensor brought) {
    std::unique_lock lock(mutex_);
    Meeting& here = meetings_[meeting];
    here.brought.resize(static_cast<std::size_t>(size_));
    here.present.resize(static_cast<std::size_t>(size_), false);
    here.brought[static_cast<std::size_t>(rank)] = std::move(brought);
    here.present[static_cast<std::size_t>(rank)] = true;
    ++here.arrived;
    changed_.notify_all();
    if (!changed_.wait_for(lock, patience_, [&] { return here.arrived == size_; }))
      throw Error(absent(here));
    std::vector<at::Tensor> all = here.brought;
    if (++here.left == size_) meetings_.erase(meeting);
    return all;
  }

  void post(int from, int to, at::Tensor letter) {
    const std::lock_guard lock(mutex_);
    letters_[{from, to}].push_back(std::move(letter));
    changed_.notify_all();
  }

  at::Tensor collect(int from, int to) {
    std::unique_lock lock(mutex_);
    std::vector<at::Tensor>& box = letters_[{from, to}];
    if (!changed_.wait_for(lock, patience_, [&] { return !box.empty(); })) {
      throw Error("rank " + std::to_string(from) + " did not send to rank " + std::to_string(to) +
                  " within " + std::to_string(patience_.count()) + " s");
    }
    at::Tensor letter = std::move(box.front());
    box.erase(box.begin());
    return letter;
  }

 private:
  struct Meeting {
    std::vector<at::Tensor> brought;
    std::vector<bool> present;
    int arrived = 0;
    int left = 0;
  };

  std::string absent(const Meeting& meeting) const {
    std::string ranks;
    for (int rank = 0; rank < size_; ++rank) {
      if (!meeting.present[static_cast<std::size_t>(rank)])
        ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    return "no answer from rank " + ranks + " within " + std::to_string(patience_.count()) + " s";
  }

  int size_;
  std::chrono::seconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Meeting> meetings_;
  std::map<std::pair<int, int>, std::vector<at::Tensor>> letters_;
};

class Done : public PendingCollective {
 public:
  void wait() override {}
};

class LocalCommunicator : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<MeetingPlace> place, int rank)
      : place_(std::move(place)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return place_->size(); }
  void barrier() override { meet({}); }

 protected:
  // The parts are added in the order of the ranks, so every rank has the same sum to the bit.
  Pending do_all_reduce(at::Tensor buffer, Reduction reduction) override {
    const auto all = meet(buffer.clone());
    buffer.copy_(all[0]);
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (reduction == Reduction::Sum) {
        buffer.add_(all[i]);
      } else {
        at::maximum_out(buffer, buffer, all[i]);
      }
    }
    return finished();
  }

  Pending do_all_gather(at::Tensor whole, at::Tensor part) override {
    const auto all = meet(part.clone());
    auto pieces = whole.view({size(), -1});
    for (int i = 0; i < size(); ++i) pieces[i].copy_(all[static_cast<std::size_t>(i)].view(-1));
    return finished();
  }

  Pending do_reduce_scatter(at::Tensor part, at::Tensor whole) override {
    const auto all = meet(whole.clone());
    const auto own = [&](const at::Tensor& from) {
      return from.view({size(), -1})[rank_].view(part.sizes());
    };
    part.copy_(own(all[0]));
    for (std::size_t i = 1; i < all.size(); ++i) part.add_(own(all[i]));
    return finished();
  }

  Pending do_all_to_all(Pieces pieces) override {
    for (int i = 0; i < size(); ++i)
      place_->post(rank_, i, pieces.sent[static_cast<std::size_t>(i)].clone());
    for (int i = 0; i < size(); ++i)
      pieces.received[static_cast<std::size_t>(i)].copy_(place_->collect(i, rank_));
    return finished();
  }

  Pending do_broadcast(at::Tensor buffer, int root) override {
    const auto all = meet(rank_ == root ? buffer.clone() : at::Tensor());
    if (rank_ != root) buffer.copy_(all[static_cast<std::size_t>(root)]);
    return finished();
  }

  Pending do_send(at::Tensor buffer, int to) override {
    place_->post(rank_, to, buffer.clone());
    return finished();
  }
  Pending do_receive(at::Tensor buffer, int from) override {
    buffer.copy_(place_->collect(from, rank_));
    return finished();
  }

 private:
  std::vector<at::Tensor> meet(at::Tensor brought) {
    return place_->meet(meetings_++, rank_, std::move(brought));
  }
  static Pending finished() { return std::make_unique<Done>(); }

  std::shared_ptr<MeetingPlace> place_;
  int rank_;
  std::int64_t meetings_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> local_group(int size, std::chrono::seconds patience) {
  auto place = std::make_shared<MeetingPlace>(size, patience);
  std::vector<std::unique_ptr<Communicator>> group;
  for (int rank = 0; rank < size; ++rank)
    group.push_back(std::make_unique<LocalCommunicator>(place, rank));
  return group;
}

}  // namespace llmsim::runtime
