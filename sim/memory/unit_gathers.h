// Whole weights of sharded units in one pass of a chunk, and what equal layers do to them.
//
// A unit's gather begins `ahead` units of its kind before its layer; from then on the whole weights
// are there, beside this rank's shard in the format that is sent until the layer begins, and until
// the layer has run.  Routed experts that are divided are gathered ahead of their own kind: the
// experts of the next MoE layer, however many other layers are between.
//
//   layer i begins        take whole + sent of units up to i that have not begun; give sent of i
//                         take whole + sent of units up to i + ahead
//   layer i has run       give whole of i, if it is freed
//
// Source: ours; PyTorch FSDP's forward and backward prefetch, runtime/parallel/data_parallel.h.
#pragma once

#include <algorithm>

#include "sim/memory/chunk_layers.h"
#include "sim/memory/memory_account.h"

namespace llmsim::sim {

enum class Direction { Forward, Backward };

// A chunk's layers in the order of a pass.
class PassLayers {
 public:
  PassLayers(const Chunk& chunk, Direction direction)
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
  const Chunk* chunk_;
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
  void lend(Account<Amount>& account, const Layer& layer) {
    if (!any_) return;
    lend(account, shared_, [&](int place) -> const Unit& { return layers_[place].units.shared; });
    if (layer.divides_experts)
      lend(account, experts_, [&](int place) -> const Unit& { return layers_.experts(place); });
  }

  // When a layer has run.  `stays`: its unit is needed once more.
  template <class Amount>
  void take_back(Account<Amount>& account, const Layer& layer, bool stays = false) {
    if (!any_) return;
    take_back(account, shared_, layer.units.shared, stays);
    if (layer.divides_experts) take_back(account, experts_, layer.units.experts, stays);
  }

  // Equal layers that are left out.
  void skip(int places, const Layer& layer) {
    shared_.skip(places);
    if (layer.divides_experts) experts_.skip(places);
  }

 private:
  template <class Amount, class UnitAt>
  void lend(Account<Amount>& account, GatherProgress& progress, const UnitAt& unit) const {
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
  void take_back(Account<Amount>& account, GatherProgress& progress, const Unit& unit,
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
// one's, since around the first others come and go.  All but the last two of the rest, and those
// that are gathered ahead, are left out.
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
    const int skipped = std::max(0, last - place - 2 - ahead);
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

}  // namespace llmsim::sim
