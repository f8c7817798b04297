#include "sim/memory/chunk_passes.h"

#include <algorithm>
#include <utility>

#include "sim/memory/peak_tensors.h"

namespace llmsim::sim {
namespace {

// Whole weights of sharded units in one pass of a chunk, and what equal layers do to them.
//
// A unit's gather begins `ahead` units of its kind before its layer; from then on the whole weights
// are there, next to this rank's shard in the format that is sent until the layer begins, and until
// the layer has run.  Routed experts that are divided are gathered ahead of their own kind: the
// experts of the next MoE layer, however many other layers are between.
//
//   layer i begins        take whole + sent of units up to i that have not begun; give sent of i
//                         take whole + sent of units up to i + ahead
//   layer i has run       give whole of i, if it is freed
//
// Source: ours; PyTorch FSDP's forward and backward prefetch, runtime/parallel/data_parallel.h.

enum class Direction { Forward, Backward };

// Names of what is taken and given around the passes of layers.
constexpr const char* kStoredElsewhere = "stored on other ranks or on the host";
constexpr const char* kSinceCheckpoint = "all of the blocks since the checkpoint";

// Rise and net change of a layer's pass.
template <class Amount>
struct LayerAmounts {
  Amount rise, net;
};

template <class Amount>
LayerAmounts<Amount> amounts_of(const Layer& layer, bool backward) {
  const PassBytes& pass = backward ? layer.memory->backward : layer.memory->forward;
  return {amount_of<Amount>(pass.rise), amount_of<Amount>(pass.net)};
}

LayerSite site_of(UnitKind kind) {
  switch (kind) {
    case UnitKind::Embedding: return LayerSite::Embedding;
    case UnitKind::Block: return LayerSite::Block;
    case UnitKind::Head: break;
  }
  return LayerSite::Head;
}

template <>
LayerAmounts<TensorAmounts> amounts_of<TensorAmounts>(const Layer& layer, bool backward) {
  const LayerTensors& tensors = *layer.memory->tensors;
  const PassTensors& pass = backward ? tensors.backward : tensors.forward;
  return {amount_of(pass.rise, site_of(layer.kind)), amount_of(pass.net, site_of(layer.kind))};
}

// A chunk's layers in the order of a pass.
class PassLayers {
 public:
  PassLayers(const ChunkLayers& chunk, Direction direction)
      : chunk_(&chunk), backward_(direction == Direction::Backward) {}

  int size() const { return chunk_->size(); }
  const Layer& operator[](int place) const {
    return (*chunk_)[backward_ ? size() - 1 - place : place];
  }
  int index(int place) const { return chunk_->index(backward_ ? size() - 1 - place : place); }
  int experts() const { return chunk_->expert_layers(); }
  const Unit& experts(int place) const {
    return chunk_->expert_layer(backward_ ? experts() - 1 - place : place).units.experts;
  }

 private:
  const ChunkLayers* chunk_;
  bool backward_;
};

// Where the gathers of one kind of unit are.
struct GatherProgress {
  int gathered = 0;  // units from this one on are there when the pass begins, whoever gathered them
  int begun = 0;
  int place = 0;  // the unit at hand

  void skip(int units) { place += units, begun += units; }
};

// The gathers of a pass.
class UnitGathers {
 public:
  // Units of the `here`-th layer and later ones are there when the pass begins; `frees`: a unit is
  // freed when its layer has run.
  UnitGathers(const PassLayers& layers, const UnitRules& rules, int here, bool frees)
      : layers_(layers),
        any_(rules.freed),
        frees_(frees),
        ahead_(rules.ahead),
        shared_{.gathered = here},
        experts_{.gathered = here == 0 ? 0 : layers.experts()} {}

  template <class Amount>
  void gather(Account<Amount>& account, const Layer& layer) {
    if (!any_) return;
    gather(account, shared_, [&](int place) -> const Unit& { return layers_[place].units.shared; });
    if (layer.divides_experts)
      gather(account, experts_, [&](int place) -> const Unit& { return layers_.experts(place); });
  }

