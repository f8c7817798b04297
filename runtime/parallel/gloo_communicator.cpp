#include "runtime/parallel/gloo_communicator.h"

#include "sim/base/error.h"

// Official builds of libtorch have Gloo inside and leave its headers out.
#if __has_include(<gloo/algorithm.h>)

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <exception>
#include <future>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <ATen/Dispatch.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "runtime/parallel/ordered_worker.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Gloo keeps the order of messages within a tag.
enum class Tag { Message, Collective };

std::size_t bytes_of(const at::Tensor& tensor) { return tensor.nbytes(); }
std::byte* data_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

void require_host_memory(const at::Tensor& tensor) {
  if (!tensor.device().is_cpu())
    throw Error("tensor on " + tensor.device().str() + ": Gloo carries CPU tensors; use NCCL");
  if (!tensor.is_contiguous())
    throw Error("tensor with strides: collectives take contiguous tensors");
}

// sum[i] = sum[i] + addend[i], or the larger of the two.
void accumulate(at::ScalarType type, void* sum, const void* addend, std::size_t bytes,
                Reduction reduction) {
  AT_DISPATCH_ALL_TYPES_AND2(at::kHalf, at::kBFloat16, type, "accumulate", [&] {
    auto* into = static_cast<scalar_t*>(sum);
    const auto* from = static_cast<const scalar_t*>(addend);
    const std::size_t count = bytes / sizeof(scalar_t);
    if (reduction == Reduction::Sum) {
      for (std::size_t i = 0; i < count; ++i) into[i] = static_cast<scalar_t>(into[i] + from[i]);
    } else {
      for (std::size_t i = 0; i < count; ++i) into[i] = std::max(into[i], from[i]);
    }
  });
}

// A buffer divided among the ranks; the last pieces may be smaller, or empty.
struct EqualPieces {
  EqualPieces(const at::Tensor& buffer, int ranks)
      : data(data_of(buffer)),
        total(bytes_of(buffer)),
        piece(piece_bytes(buffer, static_cast<std::size_t>(ranks))) {}

  std::byte* begin(int rank) const {
    return data + std::min(total, piece * static_cast<std::size_t>(rank));
  }
  std::size_t bytes(int rank) const {
    return static_cast<std::size_t>(begin(rank + 1) - begin(rank));
  }

  std::byte* data;
  std::size_t total;
  std::size_t piece;

 private:
  static std::size_t piece_bytes(const at::Tensor& buffer, std::size_t ranks) {
    const auto elements = static_cast<std::size_t>(buffer.numel());
    return (elements + ranks - 1) / ranks * buffer.element_size();
  }
};

// Gloo writes to its sockets without MSG_NOSIGNAL: a peer that has left would end this process,
// instead of being named.  Programs in Python do not know the signal, since the interpreter ignores
// it.
void ignore_closed_sockets() { std::signal(SIGPIPE, SIG_IGN); }

