#include "runtime/parallel/nccl_communicator.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "runtime/parallel/launch_lane.h"
#include "runtime/parallel/nccl_library.h"
#include "sim/base/error.h"

namespace llmsim::runtime {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// ncclDataType_t.
int type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kChar: return 0;
    case at::kByte: return 1;
    case at::kInt: return 2;
    case at::kLong: return 4;
    case at::kHalf: return 6;
    case at::kFloat: return 7;
    case at::kDouble: return 8;
    case at::kBFloat16: return 9;
    default:
      throw Error(std::string("tensor of ") + c10::toString(tensor.scalar_type()) +
                  ": NCCL has no such number format");
  }
}

// NcclRedOp_t.
int operation_of(Reduction reduction) { return reduction == Reduction::Sum ? 0 : 2; }

std::size_t count_of(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

void check(int result) { check_nccl(nccl_library(), result); }

template <class Stream>
NcclStream handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
    throw Error(
        "this libtorch gives no handle of its streams (c10::Stream::native_handle), which NCCL "
        "wants: use a newer one");
  }
}

c10::impl::VirtualGuardImpl device_guard() {
  if (!c10::impl::hasDeviceGuardImpl(at::kCUDA))
    throw Error("this libtorch has no CUDA or ROCm device: use Gloo");
  return c10::impl::VirtualGuardImpl(at::kCUDA);
}

// Ranks that launch operations in the same order.  `name` is the same on all of them, and no other
// lane's.
class Lane {
 public:
  using Operation = std::function<int(NcclComm, NcclStream)>;

  Lane(std::shared_ptr<RollCall> roll_call, GroupMembers members, std::string name,
       at::Device device, milliseconds timeout)
      : roll_call_(std::move(roll_call)),
        members_(std::move(members)),
        name_(std::move(name)),
        timeout_(timeout),
        stream_(device_guard().getStreamFromGlobalPool(device, true)) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  ~Lane() {
    launches_.launch([] {}).wait();
    ended_ = true;
    watcher_.join();
    if (comm_ != nullptr && !failed_) nccl_library().comm_destroy(comm_);
  }

  struct Launched {
    std::future<void> issued;
    std::shared_ptr<c10::Event> done;
  };

  // Behind what the caller's stream holds.
  Launched launch(Operation operation) {
    const auto ready = std::make_shared<c10::Event>(at::kCUDA),
               done = std::make_shared<c10::Event>(at::kCUDA);
    ready->record(device_guard().getStream(stream_.device()));
    auto issued = launches_.launch([this, ready, done, operation = std::move(operation)] {
      throw_if_failed();
      device_guard().setDevice(stream_.device());
      ready->block(stream_);
      settle_nccl(
          nccl_library(), operation(comm_, handle_of(stream_)), [this] { return state(); },
          "the launch of a collective", timeout_);
      done->record(stream_);
      const std::lock_guard lock(mutex_);
      under_way_.push_back({done, Clock::now() + timeout_});
    });
    return {std::move(issued), done};
  }

  // Makes the caller's stream wait.
  void order(Launched& launched) {
    launched.issued.get();
    throw_if_failed();
    launched.done->block(device_guard().getStream(stream_.device()));
  }

  void abandon() { fail("rank " + std::to_string(roll_call_->rank()) + " has given up"); }

  // Makes the host wait for all that was launched.
  void drain() {
    launches_.launch([] {}).get();
    while (!idle()) std::this_thread::sleep_for(100us);
    throw_if_failed();
  }

 private:
  struct UnderWay {
    std::shared_ptr<c10::Event> done;
    Clock::time_point deadline;
  };

  void connect() {
    device_guard().setDevice(stream_.device());
    NcclUniqueId id;
    KeyStore store = roll_call_->store();
    if (members_.place == 0) {
      check(nccl_library().get_unique_id(&id));
      store.set(name_ + "/id", std::string(id.bytes.begin(), id.bytes.end()));
    } else {
      const auto text = store.await(name_ + "/id", timeout_);
      if (!text) throw Error(no_answer({members_.ranks[0]}));
      std::copy_n(text->begin(), std::min(text->size(), id.bytes.size()), id.bytes.begin());
    }
    const NcclPlace place{
        .ranks = static_cast<int>(members_.ranks.size()), .rank = members_.place, .id = id};
    NcclComm comm = connect_nccl(nccl_library(), place, timeout_, [this] { throw_if_failed(); });
    const std::lock_guard lock(asking_);
    comm_ = comm;
  }

  // Asked while nobody ends the communicator.
  int state() {
    const std::lock_guard lock(asking_);
    throw_if_failed();
    return state_of(nccl_library(), comm_);
  }

