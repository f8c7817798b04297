// Gradients of which every rank keeps a shard: a unit's whole gradients live from the beginning of
// its backward pass until their sum has reached the owners of its shards.
//
// One reduction is under way while the next unit's backward pass runs; under Hsdp the sum over the
// replicas follows it.  What a shard holds from earlier micro-batches goes into the next whole
// gradients, so that a reduction replaces it.
// Memory: the shards; whole gradients of two units.
#pragma once

#include <memory>
#include <vector>

#include "runtime/model/parameter_unit.h"
#include "runtime/parallel/communicator.h"

namespace llmsim::runtime {

class ShardedGradients {
 public:
  // `every_micro_batch`: false keeps whole gradients from the first micro-batch to the last.
  // Groups of one rank are none.
  ShardedGradients(c10::ScalarType type, Communicator* shards, Communicator* replicas,
                   bool every_micro_batch)
      : type_(type), shards_(shards), replicas_(replicas), every_micro_batch_(every_micro_batch) {}

  // The shard of the unit's gradients, on the device of `like`.
  at::Tensor adopt(ParameterUnit& unit, const at::Tensor& like);

  void provide(ParameterUnit& unit);
  void send(ParameterUnit& unit, bool last);
  void finish();      // waits for what is under way
  void begin_step();  // what the shards hold is of the past

 private:
  struct Held {
    ParameterUnit* unit = nullptr;
    at::Tensor shard;
    bool holds_sum = false;  // of earlier micro-batches
  };
  Held& held(const ParameterUnit& unit);
  bool carries_sums() const { return replicas_ == nullptr || replicas_->rank() == 0; }
  void advance();

  c10::ScalarType type_;
  Communicator* shards_;
  Communicator* replicas_;
  bool every_micro_batch_;
  std::vector<Held> held_;

  // Under way: a unit's reduction, and before it another's sum over the replicas.
  std::unique_ptr<PendingCollective> scatter_, replicate_;
  at::Tensor scattered_whole_, scattered_shard_;
};

}  // namespace llmsim::runtime
