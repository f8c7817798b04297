// What the runtime's forms of data parallelism hold around the passes of a step, to the byte (runtime/parallel/data_parallel.h).
//
// The same hooks in the same order, with sizes alone.  A unit of N parameters, padded to a multiple of the n ranks that share it;
// w, g, e bytes of a stored weight, a gradient and a weight in the GEMMs:
//
//   between steps  weights N w or N w / n, gradients N g or N g / n, master weights and states of N / n
//   whole weights  a copy of N e in another format while the unit computes; sharded: N e from the start of the gather until the
//                  pass that needs it ends, and N e / n while the gather is under way where the formats differ
//   gradients      sharded: N g from the unit's backward pass until the next unit's reduction begins
//   offload        master weights (4 bytes each) and states are on the host, and what an update there takes: the gradient, and
//                  what it takes elsewhere
//   update         per updated parameter 4 bytes for the denominator and 4 for a 16-bit gradient, of one unit (and
//                  4 more) or of all
#pragma once

#include <cstddef>
#include <vector>

#include "sim/memory/ledger.h"
#include "sim/memory/shards.h"
#include "sim/strategy/framework.h"
#include "sim/strategy/strategy.h"

namespace llmsim::sim {

class ParameterTape {
 public:
  // `units`: parameters of each, without padding, in model order; shared by `ranks` ranks.
  ParameterTape(const Strategy& strategy, const Framework& framework, int ranks, std::vector<double> units);

  // Between steps.
  Bytes weights() const;
  Bytes gradients() const;
  Bytes master() const;
  Bytes states() const;
  Bytes on_host() const;

  void begin_pass(Ledger& ledger, std::vector<std::size_t> units);
  void before_forward(Ledger& ledger, std::size_t unit) { lend(ledger, unit); }
  void after_forward(Ledger& ledger, std::size_t unit);
  void before_backward(Ledger& ledger, std::size_t unit);
  void after_backward(Ledger& ledger, std::size_t unit, bool last);
  void lend_gradients(Ledger& ledger, std::size_t unit);
  void finish_gradients(Ledger& ledger);
  void update(Ledger& ledger, Ledger& host);
  static void take_norm(Ledger& ledger);  // of all gradients, before the update

 private:
  // Of a unit's weights in the format of the GEMMs.
  enum class Whole { No, UnderWay, Here };

  bool shards_weights() const { return strategy_.sharding >= Sharding::Zero3; }
  bool shards_gradients() const { return strategy_.sharding >= Sharding::Zero2; }
  bool casts() const { return storage_.weight_bytes > element_; }
  bool on_host_states() const { return strategy_.offload.optimizer; }
  double sum() const;
  double shard(double whole) const { return whole / ranks_; }
  Bytes whole_weights(std::size_t unit) const { return Bytes(units_[unit] * element_); }
  Bytes whole_gradients(std::size_t unit) const { return Bytes(units_[unit] * storage_.gradient_bytes); }
  Bytes sent_shard(std::size_t unit) const { return Bytes(casts() ? shard(units_[unit]) * element_ : 0.0); }
  void lend(Ledger& ledger, std::size_t unit);
  void start_gather(Ledger& ledger, std::size_t unit);
  void take_back(Ledger& ledger, std::size_t unit);

  const Strategy& strategy_;
  const Framework& framework_;
  ParameterStorage storage_;
  double element_;
  double ranks_;
  std::vector<double> units_;  // padded
  std::vector<Whole> whole_;
  std::vector<bool> lent_gradients_;
  std::vector<std::size_t> pass_;
  Bytes under_reduction_{};
};

}  // namespace llmsim::sim