  // In NCCL's words; null: nothing, or there is none to ask.
  const char* broken() {
    const std::lock_guard lock(asking_);
    if (comm_ == nullptr || failed_) return nullptr;
    return failure_of(nccl_library(), state_of(nccl_library(), comm_));
  }

  bool idle() {
    const std::lock_guard lock(mutex_);
    while (!under_way_.empty() && under_way_.front().done->query()) under_way_.pop_front();
    return under_way_.empty() || failed_;
  }

  bool overdue() {
    const std::lock_guard lock(mutex_);
    return !under_way_.empty() && Clock::now() > under_way_.front().deadline;
  }

  void watch() {
    // Else its questions make a context on the first device.
    device_guard().setDevice(stream_.device());
    while (!ended_ || !idle()) {
      std::this_thread::sleep_for(20ms);
      if (idle()) continue;
      const char* const lost = broken();
      if (lost == nullptr && !overdue() && !others_gave_up()) continue;
      fail(lost != nullptr ? "rank " + std::to_string(roll_call_->rank()) + ": NCCL: " + lost
                           : no_answer(others()));
    }
  }

  std::vector<int> others() const {
    std::vector<int> others = members_.ranks;
    others.erase(others.begin() + members_.place);
    return others;
  }

  void fail(const std::string& why) {
    const std::lock_guard lock(failing_);
    if (failed_) return;
    failure_ = why;
    stop();
  }

  void stop() {
    failed_ = true;
    const std::lock_guard lock(asking_);
    if (comm_ != nullptr) nccl_library().comm_abort(comm_);
  }

  // A kernel that waits for another rank does not see that it has left: the roll call is asked now
  // and then.
  bool others_gave_up() {
    if (Clock::now() < next_question_) return false;
    next_question_ = Clock::now() + 1s;
    return !roll_call_->gave_up().empty();
  }

  std::string no_answer(const std::vector<int>& missing) {
    const auto culprits =
        roll_call_->culprits(missing, std::clamp<milliseconds>(timeout_ / 4, 500ms, 5s));
    return "rank " + std::to_string(roll_call_->rank()) + ": no answer from " +
           roll_call_->names(culprits) + " within " + std::to_string(timeout_.count() / 1000) +
           " s";
  }

  void throw_if_failed() const {
    if (failed_) throw Error(failure_);
  }

  std::shared_ptr<RollCall> roll_call_;
  GroupMembers members_;
  std::string name_;
  milliseconds timeout_;
  c10::Stream stream_;
  NcclComm comm_ = nullptr;  // of the connecting thread, then of the launching one
  std::mutex asking_;        // of comm_ while it is asked or ended
  std::mutex mutex_;
  std::mutex failing_;
  Clock::time_point next_question_ = Clock::now() + 1s;  // of the watcher
  std::deque<UnderWay> under_way_;
  std::string failure_;  // written before failed_
  std::atomic<bool> failed_ = false;
  std::atomic<bool> ended_ = false;
  LaunchLane launches_{[this] { connect(); }};
  std::thread watcher_{[this] { watch(); }};
};

class Launched : public PendingCollective {
 public:
  Launched(Lane& lane, std::vector<at::Tensor> tensors, Lane::Launched launched)
      : lane_(lane), tensors_(std::move(tensors)), launched_(std::move(launched)) {}
  void wait() override { lane_.order(launched_); }

