// The form of data parallelism that a strategy asks for.
#pragma once

#include <memory>

#include "runtime/model/number_formats.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/rank_groups.h"
#include "sim/strategy/strategy.h"

namespace llmsim::runtime {

// `groups` must outlive it.  Where states live is the strategy's word, not the habits'.
std::unique_ptr<DataParallel> data_parallel_form(const sim::Strategy& strategy, NumberFormats formats, ExchangeHabits habits,
                                                 const RankGroups& groups);

}  // namespace llmsim::runtime
