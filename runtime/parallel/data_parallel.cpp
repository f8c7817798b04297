#include "runtime/parallel/data_parallel.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <ATen/ATen.h>

#include "runtime/parallel/shard.h"
#include "runtime/parallel/sharded_gradients.h"
#include "runtime/parallel/unit_weights.h"

namespace llmsim::runtime {
namespace {

using Units = std::vector<ParameterUnit*>;
using Slices = std::vector<GradientSlice>;

// What all forms of one group do with weights and states.  Groups of one rank are none.
class OneGroup : public DataParallel {
 public:
  OneGroup(NumberFormats formats, ExchangeBehaviour behaviour, Communicator* group,
           std::unique_ptr<UnitWeights> weights)
      : formats_(formats), behaviour_(behaviour), group_(group), weights_(std::move(weights)) {}

  void before_forward(ParameterUnit& unit) override { weights_->provide(unit); }
  void after_forward(ParameterUnit& unit) override { weights_->after_forward(unit); }
  void before_backward(ParameterUnit& unit) override { weights_->provide(unit); }
  void provide_gradients(ParameterUnit&) override {}
  Slices gradient_slices() const override { return optimizer_.gradients(); }
  Communicator* slice_group() const override { return group_; }

 protected:
  NumberFormats formats_;
  ExchangeBehaviour behaviour_;
  Communicator* group_;
  std::unique_ptr<UnitWeights> weights_;
  FlatOptimizer optimizer_;
};

// Every rank holds everything: one process alone, or DDP with one all-reduce for each bucket of
// gradients.
//
// The gradients of all units are one buffer in the order in which backward passes complete them
// (the last unit first), and a bucket is a piece of it: nothing is copied.  A bucket is sent when
// the last unit that has a part in it is done.
class Replicated : public OneGroup {
 public:
  Replicated(NumberFormats formats, ExchangeBehaviour behaviour, Communicator* group)
      : OneGroup(formats, behaviour, group,
                 whole_weights(formats, behaviour.states_on_host, nullptr)) {}

  void adopt(ParameterUnit& unit) override {
    held_.push_back({.unit = &unit, .slice = weights_->adopt(unit)});
  }

  void complete() override {
    std::int64_t size = 0;
    for (auto held = held_.rbegin(); held != held_.rend(); ++held) {
      held->begin = size;
      size += held->unit->numel();
    }
    gradients_ =
        at::zeros({size}, held_.front().slice.on_device().options().dtype(formats_.gradients));
    for (Held& held : held_) {
      held.unit->gradients = held.slice.gradient =
          gradients_.narrow(0, held.begin, held.unit->numel());
      optimizer_.add(*held.unit, 0, held.slice);
    }
    cut_buckets();
  }

  void begin_pass(const Units&) override {
    for (Bucket& bucket : buckets_) {
      if (!bucket.sum || !bucket.goes_on) continue;
      bucket.sum->wait();
      bucket.sum.reset();
      if (group_->rank() != 0) gradients_.narrow(0, bucket.begin, bucket.size).zero_();
    }
  }

  void after_backward(ParameterUnit& unit, bool last) override {
    weights_->take_back(unit);
    if (!last && !behaviour_.every_micro_batch) return;
    const Held& held = *std::find_if(held_.begin(), held_.end(),
                                     [&](const Held& one) { return one.unit == &unit; });
    const std::int64_t end = held.begin + unit.numel();
    for (Bucket& bucket : buckets_) {
      const std::int64_t shared =
          std::min(end, bucket.begin + bucket.size) - std::max(held.begin, bucket.begin);
      if (shared <= 0) continue;
      bucket.done += shared;
      if (bucket.done < bucket.size) continue;
      bucket.done = 0;
      bucket.goes_on = !last;
      bucket.sum = group_->start_all_reduce(gradients_.narrow(0, bucket.begin, bucket.size));
    }
  }

  void finish_gradients() override {
    for (Bucket& bucket : buckets_) {
      if (bucket.sum) bucket.sum->wait();
      bucket.sum.reset();
    }
  }

  Communicator* slice_group() const override { return nullptr; }
  void update(std::int64_t step, const AdamWOptions& options, double scale) override {
    optimizer_.step(step, options, scale);
  }

 private:
  struct Held {
    ParameterUnit* unit = nullptr;
    AdamWSlice slice;
    std::int64_t begin = 0;  // in the buffer
  };
  struct Bucket {
    std::int64_t begin = 0, size = 0;
    std::int64_t done = 0;  // elements whose backward pass has ended
    bool goes_on = false;   // later micro-batches add to the sum
    std::unique_ptr<PendingCollective> sum;
  };