  // When a layer has run.  `stays`: its unit is needed once more.
  template <class Amount>
  void free(Account<Amount>& account, const Layer& layer, bool stays = false) {
    if (!any_) return;
    free(account, shared_, layer.units.shared, stays);
    if (layer.divides_experts) free(account, experts_, layer.units.experts, stays);
  }

  // Equal layers that are left out.
  void skip(int places, const Layer& layer) {
    shared_.skip(places);
    if (layer.divides_experts) experts_.skip(places);
  }

 private:
  template <class Amount, class UnitAt>
  void gather(Account<Amount>& account, GatherProgress& progress, const UnitAt& unit) const {
    begin(account, progress, progress.place, unit);
    if (progress.place < progress.gathered)
      account.give(MemoryKind::Gathered, unit(progress.place).sent);
    begin(account, progress, progress.place + ahead_, unit);
  }

  template <class Amount, class UnitAt>
  static void begin(Account<Amount>& account, GatherProgress& progress, int last,
                    const UnitAt& unit) {
    for (; progress.begun <= last && progress.begun < progress.gathered; ++progress.begun) {
      account.take(MemoryKind::Gathered, unit(progress.begun).sent);
      account.take(MemoryKind::Gathered, unit(progress.begun).whole);
    }
  }

  template <class Amount>
  void free(Account<Amount>& account, GatherProgress& progress, const Unit& unit,
            bool stays) const {
    if (frees_ && !stays) account.give(MemoryKind::Gathered, unit.whole);
    ++progress.place;
  }

  const PassLayers& layers_;
  bool any_;
  bool frees_;
  int ahead_;
  GatherProgress shared_, experts_;
};

// Runs of equal layers, in which the account grows or shrinks by the same amount each: the second
// one's, since around the first others come and go.  Of the rest all are left out but the last and
// those around which the next run's units are gathered: the last of them before that may be the
// peak.
template <class Amount>
class EqualLayers {
 public:
  // Layers that need not be visited before `place`: the account and the gathers are as if they had
  // been.
  int skip(Account<Amount>& account, UnitGathers& gathers, const PassLayers& layers, int place,
           int ahead) {
    const Layer* layer = &layers[place];
    run_ = place > 0 && layer == &layers[place - 1] ? run_ + 1 : 0;
    if (run_ == 1) before_second_ = account.now();
    if (run_ != 2) return 0;
    int last = place;
    while (last + 1 < layers.size() && &layers[last + 1] == layer) ++last;
    const int skipped = std::max(0, last - place - ahead);
    Amount change = account.now();
    change -= before_second_;
    account.repeat(change, skipped);
    gathers.skip(skipped, *layer);
    return skipped;
  }

