// Copies of weights and gradients inside a device, in bytes of memory traffic per parameter on a rank.
//
//   accumulation   3 g            read the sum and the new gradient, write the sum; not for the first micro-batch of a step, and
//                                 not where the GEMMs add into the sum themselves; on the shard where gradients are sharded
//   reduction      2 g copies     into and out of buckets and flat buffers
//   gather         2 w copies     out of the flat buffer that was gathered
//
// g and w are the bytes of a gradient and of a weight as they travel, the copies those of the framework.
#pragma once

#include "sim/run.h"
#include "sim/schedule/data_exchange.h"

namespace llmsim::sim {

// Of one micro-batch, averaged over a step.
double accumulation_bytes(const Run& run, const DataExchange& exchange);

// Of one data-parallel reduction; 0 on a single rank.
double reduction_copy_bytes(const Run& run, const DataExchange& exchange);

// Of one gather of sharded weights; 0 on a single rank.
double gather_copy_bytes(const Run& run, const DataExchange& exchange);

}  // namespace llmsim::sim
