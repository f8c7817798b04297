#include "sim/memory/step_walk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "sim/memory/offloaded_activations.h"
#include "sim/memory/partial_gradients.h"
#include "sim/memory/stage_bytes.h"
#include "sim/pipeline/pipeline.h"

namespace llmsim::sim {
namespace {

// After the warm-up of 1F1B: the first backward pass, one that finds gradients, and one that repeats it.  Of an interleaved stage
// whole rounds of its chunks.
constexpr int kSteadyMicroBatches = 3, kRoundsOfInterleaving = 3;

// The walk counts bytes, or bytes by term: the same statements for a search and for a table.
double sum(double size) { return size; }
double sum(const MemoryTerms& terms) { return terms.total().value(); }

template <class Amount>
Amount of(MemoryKind kind, Bytes size);
template <>
double of<double>(MemoryKind, Bytes size) {
  return size.value();
}
template <>
MemoryTerms of<MemoryTerms>(MemoryKind kind, Bytes size) {
  MemoryTerms terms;
  terms[kind] = size;
  return terms;
}

template <class Amount>
Amount of(const LiveBytes& live);
template <>
double of<double>(const LiveBytes& live) {
  return live.total().value();
}
template <>
MemoryTerms of<MemoryTerms>(const LiveBytes& live) {
  MemoryTerms terms;
  terms[MemoryKind::Activations] = live.activations;
  terms[MemoryKind::Recomputed] = live.recomputed;
  terms[MemoryKind::ActivationGradients] = live.gradients;
  terms[MemoryKind::Logits] = live.logits;
  return terms;
}

constexpr int kLoss = -2;  // in the place of a layer's number

template <class Amount>
struct Peak {
  double total = -std::numeric_limits<double>::infinity();  // none yet
  Amount amount{};
  int layer = -1;
};

// What is there, and the most that ever was.
template <class Amount>
class Account {
 public:
  void take(const Amount& size) {
    now_ += size;
    note(now_);
  }
  void take(MemoryKind kind, Bytes size) { take(of<Amount>(kind, size)); }
  void give(const Amount& size) { now_ -= size; }
  void give(MemoryKind kind, Bytes size) { give(of<Amount>(kind, size)); }
  void pass(const Amount& size) { note(now_ + size); }
  void run(const Amount& rise, const Amount& net) {
    note(now_ + rise);
    now_ += net;
  }
  void grow(const Amount& change, int times) {
    for (int i = 0; i < times; ++i) now_ += change;
  }
  // From here on peaks are those of a layer, of an end of the model (-1) or of the head and the loss (kLoss).
  void at(int layer) { layer_ = layer; }

  const Amount& now() const { return now_; }
  const Peak<Amount>& highest() const { return loss_.total > layers_.total ? loss_ : layers_; }
  const Peak<Amount>& of_layers() const { return layers_; }
  const Peak<Amount>& of_loss() const { return loss_; }
  double peak() const { return highest().total; }

 private:
  void note(const Amount& there) {
    const double total = sum(there);
    Peak<Amount>& peak = layer_ == kLoss ? loss_ : layers_;
    if (total > peak.total) peak = {.total = total, .amount = there, .layer = layer_};
  }

  Amount now_{};
  Peak<Amount> layers_, loss_;
  int layer_ = -1;
};

// A unit of sharded weights: the embedding, a block, the head.
struct Unit {
  Bytes whole{};      // weights in the format of the GEMMs
  Bytes sent{};       // this rank's shard of them, where it is in another format
  Bytes gradients{};  // whole
};

// Of a layer: all ranks share the one, and fewer of them its routed experts, where these are divided.
struct Units {
  Unit shared, experts;
  Bytes gradients() const { return shared.gradients + experts.gradients; }
};

enum class UnitKind { Embedding, Block, Head };

struct Layer {
  UnitKind kind = UnitKind::Block;
  const LayerMemory* memory = nullptr;
  Bytes stored_less{};   // of the layer's checkpoint, what others store or the host has
  Bytes rerun_before{};  // other layers between the same checkpoints that are there again
  Units units;
  bool divides_experts = false;
};

// The layers of a chunk in model order; equal ones stand once.
class Chunk {
 public:
  void add(Layer layer, int index = -1) {
    kinds_.push_back(std::move(layer));
    repeat(index);
  }
  // The layer added last, once more.
  void repeat(int index) { order_.push_back({static_cast<std::uint16_t>(kinds_.size() - 1), index}); }

