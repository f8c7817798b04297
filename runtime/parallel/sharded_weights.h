// Weights of which every rank holds a shard: a unit's are gathered before it computes and freed afterwards.
//
// While a unit computes, the gathers of the next ones are under way.  Memory: the shards; whole weights of the unit that computes
// and of those that are being gathered; under autocast the shard in the format of the products, until its gather has ended.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/kernels/adamw.h"
#include "runtime/model/number_formats.h"
#include "runtime/model/parameter_unit.h"
#include "runtime/parallel/communicator.h"

namespace llmsim::runtime {

class ShardedWeights {
 public:
  // `shards` none: one rank.  `on_host`: master weights and states live there.
  ShardedWeights(NumberFormats formats, bool on_host, Communicator* shards, int prefetch_units)
      : formats_(formats), on_host_(on_host), shards_(shards), prefetch_(static_cast<std::size_t>(prefetch_units)) {}

  // This rank's shard of the unit with its states, without a gradient.
  AdamWSlice adopt(ParameterUnit& unit);

  void begin_pass(const std::vector<ParameterUnit*>& units) { pass_ = units; }
  void lend(ParameterUnit& unit);
  static void take_back(ParameterUnit& unit) { unit.weights.reset(); }

 private:
  struct Held {
    ParameterUnit* unit = nullptr;
    at::Tensor shard;
    at::Tensor sent;   // while it is gathered
    at::Tensor whole;  // the same
    std::unique_ptr<PendingCollective> gather;
  };
  Held& held(const ParameterUnit& unit);
  void start(Held& held) const;

  NumberFormats formats_;
  bool on_host_;
  Communicator* shards_;
  std::size_t prefetch_;
  std::vector<Held> held_;
  std::vector<ParameterUnit*> pass_;
};

}  // namespace llmsim::runtime
