// Weights that every rank holds whole, whoever updates them.
//
// Under autocast a unit computes with a copy in the format of the GEMMs, made for each of its passes.
#pragma once

#include <memory>
#include <vector>

#include "runtime/kernels/adamw.h"
#include "runtime/model/number_formats.h"
#include "runtime/model/parameter_unit.h"
#include "runtime/parallel/communicator.h"
#include "runtime/parallel/unit_weights.h"

namespace llmsim::runtime {

class WholeWeights : public UnitWeights {
 public:
  // `shards`: the ranks that divide the update; none: each does it all.
  // `on_host`: master weights and states live there.
  WholeWeights(NumberFormats formats, bool on_host, Communicator* shards)
      : formats_(formats), on_host_(on_host), shards_(shards) {}

  AdamWSlice adopt(ParameterUnit& unit) override;
  void begin_pass(const std::vector<ParameterUnit*>&) override {}
  void lend(ParameterUnit& unit) override;
  void after_forward(ParameterUnit& unit) override { take_back(unit); }
  void take_back(ParameterUnit& unit) override;
  // Starts to gather every rank's piece, in place, in the format of storage; lend() waits for it.
  void updated() override;

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

}  // namespace llmsim::runtime