  int size() const { return static_cast<int>(order_.size()); }
  const Layer& operator[](int place) const { return kinds_[order_[static_cast<std::size_t>(place)].kind]; }
  int index(int place) const { return order_[static_cast<std::size_t>(place)].index; }  // in the model; -1, kLoss at its ends
  const Layer& front() const { return (*this)[0]; }
  const Layer& back() const { return (*this)[size() - 1]; }
  const std::vector<Layer>& kinds() const { return kinds_; }

 private:
  struct Place {
    std::uint16_t kind;
    int index;
  };
  std::vector<Layer> kinds_;
  std::vector<Place> order_;
};

template <class Amount>
struct ChunkPass {
  Peak<Amount> of_layers{}, of_loss{};
  Amount net{};

  const Peak<Amount>& rise() const { return of_loss.total > of_layers.total ? of_loss : of_layers; }
};

// Of the units of a chunk when one of its passes begins.
struct UnitState {
  bool whole = false;  // weights are gathered
  bool lent = false;   // a fused loss has begun the gradient of the head
  std::size_t key() const { return (whole ? 2u : 0u) + (lent ? 1u : 0u); }
};

template <class Amount>
class StageWalk {
 public:
  StageWalk(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage, int shard = 0)
      : run_(run),
        strategy_(run.strategy),
        framework_(run.framework),
        prices_(prices),
        contents_(contents),
        stage_(stage),
        shard_(shard),
        blocks_(contents.blocks(stage)),
        bytes_(stage_bytes(run, prices, contents, stage)),
        shape_(pipeline_shape(run.strategy)),
        storage_(storage_of(run.strategy, run.framework)),
        element_(size_of(activation_dtype(run.strategy.precision)).value()),
        residual_(stage_output(run.model, run.strategy)) {
    for (int chunk = 0; chunk < contents.chunks(); ++chunk) chunks_.push_back(layers_of(contents.part(stage, chunk)));
    passes_.resize(chunks_.size());
    states_.resize(chunks_.size());
  }

  StagePeak peak() {
    hold_what_lasts();
    StagePeak result{.idle = Bytes(sum(account_.now())), .temporaries = bytes_.temporaries, .host = bytes_.host};
    Bytes on_host = result.host;
    bool turned = false;
    walk(false, [&](const PipelinePass& pass, bool ends) {
      if (pass.backward() && !std::exchange(turned, true)) result.after_forward = Bytes(sum(account_.now()));
      if (!ends || pass.kind == PassKind::WeightGradient) return;
      on_host += (pass.backward() ? -1.0 : 1.0) * moved(chunks_[static_cast<std::size_t>(pass.chunk)]);
      result.host_peak = std::max(result.host_peak, on_host);
    });
    result.host_peak = std::max(result.host_peak, result.host + bytes_.host_update);
    result.in_update = finish();
    result.peak = Bytes(account_.peak());
    return result;
  }

  std::vector<MemoryPoint> points(bool whole_step) {
    hold_what_lasts();
    add_point("idle", account_.now());
    int in_flight = 0, blocks = 0;
    walk(whole_step, [&](const PipelinePass& pass, bool ends) {
      const int of_chunk = contents_.part(stage_, pass.chunk).blocks;
      if (!ends) {
        in_flight += !pass.backward(), blocks += pass.backward() ? 0 : of_chunk;
        return;
      }
      const std::size_t first = points_.size();
      add_points(pass);
      for (std::size_t i = first; i < points_.size(); ++i) {
        points_[i].micro_batch =
            pass.microbatch + 1 == shape_.num_microbatches ? strategy_.num_microbatches() - 1 : pass.microbatch;
        points_[i].passes_in_flight = in_flight, points_[i].blocks_in_flight = blocks;
      }
      in_flight -= makes_gradients(pass), blocks -= makes_gradients(pass) ? of_chunk : 0;
    });
    const Amount update = account_.now();
    account_ = {};
    account_.take(update);
    finish();
    add_point("update", account_.highest().amount);
    add_point("idle", account_.now());
    return std::move(points_);
  }