// Messages between the members of the group, their deadlines, and who is to blame where none comes.
class Mail {
 public:
  Mail(std::shared_ptr<RollCall> roll_call, const GroupMembers& members, const GlooOptions& options)
      : roll_call_(std::move(roll_call)), members_(members), timeout_(options.timeout) {
    ignore_closed_sockets();
    const std::string name = roll_call_->group_name(members.ranks);
    roll_call_->meet(name, members.ranks, timeout_);
    auto gloo = c10d::ProcessGroupGloo::Options::create(timeout_);
    gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(options.address));
    gloo->threads = 1;
    auto store = c10::make_intrusive<c10d::PrefixStore>(name, roll_call_->store().c10d_store());
    gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(store, place(), size(), gloo);
  }

  int place() const { return members_.place; }
  int size() const { return static_cast<int>(members_.ranks.size()); }

  struct Letter {
    int peer;
    c10::intrusive_ptr<c10d::Work> work;
  };

  // Nothing is posted for an empty piece, on either side.
  std::vector<Letter> send(const std::byte* data, std::size_t bytes, int to, Tag tag) {
    std::vector<at::Tensor> view{bytes_view(data, bytes)};
    if (bytes == 0) return {};
    return {{to, posted([&] { return gloo_->send(view, to, static_cast<int>(tag)); }, to)}};
  }
  std::vector<Letter> receive(std::byte* data, std::size_t bytes, int from, Tag tag) {
    std::vector<at::Tensor> view{bytes_view(data, bytes)};
    if (bytes == 0) return {};
    return {{from, posted([&] { return gloo_->recv(view, from, static_cast<int>(tag)); }, from)}};
  }

  void await(const std::vector<Letter>& letters) {
    const Awaited awaited(*this, letters);
    const auto start = Clock::now();
    for (auto letter = letters.begin(); letter != letters.end(); ++letter) {
      try {
        letter->work->wait(std::max(
            1ms, std::chrono::duration_cast<milliseconds>(start + timeout_ - Clock::now())));
      } catch (const std::exception&) {
        if (abandoned_) break;
        const bool late = Clock::now() - start >= timeout_;
        fail(late ? unanswered({letter, letters.end()}) : std::vector<int>{letter->peer}, late);
      }
    }
    if (abandoned_) throw Error("rank " + std::to_string(roll_call_->rank()) + " has given up");
  }

  void abandon() {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    for (const std::vector<Letter>* letters : awaited_) abort(*letters);
  }

 private:
  // Letters that a thread waits for.
  class Awaited {
   public:
    Awaited(Mail& mail, const std::vector<Letter>& letters) : mail_(mail), letters_(&letters) {
      const std::lock_guard lock(mail_.mutex_);
      if (mail_.abandoned_) abort(letters);
      mail_.awaited_.insert(letters_);
    }
    Awaited(const Awaited&) = delete;
    Awaited& operator=(const Awaited&) = delete;
    ~Awaited() {
      const std::lock_guard lock(mail_.mutex_);
      mail_.awaited_.erase(letters_);
    }

   private:
    Mail& mail_;
    const std::vector<Letter>* letters_;
  };

  static void abort(const std::vector<Letter>& letters) {
    for (const Letter& letter : letters) letter.work->abort();
  }

  static at::Tensor bytes_view(const std::byte* data, std::size_t bytes) {
    return at::from_blob(const_cast<std::byte*>(data), {static_cast<std::int64_t>(bytes)},
                         at::kByte);
  }

  template <class Action>
  c10::intrusive_ptr<c10d::Work> posted(const Action& action, int peer) {
    try {
      return action();
    } catch (const std::exception&) {
      if (abandoned_) throw;
      fail({peer}, false);
    }
  }

  // Those of the letters' peers that have not answered; the first has not.
  static std::vector<int> unanswered(const std::vector<Letter>& letters) {
    std::vector<int> peers{letters.front().peer};
    for (const Letter& letter : letters) {
      try {
        letter.work->wait(1ms);
      } catch (const std::exception&) {
        if (std::find(peers.begin(), peers.end(), letter.peer) == peers.end())
          peers.push_back(letter.peer);
      }
    }
    return peers;
  }

  [[noreturn]] void fail(const std::vector<int>& peers, bool late) {
    std::vector<int> missing;
    for (const int peer : peers) missing.push_back(members_.ranks[static_cast<std::size_t>(peer)]);
    const auto culprits =
        roll_call_->culprits(missing, std::clamp<milliseconds>(timeout_ / 4, 500ms, 5s));
    const std::string within =
        late ? " within " + std::to_string(timeout_.count() / 1000) + " s" : ", connection lost";
    throw Error("rank " + std::to_string(roll_call_->rank()) + ": no answer from " +
                roll_call_->names(culprits) + within);
  }

  std::shared_ptr<RollCall> roll_call_;
  GroupMembers members_;
  milliseconds timeout_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo_;
  std::mutex mutex_;  // of awaited_
  std::set<const std::vector<Letter>*> awaited_;
  std::atomic<bool> abandoned_ = false;
};

class Queued : public PendingCollective {
 public:
  explicit Queued(std::future<void> done) : done_(std::move(done)) {}
  void wait() override { done_.get(); }

 private:
  std::future<void> done_;
};

