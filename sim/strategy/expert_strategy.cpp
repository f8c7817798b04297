#include "sim/strategy/expert_strategy.h"

namespace llmsim::sim {
namespace {

constexpr Named<ExpertDispatch> kDispatches[] = {{ExpertDispatch::AllToAll, "alltoall"},
                                                 {ExpertDispatch::AllGather, "allgather"},
                                                 {ExpertDispatch::Deduplicated, "deepep"},
                                                 {ExpertDispatch::Deduplicated, "hybridep"},
                                                 {ExpertDispatch::Deduplicated, "flex"}};

}  // namespace

NameTable<ExpertDispatch> name_table(ExpertDispatch) { return kDispatches; }

}  // namespace llmsim::sim