  void cut_buckets() {
    if (group_ == nullptr) return;
    if (behaviour_.bucket == 0) {
      for (const Held& held : held_)
        buckets_.push_back({.begin = held.begin, .size = held.unit->numel(), .sum = nullptr});
      return;
    }
    const std::int64_t most =
        std::max<std::int64_t>(1, behaviour_.bucket / gradients_.element_size());
    for (std::int64_t begin = 0; begin < gradients_.numel(); begin += most) {
      buckets_.push_back(
          {.begin = begin, .size = std::min(most, gradients_.numel() - begin), .sum = nullptr});
    }
  }

  std::vector<Held> held_;
  at::Tensor gradients_;
  std::vector<Bucket> buckets_;
};

// Every rank holds all weights and gradients and updates a shard of them.
class Zero1 : public OneGroup {
 public:
  Zero1(NumberFormats formats, ExchangeBehaviour behaviour, Communicator* shards)
      : OneGroup(formats, behaviour, shards,
                 whole_weights(formats, behaviour.states_on_host, shards)) {}

  void adopt(ParameterUnit& unit) override {
    AdamWSlice slice = weights_->adopt(unit);
    unit.gradients =
        at::zeros({unit.numel()}, slice.on_device().options().dtype(formats_.gradients));
    slice.gradient = own_shard(unit.gradients, group_);
    gradients_.push_back(unit.gradients);
    optimizer_.add(unit, own_shard_begin(unit.numel(), group_), std::move(slice));
  }

  void begin_pass(const Units&) override {
    for (const Reduction& reduction : under_way_) {
      reduction.sum->wait();
      clear_others_shards(reduction.gradients, group_);
    }
    under_way_.clear();
  }

  void after_backward(ParameterUnit& unit, bool last) override {
    weights_->take_back(unit);
    if (group_ == nullptr || (!last && !behaviour_.every_micro_batch)) return;
    under_way_.push_back(
        {.gradients = unit.gradients,
         .sum = group_->start_reduce_scatter(own_shard(unit.gradients, group_), unit.gradients)});
  }

  void finish_gradients() override {
    for (const Reduction& reduction : under_way_) reduction.sum->wait();
    under_way_.clear();
  }

  void update(std::int64_t step, const AdamWOptions& options, double scale) override {
    optimizer_.step(step, options, scale);
    weights_->updated();
    for (const at::Tensor& gradients : gradients_) clear_others_shards(gradients, group_);
  }

 private:
  // Into this rank's own shard of the whole gradients.
  struct Reduction {
    at::Tensor gradients;
    std::unique_ptr<PendingCollective> sum;
  };

  std::vector<at::Tensor> gradients_;
  std::vector<Reduction> under_way_;
};

// Every rank holds a shard of gradients and states, and all weights (stage 2) or a shard of them
// (stage 3, FSDP).  Hsdp: stage 3 inside each of several replicas.
class Zero2Zero3 : public OneGroup {
 public:
  Zero2Zero3(NumberFormats formats, ExchangeBehaviour behaviour, Communicator* shards,
             Communicator* replicas, std::unique_ptr<UnitWeights> weights)
      : OneGroup(formats, behaviour, shards, std::move(weights)),
        gradients_(formats.gradients, shards, replicas, behaviour.every_micro_batch) {}

  void adopt(ParameterUnit& unit) override {
    AdamWSlice slice = weights_->adopt(unit);
    slice.gradient = gradients_.adopt(unit, slice.on_device());
    optimizer_.add(unit, own_shard_begin(unit.numel(), group_), std::move(slice));
  }

  void begin_pass(const Units& units) override {
    gradients_.finish();
    weights_->begin_pass(units);
  }

  void before_backward(ParameterUnit& unit) override {
    weights_->provide(unit);
    gradients_.provide(unit);
  }

  void after_backward(ParameterUnit& unit, bool last) override {
    weights_->take_back(unit);
    gradients_.send(unit, last);
  }

  void provide_gradients(ParameterUnit& unit) override { gradients_.provide(unit); }
  void finish_gradients() override { gradients_.finish(); }

  void update(std::int64_t step, const AdamWOptions& options, double scale) override {
    optimizer_.step(step, options, scale);
    weights_->updated();
    gradients_.begin_step();
  }