class Posted : public PendingCollective {
 public:
  Posted(Mail& mail, at::Tensor buffer, std::vector<Mail::Letter> letters)
      : mail_(mail), buffer_(std::move(buffer)), letters_(std::move(letters)) {}
  void wait() override { mail_.await(letters_); }

 private:
  Mail& mail_;
  at::Tensor buffer_;
  std::vector<Mail::Letter> letters_;
};

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(std::shared_ptr<RollCall> roll_call, const GroupMembers& members,
                   const GlooOptions& options)
      : mail_(std::move(roll_call), members, options) {}

  int rank() const override { return mail_.place(); }
  int size() const override { return mail_.size(); }

  void abandon() override { mail_.abandon(); }

  void barrier() override {
    worker_
        .then([this] {
          std::vector<std::byte> marks(static_cast<std::size_t>(size()));
          exchange(
              [&](int peer) {
                return Part{&marks[index(rank())], 1, peer};
              },
              [&](int peer) {
                return Part{&marks[index(peer)], 1, peer};
              });
        })
        .get();
  }

 protected:
  Pending do_all_reduce(at::Tensor buffer, Reduction reduction) override {
    return queued({buffer}, [=, this] {
      const EqualPieces pieces(buffer, size());
      sum_own_piece(pieces, buffer.scalar_type(), reduction, pieces.begin(rank()));
      spread(pieces);
    });
  }

  Pending do_all_gather(at::Tensor whole, at::Tensor part) override {
    require_pieces(whole, part);
    return queued({whole, part}, [=, this] {
      const EqualPieces pieces(whole, size());
      std::memmove(pieces.begin(rank()), data_of(part), bytes_of(part));
      spread(pieces);
    });
  }

  Pending do_reduce_scatter(at::Tensor part, at::Tensor whole) override {
    require_pieces(whole, part);
    return queued({part, whole}, [=, this] {
      sum_own_piece(EqualPieces(whole, size()), whole.scalar_type(), Reduction::Sum, data_of(part));
    });
  }

  Pending do_all_to_all(Pieces pieces) override {
    for (const at::Tensor& piece : pieces.received) require_host_memory(piece);
    return queued(pieces.sent, [=, this] {
      const at::Tensor &own = pieces.sent[index(rank())], &kept = pieces.received[index(rank())];
      if (bytes_of(own) > 0) std::memcpy(data_of(kept), data_of(own), bytes_of(own));
      const auto part_of = [](const at::Tensor& piece, int peer) {
        return Part{data_of(piece), bytes_of(piece), peer};
      };
      exchange([&](int peer) { return part_of(pieces.sent[index(peer)], peer); },
               [&](int peer) { return part_of(pieces.received[index(peer)], peer); });
    });
  }

  Pending do_broadcast(at::Tensor buffer, int root) override {
    return queued({buffer}, [=, this] { broadcast_tree(buffer, root); });
  }

  Pending do_send(at::Tensor buffer, int to) override {
    require_host_memory(buffer);
    auto letters = mail_.send(data_of(buffer), bytes_of(buffer), to, Tag::Message);
    return std::make_unique<Posted>(mail_, std::move(buffer), std::move(letters));
  }
  Pending do_receive(at::Tensor buffer, int from) override {
    require_host_memory(buffer);
    auto letters = mail_.receive(data_of(buffer), bytes_of(buffer), from, Tag::Message);
    return std::make_unique<Posted>(mail_, std::move(buffer), std::move(letters));
  }

 private:
  struct Part {
    std::byte* data;
    std::size_t bytes;
    int peer;
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  void require_pieces(const at::Tensor& whole, const at::Tensor& part) const {
    if (whole.numel() == part.numel() * size() && whole.scalar_type() == part.scalar_type()) return;
    throw Error("whole buffer of " + std::to_string(whole.numel()) + " elements: wants " +
                std::to_string(size()) + " parts of " + std::to_string(part.numel()) +
                " in the same number format");
  }

  template <class Job>
  Pending queued(const std::vector<at::Tensor>& tensors, Job job) {
    for (const at::Tensor& tensor : tensors) require_host_memory(tensor);
    return std::make_unique<Queued>(worker_.then(std::move(job)));
  }

  // Sends sent(peer) to, and receives received(peer) from, every other rank; all at once, beginning
  // with the next one.
  template <class Sent, class Received>
  void exchange(const Sent& sent, const Received& received) {
    std::vector<Mail::Letter> letters;
    const auto add = [&](std::vector<Mail::Letter> posted) {
      letters.insert(letters.end(), posted.begin(), posted.end());
    };
    for (int step = 1; step < size(); ++step) {
      const Part part = received((rank() - step + size()) % size());
      add(mail_.receive(part.data, part.bytes, part.peer, Tag::Collective));
    }
    for (int step = 1; step < size(); ++step) {
      const Part part = sent((rank() + step) % size());
      add(mail_.send(part.data, part.bytes, part.peer, Tag::Collective));
    }
    mail_.await(letters);
  }

  // The ranks' versions of this rank's piece, added in the order of the ranks.  `sum` may lie in
  // the buffer.
  void sum_own_piece(const EqualPieces& pieces, at::ScalarType type, Reduction reduction,
                     std::byte* sum) {
    const std::size_t bytes = pieces.bytes(rank());
    if (scratch_.size() < bytes * index(size())) scratch_.resize(bytes * index(size()));
    const auto slot = [&](int peer) { return scratch_.data() + bytes * index(peer); };
    exchange(
        [&](int peer) {
          return Part{pieces.begin(peer), pieces.bytes(peer), peer};
        },
        [&](int peer) {
          return Part{slot(peer), bytes, peer};
        });
    std::copy_n(pieces.begin(rank()), bytes, slot(rank()));  // of nothing where the buffer is short
    for (int peer = 1; peer < size(); ++peer)
      accumulate(type, slot(0), slot(peer), bytes, reduction);
    std::copy_n(slot(0), bytes, sum);
  }

  // Every rank's own piece to every other.
  void spread(const EqualPieces& pieces) {
    exchange(
        [&](int peer) {
          return Part{pieces.begin(rank()), pieces.bytes(rank()), peer};
        },
        [&](int peer) {
          return Part{pieces.begin(peer), pieces.bytes(peer), peer};
        });
  }

  // Ranks counted from the root: in round r, 2^r ranks have it, and each sends it 2^r further.
  void broadcast_tree(const at::Tensor& buffer, int root) {
    const int own = (rank() - root + size()) % size();
    const auto at = [&](int place) { return (place + root) % size(); };
    std::vector<Mail::Letter> sent;
    for (int reach = 1; reach < size(); reach *= 2) {
      if (own >= reach && own < 2 * reach) {
        mail_.await(
            mail_.receive(data_of(buffer), bytes_of(buffer), at(own - reach), Tag::Collective));
      } else if (own < reach && own + reach < size()) {
        for (auto& letter :
             mail_.send(data_of(buffer), bytes_of(buffer), at(own + reach), Tag::Collective))
          sent.push_back(letter);
      }
    }
    mail_.await(sent);
  }

  Mail mail_;
  std::vector<std::byte> scratch_;  // of the worker
  OrderedWorker worker_;            // last: its thread uses what stands above
};

}  // namespace

std::unique_ptr<Communicator> gloo_communicator(std::shared_ptr<RollCall> roll_call,
                                                const GroupMembers& members,
                                                const GlooOptions& options) {
  auto group = std::make_unique<GlooCommunicator>(std::move(roll_call), members, options);
  // A member is connected when its own pairs are.  One that then went its way, and was done, would
  // close them under others that still connect.
  group->barrier();
  return group;
}

}  // namespace llmsim::runtime

#else

namespace llmsim::runtime {

std::unique_ptr<Communicator> gloo_communicator(std::shared_ptr<RollCall>, const GroupMembers&,
                                                const GlooOptions&) {
  throw Error(
      "this libtorch came without Gloo's headers, so ranks on CPUs cannot be connected: GPUs can "
      "(NCCL), and so can a libtorch of a distribution's package");
}

}  // namespace llmsim::runtime

#endif
