// What one pass of a micro-batch through a chunk allocates, from nothing: the most, and what
// it leaves.
//
//   forward    receive the input; each layer with its unit: rise and net of its
//              forward pass, less what its checkpoint does not store; send the output
//   backward   receive the gradient of the output; each layer from the last on: whole weights,
//              whole gradients, what its checkpoint stored less and what was written again with it,
//              rise and net of its backward pass; send the gradient of the input
//
// Whole gradients of a unit are reduced while the next one's layer runs, or stay for later
// micro-batches; those of the last unit are under reduction when the pass has ended.  Frameworks
// whose units are not counted one by one have a constant buffer in each block's backward pass, and
// gradients that do not last are there block by block.
//
// Passes of the same kind have the same numbers, whichever micro-batch they are of.
// Source: ours.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "sim/memory/chunk_layers.h"
#include "sim/memory/memory_account.h"
#include "sim/memory/stage_bytes.h"
#include "sim/run.h"

namespace llmsim::sim {

// What the passes of a stage's chunks have in common.
struct PassRules {
  UnitRules units{};
  Bytes residual{};                // of one micro-batch: input, output and their gradients
  bool sent_outputs_stay = false;  // until the backward pass
  // a fused loss begins the gradient of the head in the forward pass.
  bool loss_makes_gradient = false;
  // Of a block.
  Bytes gradients{};            // that do not last from step to step
  Bytes whole_gradients{};      // at hand, where units are not counted one by one
  Bytes unreduced_gradients{};  // whole ones that micro-batches add to, likewise

  bool operator==(const PassRules&) const = default;
  bool gradients_come_and_go() const {
    return gradients + whole_gradients + unreduced_gradients > Bytes(0.0);
  }
};

// `blocks`: of all chunks of the stage.
PassRules pass_rules(const Run& run, const StageBytes& bytes, int blocks);

// Of the units of a chunk when one of its passes begins.
struct UnitState {
  bool whole = false;                // weights are there
  bool head_gradient_begun = false;  // by a fused loss, in the forward pass
};

// Of a backward pass among those of its chunk in a step.
struct BackwardTurn {
  bool first = false, last = false;
};

template <class Amount>
struct ChunkPass {
  HighPoint<Amount> of_layers{}, of_loss{};
  Amount net{};
  Bytes under_reduction{};  // of what it leaves

  const HighPoint<Amount>& rise() const {
    return of_loss.total > of_layers.total ? of_loss : of_layers;
  }
};

// Amount: double, MemoryTerms or TensorAmounts (peak_tensors.h).
template <class Amount>
ChunkPass<Amount> forward_pass(const ChunkLayers& chunk, const PassRules& rules, UnitState state);

template <class Amount>
ChunkPass<Amount> backward_pass(const ChunkLayers& chunk, const PassRules& rules, UnitState state,
                                BackwardTurn turn);

// The passes of one chunk, each kind worked out when it first comes.  `chunk` and `rules` must
// outlive it.
template <class Amount>
class ChunkPasses {
 public:
  ChunkPasses(const ChunkLayers& chunk, const PassRules& rules) : chunk_(&chunk), rules_(&rules) {}

  const ChunkPass<Amount>& forward(UnitState state) {
    if (!rules_->units.freed) state = {};
    std::optional<ChunkPass<Amount>>& pass = forward_[key(state)];
    if (!pass) pass = forward_pass<Amount>(*chunk_, *rules_, state);
    return *pass;
  }
  const ChunkPass<Amount>& backward(UnitState state, BackwardTurn turn) {
    if (!rules_->units.freed) state = {};
    if (!rules_->units.freed && !rules_->gradients_come_and_go()) turn = {};
    std::optional<ChunkPass<Amount>>& pass = backward_[4 * key(turn) + key(state)];
    if (!pass) pass = backward_pass<Amount>(*chunk_, *rules_, state, turn);
    return *pass;
  }

 private:
  static std::size_t key(UnitState state) {
    return (state.whole ? 2u : 0u) + (state.head_gradient_begun ? 1u : 0u);
  }
  static std::size_t key(BackwardTurn turn) {
    return (turn.first ? 2u : 0u) + (turn.last ? 1u : 0u);
  }

  const ChunkLayers* chunk_;
  const PassRules* rules_;
  std::array<std::optional<ChunkPass<Amount>>, 4> forward_;
  std::array<std::optional<ChunkPass<Amount>>, 16> backward_;
};

}  // namespace llmsim::sim
