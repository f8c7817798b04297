#include "runtime/parallel/unit_weights.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <ATen/ATen.h>

#include "runtime/parallel/shard.h"

namespace llmsim::runtime {
namespace {

class WholeWeights : public UnitWeights {
 public:
  WholeWeights(NumberFormats formats, bool on_host, Communicator* shards)
      : formats_(formats), on_host_(on_host), shards_(shards) {}

  AdamWSlice adopt(ParameterUnit& unit) override {
    const at::Tensor full = std::move(unit.weights);
    Held held{.unit = &unit,
              .weights = formats_.has_master() ? full.to(formats_.weights) : full,
              .gather = nullptr};
    AdamWSlice slice = with_states(own_shard(full, shards_), on_host_);
    if (slice.on_host || formats_.has_master()) slice.weight = own_shard(held.weights, shards_);
    if (!slice.on_host && formats_.has_master() && shards_ != nullptr)
      slice.master = slice.master.clone();
    if (!formats_.casts_weights()) unit.weights = held.weights;
    held_.push_back(std::move(held));
    return slice;
  }

  void begin_pass(const std::vector<ParameterUnit*>&) override {}

  void provide(ParameterUnit& unit) override {
    Held& held = *std::find_if(held_.begin(), held_.end(),
                               [&](const Held& one) { return one.unit == &unit; });
    if (held.gather) held.gather->wait();
    held.gather.reset();
    if (formats_.casts_weights()) unit.weights = held.weights.to(formats_.compute);
  }

  void after_forward(ParameterUnit& unit) override { take_back(unit); }

  void take_back(ParameterUnit& unit) override {
    if (formats_.casts_weights()) unit.weights.reset();
  }

  void updated() override {
    if (shards_ == nullptr) return;
    for (Held& held : held_)
      held.gather = shards_->start_all_gather(held.weights, own_shard(held.weights, shards_));
  }

 private:
  struct Held {
    ParameterUnit* unit = nullptr;
    at::Tensor weights;
    std::unique_ptr<PendingCollective> gather;
  };

  NumberFormats formats_;
  bool on_host_;
  Communicator* shards_;
  std::vector<Held> held_;
};

class ShardedWeights : public UnitWeights {
 public:
  ShardedWeights(NumberFormats formats, const ExchangeBehaviour& behaviour, Communicator* shards)
      : formats_(formats), behaviour_(behaviour), shards_(shards) {}

  AdamWSlice adopt(ParameterUnit& unit) override {
    const at::Tensor shard = own_shard(std::exchange(unit.weights, {}), shards_).clone();
    AdamWSlice slice = with_states(shard, behaviour_.states_on_host);
    if (slice.on_host || formats_.has_master()) slice.weight = shard.to(formats_.weights);
    held_.push_back({.unit = &unit,
                     .shard = slice.weight.defined() ? slice.weight : slice.master,
                     .sent = {},
                     .whole = {},
                     .gather = nullptr});
    return slice;
  }

  void begin_pass(const std::vector<ParameterUnit*>& units) override { pass_ = units; }

  void provide(ParameterUnit& unit) override {
    Held& own = held(unit);
    start(own);
    if (own.gather) own.gather->wait();
    own.gather.reset(), own.sent.reset();
    if (own.whole.defined()) unit.weights = std::exchange(own.whole, {});
    const auto here = std::find(pass_.begin(), pass_.end(), &unit) - pass_.begin();
    const auto ahead =
        std::min<std::ptrdiff_t>(std::ssize(pass_), here + behaviour_.prefetch_units + 1);
    for (auto next = here + 1; next < ahead; ++next)
      start(held(*pass_[static_cast<std::size_t>(next)]));
  }

  void after_forward(ParameterUnit& unit) override {
    if (behaviour_.regathers_in_backward) take_back(unit);
  }
  void take_back(ParameterUnit& unit) override { unit.weights.reset(); }
  void updated() override {}

 private:
  struct Held {
    ParameterUnit* unit = nullptr;
    at::Tensor shard;
    at::Tensor sent;   // while it is gathered
    at::Tensor whole;  // the same
    std::unique_ptr<PendingCollective> gather;
  };

  Held& held(const ParameterUnit& unit) {
    return *std::find_if(held_.begin(), held_.end(),
                         [&](const Held& one) { return one.unit == &unit; });
  }

  void start(Held& held) const {
    if (held.whole.defined() || held.unit->weights.defined()) return;
    held.sent = formats_.casts_weights() ? held.shard.to(formats_.compute) : held.shard;
    held.whole = at::empty({held.unit->numel()}, held.sent.options());
    if (shards_ != nullptr)
      held.gather = shards_->start_all_gather(held.whole, held.sent);
    else
      held.whole.copy_(held.sent);
  }

  NumberFormats formats_;
  ExchangeBehaviour behaviour_;
  Communicator* shards_;
  std::vector<Held> held_;
  std::vector<ParameterUnit*> pass_;
};

}  // namespace

std::unique_ptr<UnitWeights> whole_weights(NumberFormats formats, bool on_host,
                                           Communicator* shards) {
  return std::make_unique<WholeWeights>(formats, on_host, shards);
}

std::unique_ptr<UnitWeights> sharded_weights(NumberFormats formats,
                                             const ExchangeBehaviour& behaviour,
                                             Communicator* shards) {
  return std::make_unique<ShardedWeights>(formats, behaviour, shards);
}

}  // namespace llmsim::runtime