 private:
  ShardedGradients gradients_;
};

// Where routed experts are divided over expert ranks: their units are shared by the ranks that have
// the same experts, all others by all data ranks, each in the same form.
class ExpertDataParallel : public DataParallel {
 public:
  ExpertDataParallel(std::unique_ptr<DataParallel> shared, std::unique_ptr<DataParallel> experts)
      : shared_(std::move(shared)), experts_(std::move(experts)) {}

  void adopt(ParameterUnit& unit) override {
    has_experts_ = has_experts_ || is_of_experts(&unit);
    of(unit).adopt(unit);
  }

  void complete() override {
    shared_->complete();
    if (has_experts_) experts_->complete();
  }

  void begin_pass(const Units& units) override {
    Units shared, experts;
    std::partition_copy(units.begin(), units.end(), std::back_inserter(experts),
                        std::back_inserter(shared), is_of_experts);
    shared_->begin_pass(shared);
    if (has_experts_) experts_->begin_pass(experts);
  }

  void before_forward(ParameterUnit& unit) override { of(unit).before_forward(unit); }
  void after_forward(ParameterUnit& unit) override { of(unit).after_forward(unit); }
  void before_backward(ParameterUnit& unit) override { of(unit).before_backward(unit); }
  void after_backward(ParameterUnit& unit, bool last) override {
    of(unit).after_backward(unit, last);
  }
  void provide_gradients(ParameterUnit& unit) override { of(unit).provide_gradients(unit); }

  void finish_gradients() override {
    shared_->finish_gradients();
    if (has_experts_) experts_->finish_gradients();
  }

  Slices gradient_slices() const override {
    Slices all = shared_->gradient_slices();
    if (!has_experts_) return all;
    for (const GradientSlice& slice : experts_->gradient_slices()) all.push_back(slice);
    return all;
  }

  Communicator* slice_group() const override { return shared_->slice_group(); }

  void update(std::int64_t step, const AdamWOptions& options, double scale) override {
    shared_->update(step, options, scale);
    if (has_experts_) experts_->update(step, options, scale);
  }

 private:
  static bool is_of_experts(const ParameterUnit* unit) { return unit->shapes().front().of_experts; }
  DataParallel& of(const ParameterUnit& unit) {
    return is_of_experts(&unit) ? *experts_ : *shared_;
  }

  std::unique_ptr<DataParallel> shared_, experts_;
  bool has_experts_ = false;  // a pipeline stage may have none
};

// Weights are gathered for every micro-batch, and gradients reduced after it.
std::unique_ptr<DataParallel> zero3(NumberFormats formats, ExchangeBehaviour behaviour,
                                    Communicator* shards, Communicator* replicas) {
  behaviour.every_micro_batch = true;
  return std::make_unique<Zero2Zero3>(formats, behaviour, shards, replicas,
                                      sharded_weights(formats, behaviour, shards));
}

// Over the ranks of one group; Hsdp over those that share a shard group, and its replicas.
std::unique_ptr<DataParallel> form_over(Communicator* data, const sim::Strategy& strategy,
                                        NumberFormats formats, const ExchangeBehaviour& behaviour,
                                        const RankGroups& groups) {
  switch (strategy.sharding) {
    case sim::Sharding::None: return std::make_unique<Replicated>(formats, behaviour, data);
    case sim::Sharding::Zero1: return std::make_unique<Zero1>(formats, behaviour, data);
    case sim::Sharding::Zero2:
      return std::make_unique<Zero2Zero3>(formats, behaviour, data, nullptr,
                                          whole_weights(formats, behaviour.states_on_host, data));
    case sim::Sharding::Zero3: return zero3(formats, behaviour, data, nullptr);
    case sim::Sharding::Hsdp:
      return zero3(formats, behaviour, groups.of(sim::GroupKind::Shard),
                   groups.of(sim::GroupKind::Replicate));
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<DataParallel> data_parallel_form(const sim::Strategy& strategy,
                                                 NumberFormats formats, ExchangeBehaviour behaviour,
                                                 const RankGroups& groups) {
  behaviour.states_on_host = strategy.offload.optimizer;
  const auto form = [&](sim::GroupKind kind) {
    return form_over(groups.of(kind), strategy, formats, behaviour, groups);
  };
  if (!strategy.divides_experts()) return form(sim::GroupKind::Data);
  return std::make_unique<ExpertDataParallel>(form(sim::GroupKind::Data),
                                              form(sim::GroupKind::ExpertData));
}

}  // namespace llmsim::runtime