 private:
  int run_ = 0;  // equal layers before the one at hand
  Amount before_second_{};
};

// A fused loss makes the gradient of the head, or of the table that it shares, in the forward pass.
Bytes gradients_of_head(const ChunkLayers& chunk, const Layer& head) {
  return chunk.shares_table() ? chunk.front().units.gradients() : head.units.gradients();
}

// Whole gradients of a layer, unless the forward pass has taken them for a fused loss, or an
// earlier micro-batch.
template <class Amount>
void take_whole_gradients(Account<Amount>& account, const ChunkLayers& chunk, const Layer& layer,
                          const PassRules& rules, UnitState state, bool first) {
  if (layer.kind == UnitKind::Embedding && chunk.shares_table()) return;  // with the head
  const bool begun =
      layer.kind == UnitKind::Head && !chunk.shares_table() && state.head_gradient_begun;
  if (!begun && (first || rules.units.reduces(false)))
    account.take(MemoryKind::GradientBuffers, layer.units.gradients());
}

// The table that head and embedding share, for the whole backward pass.
template <class Amount>
void take_shared_table(Account<Amount>& account, const ChunkLayers& chunk, const PassRules& rules,
                       UnitState state, bool first) {
  const Unit& table = chunk.front().units.shared;
  if (!state.whole) {
    account.take(MemoryKind::Gathered, table.whole + table.sent);
    account.give(MemoryKind::Gathered, table.sent);
  }
  if (!state.head_gradient_begun && (first || rules.units.reduces(false)))
    account.take(MemoryKind::GradientBuffers, chunk.front().units.gradients());
}

// Whole gradients of the block before, next to what this one has given back until its own appear.
Bytes waiting_gradients(const Layer& layer, const PassRules& rules) {
  return std::max(Bytes(0.0), rules.whole_gradients - layer.memory->forward.net.total());
}

// Of a block, around the backward pass of its operators.
struct BlockGradients {
  Bytes at_hand{};    // whole, while it runs
  Bytes own{};        // that it leaves
  Bytes unreduced{};  // of the step's first micro-batch to its last
};

BlockGradients block_gradients(const Layer& layer, const PassRules& rules, BackwardTurn turn,
                               bool end) {
  if (layer.kind != UnitKind::Block) return {};
  BlockGradients block;
  if (rules.units.leaves_own_gradients(turn.first, turn.last)) block.own = rules.gradients;
  if (rules.units.counted()) return block;
  block.at_hand = end && turn.last ? rules.whole_gradients : waiting_gradients(layer, rules);
  block.unreduced = rules.unreduced_gradients;
  return block;
}

// 16-bit weights that stay no longer than the forward pass.
template <class Amount>
void drop_casts(Account<Amount>& account, const PassLayers& layers) {
  for (int i = 0; i < layers.size(); ++i)
    if (!layers[i].casts_stay) account.give(MemoryKind::CastWeights, layers[i].cast_weights);
}

// `end`: of the chunk's blocks, where a block's own gradients come before all that it saved is
// given back.
template <class Amount>
void differentiate(Account<Amount>& account, const Layer& layer, const PassRules& rules,
                   BackwardTurn turn, bool end) {
  const BlockGradients block = block_gradients(layer, rules, turn, end);
  account.take(MemoryKind::Activations, layer.stored_less, kStoredElsewhere);
  account.take(MemoryKind::Recomputed, layer.rerun_before, kSinceCheckpoint);
  if (!layer.casts_stay) account.take(MemoryKind::CastWeights, layer.cast_weights);
  if (turn.last) account.give(MemoryKind::GradientBuffers, block.unreduced);
  if (end) account.take(MemoryKind::Gradients, block.own);
  account.take(MemoryKind::GradientBuffers, block.at_hand);
  const auto [rise, net] = amounts_of<Amount>(layer, true);
  account.run(rise, net);
  account.give(MemoryKind::GradientBuffers, block.at_hand);
  if (!end) account.take(MemoryKind::Gradients, block.own);
  if (turn.first) account.take(MemoryKind::GradientBuffers, block.unreduced);
  account.give(MemoryKind::Recomputed, layer.rerun_before, kSinceCheckpoint);
  account.give(MemoryKind::CastWeights, layer.cast_weights);
}

template <class Amount>
ChunkPass<Amount> result_of(const Account<Amount>& account, Bytes under_reduction) {
  return {.of_layers = account.of_layers(),
          .of_loss = account.of_loss(),
          .net = account.now(),
          .under_reduction = under_reduction};
}

}  // namespace

PassRules pass_rules(const Run& run, const StageBytes& bytes, int blocks) {
  const double each = std::max(1, blocks);
  PassRules rules{.units = unit_rules(run.strategy, run.framework),
                  .residual = stage_output(run.model, run.strategy)};
  rules.sent_outputs_stay = run.framework.saved.stage_outputs;
  rules.loss_makes_gradient = run.strategy.fused_cross_entropy;
  if (!run.framework.gradients.persist) rules.gradients = bytes.gradients / each;
  rules.whole_gradients = bytes.gradient_buffers;
  rules.unreduced_gradients = bytes.unreduced_gradients / each;
  return rules;
}

template <class Amount>
ChunkPass<Amount> forward_pass(const ChunkLayers& chunk, const PassRules& rules, UnitState state) {
  const PassLayers layers(chunk, Direction::Forward);
  const bool frees = rules.units.frees_after_forward(),
             shares_table = rules.units.freed && chunk.shares_table();
  Account<Amount> account;
  UnitGathers gathers(layers, rules.units, state.whole ? 0 : layers.size(), frees);
  EqualLayers<Amount> equal;
  if (!chunk.model_chunk().embedding)
    account.take(MemoryKind::Activations, rules.residual, kResidualStream);
  for (int i = 0; i < layers.size(); ++i) {
    i += equal.skip(account, gathers, layers, i, rules.units.ahead);
    const Layer& layer = layers[i];
    account.at(layers.index(i));
    gathers.gather(account, layer);
    if (layer.kind == UnitKind::Head && rules.loss_makes_gradient && !state.head_gradient_begun)
      account.take(MemoryKind::GradientBuffers, gradients_of_head(chunk, layer));
    account.take(MemoryKind::CastWeights, layer.cast_weights);
    const auto [rise, net] = amounts_of<Amount>(layer, false);
    account.run(rise, net);
    account.give(MemoryKind::Activations, layer.stored_less, kStoredElsewhere);
    gathers.free(account, layer, shares_table && i == 0);
  }
  if (shares_table && frees) account.give(MemoryKind::Gathered, chunk.front().units.shared.whole);
  if (!chunk.model_chunk().head && !rules.sent_outputs_stay)
    account.give(MemoryKind::Activations, rules.residual, kResidualStream);
  drop_casts(account, layers);
  return result_of(account, Bytes(0.0));
}

template <class Amount>
ChunkPass<Amount> backward_pass(const ChunkLayers& chunk, const PassRules& rules, UnitState state,
                                BackwardTurn turn) {
  const PassLayers layers(chunk, Direction::Backward);
  const bool shares_table = rules.units.freed && chunk.shares_table();
  // The embedding's unit comes with the head.
  const int count = layers.size(), tables = shares_table ? 1 : 0;
  Account<Amount> account;
  UnitGathers gathers(layers, rules.units, state.whole ? 0 : count - tables,
                      rules.units.frees_after_backward(turn.last));
  EqualLayers<Amount> equal;
  Bytes reduced, reduced_experts;  // gradients of the last layers, while others run
  if (!chunk.model_chunk().head)
    account.take(MemoryKind::ActivationGradients, rules.residual, kResidualStream);
  if (shares_table) take_shared_table(account, chunk, rules, state, turn.first);
  for (int i = 0; i < count; ++i) {
    i += equal.skip(account, gathers, layers, i, rules.units.ahead);
    const Layer& layer = layers[i];
    account.at(layers.index(i));
    gathers.gather(account, layer);
    take_whole_gradients(account, chunk, layer, rules, state, turn.first);
    differentiate(account, layer, rules, turn,
                  i + 1 == count || layers[i + 1].kind == UnitKind::Embedding);
    gathers.free(account, layer);
    if (!rules.units.reduces(turn.last)) continue;
    account.give(MemoryKind::GradientBuffers, std::exchange(reduced, layer.units.shared.gradients));
    if (layer.divides_experts)
      account.give(MemoryKind::GradientBuffers,
                   std::exchange(reduced_experts, layer.units.experts.gradients));
  }
  if (!chunk.model_chunk().head && rules.sent_outputs_stay)
    account.give(MemoryKind::Activations, rules.residual, kResidualStream);
  if (!chunk.model_chunk().embedding)
    account.give(MemoryKind::ActivationGradients, rules.residual, kResidualStream);
  return result_of(account, reduced + reduced_experts);
}

template ChunkPass<double> forward_pass<double>(const ChunkLayers&, const PassRules&, UnitState);
template ChunkPass<double> backward_pass<double>(const ChunkLayers&, const PassRules&, UnitState,
                                                 BackwardTurn);
template ChunkPass<MemoryTerms> forward_pass<MemoryTerms>(const ChunkLayers&, const PassRules&,
                                                          UnitState);
template ChunkPass<MemoryTerms> backward_pass<MemoryTerms>(const ChunkLayers&, const PassRules&,
                                                           UnitState, BackwardTurn);
template ChunkPass<TensorAmounts> forward_pass<TensorAmounts>(const ChunkLayers&, const PassRules&,
                                                              UnitState);
template ChunkPass<TensorAmounts> backward_pass<TensorAmounts>(const ChunkLayers&, const PassRules&,
                                                               UnitState, BackwardTurn);

}  // namespace llmsim::sim
