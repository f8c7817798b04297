// Weights that every rank holds whole, whoever updates them.
//
// Under autocast a unit computes with a copy in the format of the products, made for each of its passes.
#pragma once

#include <memory>
#include <vector>

#include "runtime/kernels/adamw.h"
#include "runtime/model/number_formats.h"
#include "runtime/model/parameter_unit.h"
#include "runtime/parallel/communicator.h"

namespace llmsim::runtime {

class WholeWeights {
 public:
  // `shards`: the ranks that divide the update; none: each does it all.
  // `on_host`: master weights and states live there.
  WholeWeights(NumberFormats formats, bool on_host, Communicator* shards)
      : formats_(formats), on_host_(on_host), shards_(shards) {}

  // The piece of the unit that this rank updates, with its states and without a gradient.
  AdamWSlice adopt(ParameterUnit& unit);

  void lend(ParameterUnit& unit);
  void take_back(ParameterUnit& unit) const;

  // After the update: every rank's piece, in place, in the format of storage.  lend() waits for it.
  void start_gather();

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
