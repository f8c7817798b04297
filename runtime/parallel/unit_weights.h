// Where the weights of units are between their passes, and how a unit has whole ones for the time
// of a pass.
#pragma once

#include <memory>
#include <vector>

#include "runtime/kernels/adamw.h"
#include "runtime/model/parameter_unit.h"
#include "runtime/parallel/communicator.h"
#include "runtime/parallel/data_parallel.h"

namespace llmsim::runtime {

class UnitWeights {
 public:
  virtual ~UnitWeights() = default;

  // Takes over a unit with whole weights in fp32; gives what this rank updates of it, with states
  // and without a gradient.
  virtual AdamWSlice adopt(ParameterUnit& unit) = 0;

  virtual void begin_pass(const std::vector<ParameterUnit*>& units) = 0;
  virtual void provide(ParameterUnit& unit) = 0;
  virtual void after_forward(ParameterUnit& unit) = 0;
  virtual void take_back(ParameterUnit& unit) = 0;
  // This rank's pieces have been updated.
  virtual void updated() = 0;
};

// Weights that every rank holds whole.  `shards`: the ranks that divide the update, which gather
// every rank's piece afterwards, in place, in the format of storage; none: each does it all.
// `on_host`: master weights and states live there.
//
// Under autocast a unit computes with a copy in the format of the GEMMs, made
// for each of its passes.
std::unique_ptr<UnitWeights> whole_weights(NumberFormats formats, bool on_host,
                                           Communicator* shards);

// Weights of which every rank of `shards` holds a shard: a unit's are gathered before it computes
// and freed afterwards.  None: one rank.
//
// While a unit computes, the gathers of the next ones are under way.  Memory: the shards; whole
// weights of the unit that computes and of those that are being gathered; under autocast the shard
// in the format of the GEMMs, until its gather has ended.
std::unique_ptr<UnitWeights> sharded_weights(NumberFormats formats,
                                             const ExchangeBehaviour& behaviour,
                                             Communicator* shards);

}  // namespace llmsim::runtime
