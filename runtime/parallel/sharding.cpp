#include "runtime/parallel/sharding.h"

#include "runtime/parallel/fully_shard.h"
#include "runtime/parallel/replicated.h"
#include "runtime/parallel/zero1.h"
#include "runtime/parallel/zero2.h"

namespace llmsim::runtime {

std::unique_ptr<DataParallel> data_parallel_form(const sim::Strategy& strategy, NumberFormats formats, ExchangeHabits habits,
                                                 const RankGroups& groups) {
  habits.states_on_host = strategy.offload.optimizer;
  Communicator* const data = groups.of(sim::GroupKind::Data);
  switch (strategy.sharding) {
    case sim::Sharding::None: return std::make_unique<Replicated>(formats, habits, data);
    case sim::Sharding::Zero1: return std::make_unique<Zero1>(formats, habits, data);
    case sim::Sharding::Zero2: return std::make_unique<Zero2>(formats, habits, data);
    case sim::Sharding::Zero3: return std::make_unique<FullyShard>(formats, habits, data);
    case sim::Sharding::Hsdp:
      return std::make_unique<FullyShard>(formats, habits, groups.of(sim::GroupKind::Shard),
                                          groups.of(sim::GroupKind::Replicate));
  }
  return nullptr;
}

}  // namespace llmsim::runtime
