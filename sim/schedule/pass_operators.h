// The operators of one pass of a model chunk, one after the other, each with its price: which
// GEMMs, kernels and collectives a pass consists of.
//
// The times of a chunk's operators add up to the compute and the exposed collectives of its pass
// (passes.h) where all layers have the same kind of attention window; layers that differ are priced
// at the mean of both, as in cost/layer_prices.h.
//
// The order is that of the blocks as they are lowered (operators/block.h), and otherwise ours.
#pragma once

#include <optional>
#include <vector>

#include "sim/cost/price.h"
#include "sim/model/layer_kinds.h"
#include "sim/pipeline/pipeline.h"
#include "sim/run.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {

struct PassOperator {
  const char* label = "";
  OperatorKind kind = OperatorKind::Gemm;
  std::optional<int> layer{};  // of the model; none of embedding and LM head
  bool recomputed = false;
  // Dispatch or combine, which an overlapped pass hides.
  bool exchange = false;
  Seconds time{};     // that the device takes, of a collective what nothing hides
  Seconds message{};  // of a collective, hidden or not
  Flops flops{};
  Bytes moved{};  // through device memory
};

class PassOperators {
 public:
  // `run` must outlive the operators.
  explicit PassOperators(const Run& run);

  // In the order in which they run: the embedding, the layers, the head; backward the other way
  // round, each layer after what of it is recomputed.
  std::vector<PassOperator> of(const ModelChunk& chunk, PassKind pass) const;

 private:
  struct Priced {
    std::vector<PassOperator> forward{}, recompute{}, backward{}, data{}, weights{};
  };

  using Kinds = KindTable<Priced>;

  Kinds kinds(const Strategy& strategy, const OperatorPricer& pricer) const;
  Priced block(LayerKind kind, const Strategy& strategy, const OperatorPricer& pricer) const;
  void append(std::vector<PassOperator>& list, const Priced& from, PassKind pass, bool recomputes,
              std::optional<int> layer) const;

  const Run& run_;
  // In the run's precision, and those that a low-precision recipe leaves in 16 bits.
  Kinds blocks_, high_precision_;
  Priced embedding_, head_;
};

// An operator of one of two joined passes (pipeline.h).
struct JoinedOperator {
  PassOperator op;
  bool backward = false;  // of the backward pass
};

// The operators of both passes, merged by how far either pass has come.  Each has its share of the
// exposed time of the pass's all-to-alls, or of the slowdown of its compute.
std::vector<JoinedOperator> joined_operators(std::vector<PassOperator> forward,
                                             std::vector<PassOperator> backward,
                                             const ChunkTimes& forward_times,
                                             const ChunkTimes& backward_times, double loss);

}  // namespace llmsim::sim