 private:
  Lane& lane_;
  std::vector<at::Tensor> tensors_;
  Lane::Launched launched_;
};

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<RollCall> roll_call, const GroupMembers& members,
                   milliseconds timeout)
      : roll_call_(std::move(roll_call)),
        members_(members),
        name_(roll_call_->group_name(members.ranks)),
        timeout_(timeout),
        device_(device_guard().getDevice()) {
    nccl_library();
    roll_call_->meet(name_, members.ranks, timeout);
    collectives_ = std::make_unique<Lane>(roll_call_, members_, name_, device_, timeout);
  }

  int rank() const override { return members_.place; }
  int size() const override { return static_cast<int>(members_.ranks.size()); }

  void abandon() override {
    collectives_->abandon();
    const std::lock_guard lock(mutex_);
    for (const auto& [ranks, lane] : directions_) lane->abandon();
  }

  void barrier() override {
    collectives_->drain();
    roll_call_->meet(name_ + "/barrier" + std::to_string(barriers_++), members_.ranks, timeout_);
  }

 protected:
  Pending do_all_reduce(at::Tensor buffer, Reduction reduction) override {
    return launched({buffer}, [=](NcclComm comm, NcclStream stream) {
      return nccl_library().all_reduce(buffer.data_ptr(), buffer.data_ptr(), count_of(buffer),
                                       type_of(buffer), operation_of(reduction), comm, stream);
    });
  }
  Pending do_all_gather(at::Tensor whole, at::Tensor part) override {
    return launched({whole, part}, [=](NcclComm comm, NcclStream stream) {
      return nccl_library().all_gather(part.data_ptr(), whole.data_ptr(), count_of(part),
                                       type_of(part), comm, stream);
    });
  }
  Pending do_reduce_scatter(at::Tensor part, at::Tensor whole) override {
    return launched({part, whole}, [=](NcclComm comm, NcclStream stream) {
      return nccl_library().reduce_scatter(whole.data_ptr(), part.data_ptr(), count_of(part),
                                           type_of(part), operation_of(Reduction::Sum), comm,
                                           stream);
    });
  }
  Pending do_broadcast(at::Tensor buffer, int root) override {
    return launched({buffer}, [=](NcclComm comm, NcclStream stream) {
      return nccl_library().broadcast(buffer.data_ptr(), buffer.data_ptr(), count_of(buffer),
                                      type_of(buffer), root, comm, stream);
    });
  }

  Pending do_all_to_all(Pieces pieces) override {
    std::vector<at::Tensor> all = pieces.received;
    all.insert(all.end(), pieces.sent.begin(), pieces.sent.end());
    return launched(all, [=](NcclComm comm, NcclStream stream) {
      const NcclLibrary& nccl = nccl_library();
      check(nccl.group_start());
      for (std::size_t peer = 0; peer < pieces.sent.size(); ++peer) {
        const at::Tensor &out = pieces.sent[peer], &in = pieces.received[peer];
        const int to = static_cast<int>(peer);
        if (out.numel() > 0)
          check(nccl.send(out.data_ptr(), count_of(out), type_of(out), to, comm, stream));
        if (in.numel() > 0)
          check(nccl.receive(in.data_ptr(), count_of(in), type_of(in), to, comm, stream));
      }
      return nccl.group_end();
    });
  }

  Pending do_send(at::Tensor buffer, int to) override {
    Lane& lane = direction(rank(), to);
    return launched_on(lane, {buffer}, [=](NcclComm comm, NcclStream stream) {
      return nccl_library().send(buffer.data_ptr(), count_of(buffer), type_of(buffer), 1, comm,
                                 stream);
    });
  }
  Pending do_receive(at::Tensor buffer, int from) override {
    Lane& lane = direction(from, rank());
    return launched_on(lane, {buffer}, [=](NcclComm comm, NcclStream stream) {
      return nccl_library().receive(buffer.data_ptr(), count_of(buffer), type_of(buffer), 0, comm,
                                    stream);
    });
  }

 private:
  Pending launched(std::vector<at::Tensor> tensors, Lane::Operation operation) {
    return launched_on(*collectives_, std::move(tensors), std::move(operation));
  }
  static Pending launched_on(Lane& lane, std::vector<at::Tensor> tensors,
                             Lane::Operation operation) {
    auto launched = lane.launch(std::move(operation));
    return std::make_unique<Launched>(lane, std::move(tensors), std::move(launched));
  }

  // The lane of messages from one rank (place 0 in it) to another (place 1).
  Lane& direction(int from, int to) {
    const std::lock_guard lock(mutex_);
    auto& lane = directions_[{from, to}];
    if (!lane) {
      const GroupMembers pair{.ranks = {members_.ranks[static_cast<std::size_t>(from)],
                                        members_.ranks[static_cast<std::size_t>(to)]},
                              .place = rank() == from ? 0 : 1};
      lane = std::make_unique<Lane>(roll_call_, pair,
                                    name_ + "/" + std::to_string(from) + "to" + std::to_string(to),
                                    device_, timeout_);
    }
    return *lane;
  }

  std::shared_ptr<RollCall> roll_call_;
  GroupMembers members_;
  std::string name_;
  milliseconds timeout_;
  at::Device device_;
  std::unique_ptr<Lane> collectives_;
  std::mutex mutex_;  // of directions_: a stage sends from one thread and receives on another
  std::map<std::pair<int, int>, std::unique_ptr<Lane>> directions_;
  int barriers_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> nccl_communicator(std::shared_ptr<RollCall> roll_call,
                                                const GroupMembers& members, milliseconds timeout) {
  return std::make_unique<NcclCommunicator>(std::move(roll_call), members, timeout);
}

}  // namespace llmsim::runtime
