#include "runtime/parallel/sharding.h"

#include "runtime/parallel/expert_data_parallel.h"
#include "runtime/parallel/replicated.h"
#include "runtime/parallel/sharded_weights.h"
#include "runtime/parallel/whole_weights.h"
#include "runtime/parallel/zero1.h"
#include "runtime/parallel/zero2_zero3.h"

namespace llmsim::runtime {
namespace {

std::unique_ptr<DataParallel> zero2(NumberFormats formats, const ExchangeHabits& habits, Communicator* shards) {
  return std::make_unique<Zero2Zero3>(shards, std::make_unique<WholeWeights>(formats, habits.states_on_host, shards),
                                      ShardedGradients(formats.gradients, shards, nullptr, habits.every_micro_batch));
}

// Weights are gathered for every micro-batch, and gradients reduced after it.
std::unique_ptr<DataParallel> zero3(NumberFormats formats, const ExchangeHabits& habits, Communicator* shards,
                                    Communicator* replicas) {
  return std::make_unique<Zero2Zero3>(shards, std::make_unique<ShardedWeights>(formats, habits, shards),
                                      ShardedGradients(formats.gradients, shards, replicas, true));
}

}  // namespace

namespace {

// Over the ranks of one group; Hsdp over those that share a shard group, and its replicas.
std::unique_ptr<DataParallel> form_over(Communicator* data, const sim::Strategy& strategy, NumberFormats formats,
                                        const ExchangeHabits& habits, const RankGroups& groups) {
  switch (strategy.sharding) {
    case sim::Sharding::None: return std::make_unique<Replicated>(formats, habits, data);
    case sim::Sharding::Zero1: return std::make_unique<Zero1>(formats, habits, data);
    case sim::Sharding::Zero2: return zero2(formats, habits, data);
    case sim::Sharding::Zero3: return zero3(formats, habits, data, nullptr);
    case sim::Sharding::Hsdp:
      return zero3(formats, habits, groups.of(sim::GroupKind::Shard), groups.of(sim::GroupKind::Replicate));
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<DataParallel> data_parallel_form(const sim::Strategy& strategy, NumberFormats formats, ExchangeHabits habits,
                                                 const RankGroups& groups) {
  habits.states_on_host = strategy.offload.optimizer;
  const auto form = [&](sim::GroupKind kind) { return form_over(groups.of(kind), strategy, formats, habits, groups); };
  if (!strategy.experts_apart()) return form(sim::GroupKind::Data);
  return std::make_unique<ExpertDataParallel>(form(sim::GroupKind::Data), form(sim::GroupKind::ExpertData));
}

}  // namespace llmsim::runtime
