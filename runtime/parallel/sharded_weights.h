// Weights of which every rank holds a shard: a unit's are gathered before it computes and freed afterwards.
//
// While a unit computes, the gathers of the next ones are under way.  Memory: the shards; whole weights of the unit that computes
// and of those that are being gathered; under autocast the shard in the format of the GEMMs, until its gather has ended.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/kernels/adamw.h"
#include "runtime/model/number_formats.h"
#include "runtime/model/parameter_unit.h"
#include "runtime/parallel/communicator.h"
#include "runtime/parallel/data_parallel.h"
#include "runtime/parallel/unit_weights.h"

namespace llmsim::runtime {

class ShardedWeights : public UnitWeights {
 public:
  // `shards` none: one rank.
  ShardedWeights(NumberFormats formats, const ExchangeHabits& habits, Communicator* shards)
      : formats_(formats),
        on_host_(habits.states_on_host),
        frees_after_forward_(habits.regathers_in_backward),
        shards_(shards),
        prefetch_(static_cast<std::size_t>(habits.prefetch_units)) {}

  AdamWSlice adopt(ParameterUnit& unit) override;
  void begin_pass(const std::vector<ParameterUnit*>& units) override { pass_ = units; }
  void lend(ParameterUnit& unit) override;
  void after_forward(ParameterUnit& unit) override {
    if (frees_after_forward_) take_back(unit);
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
  Held& held(const ParameterUnit& unit);
  void start(Held& held) const;

  NumberFormats formats_;
  bool on_host_;
  bool frees_after_forward_;
  Communicator* shards_;
  std::size_t prefetch_;
  std::vector<Held> held_;
  std::vector<ParameterUnit*> pass_;
};

}  // namespace llmsim::runtime