 private:
  bool frees_units() const { return framework_.sharded.flat_units && !framework_.sharded.root_stays_gathered; }
  bool shards_weights() const { return strategy_.sharding >= Sharding::Zero3; }
  bool shards_gradients() const { return strategy_.sharding >= Sharding::Zero2; }
  // A copy of the weights in the format of the GEMMs for each pass of a unit.
  bool casts_units() const {
    return storage_.weight_bytes > element_ && framework_.casts_weights_per_microbatch && framework_.casts_weights_in_backward;
  }
  // From a forward pass to the backward pass.
  bool keeps_weights() const { return frees_units() && shards_weights() && !framework_.sharded.regathers_in_backward; }
  bool by_unit() const { return frees_units() && (shards_weights() || shards_gradients()); }
  bool autograd() const { return framework_.autograd; }
  static double padded(double parameters, double ranks) { return std::ceil(parameters / ranks) * ranks; }

  // Layers.

  // Of so many parameters that `ranks` share.
  Unit unit_of(double parameters, double ranks) const {
    Unit unit;
    const double all = padded(parameters, ranks);
    if (shards_weights() || casts_units()) unit.whole = Bytes(all * element_);
    if (shards_weights() && storage_.weight_bytes > element_) unit.sent = Bytes(all / ranks * element_);
    if (shards_gradients()) unit.gradients = Bytes(all * storage_.gradient_bytes);
    return unit;
  }
  Units units_of(double shared, double experts) const {
    if (!frees_units()) return {};
    return {.shared = unit_of(shared, strategy_.shard_ranks()), .experts = unit_of(experts, strategy_.expert_shard_ranks())};
  }

  Chunk layers_of(const ModelPart& part) const {
    const RankParameters& rank = contents_.rank();
    Chunk layers;
    if (part.embedding)
      layers.add({.kind = UnitKind::Embedding, .memory = &prices_.embedding.memory, .units = units_of(rank.embedding, 0.0)});
    std::optional<BlockKind> before;
    for (int block = 0; block < part.blocks; ++block) {
      const BlockKind kind = kind_of(part, block);
      if (before && kind == *before)
        layers.repeat(part.first_layer + block);
      else
        layers.add(block_of(kind), part.first_layer + block);
      before = kind;
    }
    if (part.head) {
      const double head = rank.tied && part.has_table() ? rank.head_layers : rank.head;
      layers.add({.kind = UnitKind::Head, .memory = &prices_.head.memory, .units = units_of(head, 0.0)}, kLoss);
    }
    return layers;
  }

  // What tells blocks apart.
  struct BlockKind {
    bool moe = false, kept = false, high_precision = false, offloads = false;
    int since_checkpoint = 0;  // blocks
    bool operator==(const BlockKind&) const = default;
  };

  BlockKind kind_of(const ModelPart& part, int block) const {
    const Recompute& recompute = strategy_.recompute;
    BlockKind kind{.moe = is_moe_layer(run_.model, part.first_layer + block),
                   .kept = recompute.mixes() && !recompute.repeats(block),
                   .high_precision = high_precision(part.first_layer + block)};
    kind.offloads = offloads(kind.kept) && block < offloading_blocks(strategy_, part.blocks);
    if (!kind.kept && recompute.kind == RecomputeKind::Full)
      kind.since_checkpoint = static_cast<int>(std::fmod(block, checkpoint_spacing(strategy_, framework_)));
    return kind;
  }

  Layer block_of(const BlockKind& kind) const {
    const RankParameters& rank = contents_.rank();
    const BlockPrices& prices = kind.high_precision ? *prices_.wide : prices_;
    const BlockPrice& price =
        kind.moe ? (kind.kept ? prices.kept_moe_block : prices.moe_block) : (kind.kept ? prices.kept_block : prices.block);
    Layer layer;
    layer.memory = &price.memory;
    const double divided = rank.experts_divided ? rank.experts : 0.0;
    layer.units = kind.moe ? units_of(rank.moe_block + rank.experts - divided, divided) : units_of(rank.block, 0.0);
    layer.divides_experts = kind.moe && frees_units() && divided > 0.0;
    // Blocks between two checkpoints are written again together; tensor ranks may divide a checkpoint.
    if (!kind.kept && strategy_.recompute.kind == RecomputeKind::Full) {
      layer.stored_less = (1.0 - stored_inputs_per_block(strategy_, framework_)) * residual_;
      layer.rerun_before = kind.since_checkpoint * price.memory.everything;
    }
    if (kind.offloads) layer.stored_less += offloaded_by_block(run_, price);
    return layer;
  }

  // To the host and back, of one micro-batch.
  Bytes moved(const Chunk& layers) const {
    Bytes size;
    if (!strategy_.offload.activations) return size;
    for (int i = 0; i < layers.size(); ++i) size += layers[i].stored_less;
    return size;
  }

  // The runtime sends checkpoints alone.
  bool offloads(bool kept) const { return strategy_.offload.activations && (autograd() || !kept); }

  bool high_precision(int layer) const {
    if (!prices_.wide) return false;
    const ModelPart one{.blocks = 1, .first_layer = layer};
    return high_precision_blocks(framework_.low_precision, strategy_.precision, run_.model, one).all() > 0;
  }

  // A step.

  void hold_what_lasts() {
    const MemoryTerms lasting = lasting_terms(bytes_, framework_);
    for (int i = 0; i < kNumMemoryKinds; ++i) {
      const auto kind = static_cast<MemoryKind>(i);
      if (lasting[kind] > Bytes(0.0)) account_.take(kind, lasting[kind]);
    }
  }

  // Micro-batches after which a stage does what it has done before.
  int followed(bool whole_step) const {
    const int all = strategy_.num_microbatches(), p = strategy_.pp;
    if (whole_step) return all;
    if (strategy_.pipeline_schedule == PipelineSchedule::OneForwardOneBackward)
      return std::min(all, warmup_passes(shape_, stage_) + kSteadyMicroBatches);
    if (strategy_.pipeline_schedule != PipelineSchedule::Interleaved || all % p != 0) return all;
    return std::min(all, kRoundsOfInterleaving * p);
  }

  template <class Visit>
  void walk(bool whole_step, const Visit& visit) {
    shape_.num_microbatches = followed(whole_step);
    ahead_ = splits_backward(shape_.schedule) || shape_.schedule == PipelineSchedule::DualPipe ? 1 : messages_under_way(shape_);
    const std::vector<PipelinePass> order = stage_order(shape_, stage_);
    std::vector<int> last(chunks_.size(), -1), seen(chunks_.size(), 0);
    for (int i = 0; i < static_cast<int>(order.size()); ++i) {
      if (makes_gradients(order[index(i)])) last[static_cast<std::size_t>(order[index(i)].chunk)] = i;
    }
    const Bytes gathered = by_unit() ? Bytes(0.0) : bytes_.gathered, on_its_way = block_on_its_way();
    account_.take(MemoryKind::Gathered, gathered);
    account_.take(MemoryKind::Activations, on_its_way);
    if (!autograd()) account_.take(MemoryKind::Buffers, size_of(DType::Fp32));  // the loss, summed over micro-batches
    for (int i = 0; i < static_cast<int>(order.size()); ++i) {
      const PipelinePass& pass = order[index(i)];
      const auto chunk = static_cast<std::size_t>(pass.chunk);
      visit(pass, false);
      run(pass, seen[chunk] == 0, last[chunk] == i);
      seen[chunk] += makes_gradients(pass);
      visit(pass, true);
    }
    account_.give(MemoryKind::Gathered, gathered);
    account_.give(MemoryKind::Activations, on_its_way);
    account_.give(MemoryKind::PipelineBuffers, static_cast<double>(sent_forward_ + sent_backward_) * residual_);
    end_reduction();
  }

  // Beside the block at hand one more has its activations on the device, to or from the host.
  Bytes block_on_its_way() const {
    if (!strategy_.offload.activations || !autograd()) return Bytes(0.0);
    Bytes most;
    for (const Chunk& layers : chunks_) {
      for (const Layer& layer : layers.kinds()) most = std::max(most, layer.stored_less);
    }
    return most;
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static bool makes_gradients(const PipelinePass& pass) {
    return pass.kind == PassKind::Backward || pass.kind == PassKind::DataGradient;
  }

  void run(const PipelinePass& pass, bool first, bool last) {
    const auto chunk = static_cast<std::size_t>(pass.chunk);
    const ModelPart& part = contents_.part(stage_, pass.chunk);
    switch (pass.kind) {
      case PassKind::Forward: return forward(chunk, part);
      case PassKind::Backward: return backward(chunk, part, first, last);
      case PassKind::DataGradient:
        backward(chunk, part, first, last);
        account_.take(MemoryKind::Activations, weight_inputs(part));
        return;
      case PassKind::WeightGradient: account_.pass(Amount{}); account_.give(MemoryKind::Activations, weight_inputs(part));
    }
  }

  // What the gradients of the weights need after those of the data are made.
  Bytes weight_inputs(const ModelPart& part) const {
    const Bytes inputs = part.blocks > 0 ? part.blocks * mean_block(run_, prices_, part).weight_inputs : Bytes(0.0);
    return part.head ? inputs + prices_.head.weight_inputs : inputs;
  }

  void forward(std::size_t chunk, const ModelPart& part) {
    part.embedding ? end_reduction() : end_reduction(MemoryKind::Activations);
    UnitState& state = states_[chunk];
    run(passes_[chunk].forward.of(state.key(), [&] { return forward_pass(chunks_[chunk], part, state); }));
    state.whole = keeps_weights();
    state.lent = part.head && strategy_.fused_cross_entropy;
    if (!autograd() && !part.head) send(sent_forward_);
  }

  void backward(std::size_t chunk, const ModelPart& part, bool first, bool last) {
    part.head ? end_reduction() : end_reduction(MemoryKind::ActivationGradients);
    UnitState& state = states_[chunk];
    const BackwardPass& pass = passes_[chunk].backward.of(state.key() + (first ? 8u : 0u) + (last ? 4u : 0u), [&] {
      return backward_pass(chunks_[chunk], part, state, first, last);
    });
    run(pass.pass);
    under_reduction_ = pass.under_reduction;
    state.whole = false;
    state.lent = state.lent && !reduces(last);
    if (!autograd() && !part.embedding) send(sent_backward_);
  }

  void run(const ChunkPass<Amount>& pass) {
    before_ = account_.now();
    last_ = &pass;
    account_.run(pass.rise().amount, pass.net);
  }

  // While something is received.
  void end_reduction(MemoryKind received) {
    if (under_reduction_ > Bytes(0.0)) account_.pass(of<Amount>(received, residual_));
    end_reduction();
  }
  void end_reduction() { account_.give(MemoryKind::GradientBuffers, std::exchange(under_reduction_, Bytes(0.0))); }

  // A tensor goes to a neighbour and is held until enough later ones want to go the same way.
  void send(int& under_way) {
    if (under_way == ahead_) return;
    ++under_way;
    account_.take(MemoryKind::PipelineBuffers, residual_);
  }

  // The optimizer's step; whether its peak is the step's.
  bool finish() {
    const double before = account_.peak();
    if (!autograd()) sum_partial_gradients();
    if (!framework_.gradients.persist && blocks_ == 0) account_.take(MemoryKind::Gradients, bytes_.gradients);
    account_.take(MemoryKind::MainGradients, bytes_.main_gradients);
    account_.pass(of<Amount>(MemoryKind::Temporaries, bytes_.temporaries));
    account_.give(MemoryKind::MainGradients, bytes_.main_gradients);
    if (!framework_.gradients.persist) account_.give(MemoryKind::Gradients, bytes_.gradients);
    return account_.peak() > before;
  }

  // Gradients of which every tensor rank has a part, side by side, and the norm of all.
  void sum_partial_gradients() {
    double partial = 0.0;
    if (strategy_.tp > 1)
      partial =
          partial_gradients(run_.model, strategy_, stage_parts(run_.model, strategy_, stage_), shard_) * storage_.gradient_bytes;
    account_.pass(of<Amount>(MemoryKind::Temporaries, Bytes(partial)));
    account_.pass(of<Amount>(MemoryKind::Temporaries, Bytes(2.0 * size_of(DType::Fp32).value())));
  }

  // The passes of a chunk, from nothing.

  // Whole weights: from the start of a gather, some units ahead, until the unit's layer has run.
  class Gathers {
   public:
    Gathers() = default;
    // Of the layers that have such units.  `here`: those from this one on are there when the pass begins.
    Gathers(const Chunk& layers, Unit Units::*unit, bool backward, int ahead, int here) : unit_(unit), ahead_(ahead) {
      const int size = layers.size();
      for (int i = 0; i < size; ++i) {
        const Layer& layer = layers[backward ? size - 1 - i : i];
        if (unit == &Units::shared || layer.divides_experts) units_.push_back(&(layer.units.*unit));
        if (i + 1 == here) held_ = static_cast<int>(units_.size());
      }
    }

    void lend(Account<Amount>& account) {
      start(account, place_);
      if (place_ < held_) account.give(MemoryKind::Gathered, units_[index(place_)]->sent);
      start(account, place_ + ahead_);
    }
    // Frees the unit that was lent last, or keeps it.
    void take_back(Account<Amount>& account, bool frees) {
      if (frees) account.give(MemoryKind::Gathered, units_[index(place_)]->whole);
      ++place_;
    }
    void skip(int places) { place_ += places, started_ += places; }

   private:
    void start(Account<Amount>& account, int place) {
      for (; started_ <= place && started_ < held_; ++started_) {
        account.take(MemoryKind::Gathered, units_[index(started_)]->sent);
        account.take(MemoryKind::Gathered, units_[index(started_)]->whole);
      }
    }

    std::vector<const Unit*> units_;
    Unit Units::*unit_ = nullptr;
    int ahead_ = 0;
    int held_ = 0;
    int started_ = 0, place_ = 0;
  };

  // Both kinds of unit.
  struct AllGathers {
    Gathers shared, experts;
    bool frees;
    bool any;  // units are freed at all
    AllGathers(const Chunk& layers, bool backward, int ahead, int here, bool frees_them, bool any_units)
        : shared(any_units ? Gathers(layers, &Units::shared, backward, ahead, here) : Gathers()),
          experts(any_units ? Gathers(layers, &Units::experts, backward, ahead, here) : Gathers()),
          frees(frees_them),
          any(any_units) {}

    void lend(Account<Amount>& account, const Layer& layer) {
      if (!any) return;
      shared.lend(account);
      if (layer.divides_experts) experts.lend(account);
    }
    void take_back(Account<Amount>& account, const Layer& layer, bool keeps = false) {
      if (!any) return;
      shared.take_back(account, frees && !keeps);
      if (layer.divides_experts) experts.take_back(account, frees && !keeps);
    }
    void skip(int places, const Layer& layer) {
      if (!any) return;
      shared.skip(places);
      if (layer.divides_experts) experts.skip(places);
    }
  };

  // Equal layers, in which the account grows or shrinks by the same amount each: the second one's, since around the first others
  // come and go.  All but the last two of the rest are left out.
  class Repeats {
   public:
    // Layers that need not be visited before `place`.
    int skip(Account<Amount>& account, AllGathers& gathers, const Chunk& layers, int place, bool backward, int ahead) {
      const int size = layers.size();
      const auto at = [&](int i) { return &layers[backward ? size - 1 - i : i]; };
      run_ = place > 0 && at(place) == at(place - 1) ? run_ + 1 : 0;
      if (run_ == 1) before_ = account.now();
      if (run_ != 2) return 0;
      int same = place;
      while (same + 1 < size && at(same + 1) == at(place)) ++same;
      const int skipped = std::max(0, same - place - 2 - ahead);
      Amount change = account.now();
      change -= before_;
      account.grow(change, skipped);
      gathers.skip(skipped, *at(place));
      return skipped;
    }

   private:
    int run_ = 0;
    Amount before_{};
  };

  int gathers_ahead() const { return shards_weights() ? framework_.sharded.prefetch_units : 0; }
  // The embedding's unit stays while the head of a tied model needs its table.
  static bool tied(const Chunk& layers, const RankParameters& rank) {
    return rank.tied && layers.front().kind == UnitKind::Embedding && layers.back().kind == UnitKind::Head;
  }

  // From the received input to the output that is sent.
  ChunkPass<Amount> forward_pass(const Chunk& layers, const ModelPart& part, UnitState state) const {
    Account<Amount> account;
    if (!part.embedding) account.take(MemoryKind::Activations, residual_);
    const bool shares_table = frees_units() && tied(layers, contents_.rank());
    AllGathers gathers(layers, false, gathers_ahead(), state.whole ? 0 : layers.size(), !keeps_weights(), frees_units());
    Repeats repeats;
    for (int i = 0; i < layers.size(); ++i) {
      i += repeats.skip(account, gathers, layers, i, false, gathers_ahead());
      const Layer& layer = layers[i];
      account.at(layers.index(i));
      gathers.lend(account, layer);
      const bool makes_gradients = layer.kind == UnitKind::Head && strategy_.fused_cross_entropy;
      if (makes_gradients && !state.lent) account.take(MemoryKind::GradientBuffers, lent_gradients(layers, layer));
      account.run(of<Amount>(layer.memory->forward.rise), of<Amount>(layer.memory->forward.net));
      account.give(MemoryKind::Activations, layer.stored_less);
      gathers.take_back(account, layer, shares_table && i == 0);
    }
    if (shares_table && !keeps_weights()) account.give(MemoryKind::Gathered, layers.front().units.shared.whole);
    if (!part.head && !framework_.kept.stage_outputs) account.give(MemoryKind::Activations, residual_);
    return {.of_layers = account.of_layers(), .of_loss = account.of_loss(), .net = account.now()};
  }

  // A fused loss makes the gradient of the head, or of the table that it shares, in the forward pass.
  Bytes lent_gradients(const Chunk& layers, const Layer& head) const {
    return tied(layers, contents_.rank()) ? layers.front().units.gradients() : head.units.gradients();
  }

  struct BackwardPass {
    ChunkPass<Amount> pass;
    Bytes under_reduction{};  // when it has ended
  };

  // From the received gradient of the output to that of the input, which is sent.
  BackwardPass backward_pass(const Chunk& layers, const ModelPart& part, UnitState state, bool first, bool last) const {
    Account<Amount> account;
    if (!part.head) account.take(MemoryKind::ActivationGradients, residual_);
    const bool shares_table = frees_units() && tied(layers, contents_.rank());
    const int count = layers.size();
    Repeats repeats;
    AllGathers gathers(layers, true, gathers_ahead(), state.whole ? 0 : (shares_table ? count - 1 : count), true, frees_units());
    Bytes reduced, reduced_experts;
    if (shares_table) {
      if (!state.whole) account.take(MemoryKind::Gathered, layers.front().units.shared.whole + layers.front().units.shared.sent);
      if (!state.whole) account.give(MemoryKind::Gathered, layers.front().units.shared.sent);
      if (!state.lent && (first || reduces(false))) account.take(MemoryKind::GradientBuffers, layers.front().units.gradients());
    }
    for (int i = 0; i < count; ++i) {
      i += repeats.skip(account, gathers, layers, i, true, gathers_ahead());
      const Layer& layer = layers[count - 1 - i];
      account.at(layers.index(count - 1 - i));
      gathers.lend(account, layer);
      take_gradients(account, layers, layer, state, first);
      differentiate(account, layer, first, last, i + 1 == count || layers[count - 2 - i].kind == UnitKind::Embedding);
      gathers.take_back(account, layer);
      if (!reduces(last)) continue;
      account.give(MemoryKind::GradientBuffers, std::exchange(reduced, layer.units.shared.gradients));
      if (layer.divides_experts)
        account.give(MemoryKind::GradientBuffers, std::exchange(reduced_experts, layer.units.experts.gradients));
    }
    if (!part.head && framework_.kept.stage_outputs) account.give(MemoryKind::Activations, residual_);
    if (!part.embedding) account.give(MemoryKind::ActivationGradients, residual_);
    return {.pass = {.of_layers = account.of_layers(), .of_loss = account.of_loss(), .net = account.now()},
            .under_reduction = reduced + reduced_experts};
  }

  // Whether whole gradients of a unit are reduced after this backward pass; else micro-batches add to them.
  bool reduces(bool last) const { return shards_weights() || last || framework_.gradients.reduced_every_microbatch; }

  // Unless the forward pass has, for a fused loss, or an earlier micro-batch.
  void take_gradients(Account<Amount>& account, const Chunk& layers, const Layer& layer, UnitState state, bool first) const {
    const bool shared = tied(layers, contents_.rank());
    if (layer.kind == UnitKind::Embedding && shared) return;  // with the head
    const bool lent = layer.kind == UnitKind::Head && !shared && state.lent;
    if (!lent && (first || reduces(false))) account.take(MemoryKind::GradientBuffers, layer.units.gradients());
  }

  // `end`: of the chunk.
  void differentiate(Account<Amount>& account, const Layer& layer, bool first, bool last, bool end) const {
    const bool block = layer.kind == UnitKind::Block;
    account.take(MemoryKind::Activations, layer.stored_less);
    account.take(MemoryKind::Recomputed, layer.rerun_before);
    const Bytes unreduced = block && !by_unit() ? bytes_.unreduced_gradients / std::max(1, blocks_) : Bytes(0.0);
    if (last && block) account.give(MemoryKind::GradientBuffers, unreduced);
    const Bytes own = block && !framework_.gradients.persist && first ? gradient_of_block() : Bytes(0.0);
    const Bytes buffers = block && !by_unit() ? (end && last ? bytes_.gradient_buffers : waiting_gradients(layer)) : Bytes(0.0);
    if (end) account.take(MemoryKind::Gradients, own);
    account.take(MemoryKind::GradientBuffers, buffers);
    account.run(of<Amount>(layer.memory->backward.rise), of<Amount>(layer.memory->backward.net));
    account.give(MemoryKind::GradientBuffers, buffers);
    if (!end) account.take(MemoryKind::Gradients, own);
    if (first && block) account.take(MemoryKind::GradientBuffers, unreduced);
    account.give(MemoryKind::Recomputed, layer.rerun_before);
  }

  Bytes gradient_of_block() const { return bytes_.gradients / std::max(1, blocks_); }

  // Whole gradients of the block before, beside what this one has given back until its own appear.
  Bytes waiting_gradients(const Layer& layer) const {
    return std::max(Bytes(0.0), bytes_.gradient_buffers - layer.memory->forward.net.total());
  }

  // Points.

  // Of the layers, and of the loss where the chunk has the head.  The loss of a micro-batch that goes back at once is one point.
  void add_points(const PipelinePass& pass) {
    if (pass.kind == PassKind::WeightGradient) return add_point("weight gradients", account_.now());
    const bool forward = pass.kind == PassKind::Forward;
    const MemoryPoint* loss = points_.empty() ? nullptr : &points_.back();
    const bool goes_on = !forward && std::string_view(loss->phase) == "loss" && loss->micro_batch == pass.microbatch;
    if (forward) add_peak("forward", last_->of_layers);
    if (!goes_on)
      add_peak("loss", last_->of_loss);
    else if (sum(before_ + last_->of_loss.amount) > loss->allocated.value())
      raise_loss();
    if (!forward) add_peak("backward", last_->of_layers);
  }

  void raise_loss() {
    MemoryPoint higher = points_.back();
    points_.pop_back();
    add_peak("loss", last_->of_loss);
    higher.allocated = points_.back().allocated, higher.terms = points_.back().terms;
    points_.back() = higher;
  }

  void add_peak(const char* phase, const Peak<Amount>& rise) {
    if (std::isinf(rise.total)) return;
    add_point(phase, before_ + rise.amount);
    if (rise.layer >= 0) points_.back().layer = rise.layer;
  }

  void add_point(const char* phase, const Amount& there) {
    points_.push_back({.phase = phase, .allocated = Bytes(sum(there)), .terms = terms_of(there)});
  }

  static MemoryTerms terms_of(double) { return {}; }
  static MemoryTerms terms_of(const MemoryTerms& terms) { return terms; }

  // Few of the kinds that a pass can be of come up.
  template <class Pass>
  class Known {
   public:
    template <class Make>
    const Pass& of(std::size_t kind, const Make& make) {
      for (std::size_t i = 0; i < count_; ++i) {
        if (kinds_[i] == kind) return passes_[i];
      }
      const std::size_t place = count_ < kSize ? count_++ : kSize - 1;
      kinds_[place] = kind;
      return passes_[place] = make();
    }

   private:
    static constexpr std::size_t kSize = 4;
    std::array<std::size_t, kSize> kinds_{};
    std::array<Pass, kSize> passes_;
    std::size_t count_ = 0;
  };

  struct Passes {
    Known<ChunkPass<Amount>> forward;  // by the state of the units
    Known<BackwardPass> backward;      // and whether it is the first or the last one
  };

  const Run& run_;
  const Strategy& strategy_;
  const Framework& framework_;
  const LayerPrices& prices_;
  const StageContents& contents_;
  int stage_;
  int shard_;
  int blocks_;
  StageBytes bytes_;
  PipelineShape shape_;
  ParameterStorage storage_;
  double element_;
  Bytes residual_;
  int ahead_ = 1;
  std::vector<Chunk> chunks_;
  std::vector<Passes> passes_;
  std::vector<UnitState> states_;
  Account<Amount> account_;
  Amount before_{};  // the last pass
  const ChunkPass<Amount>* last_ = nullptr;
  Bytes under_reduction_{};
  int sent_forward_ = 0, sent_backward_ = 0;
  std::vector<MemoryPoint> points_;
};

}  // namespace

StagePeak stage_peak(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage, int shard) {
  return StageWalk<double>(run, prices, contents, stage, shard).peak();
}

std::vector<MemoryPoint> stage_points(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage,
                                      bool whole_step) {
  return StageWalk<MemoryTerms>(run, prices, contents, stage).points(whole_step);
}

}  // namespace llmsim::sim
