#include "sim/memory/memory_curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "sim/memory/caching_allocator.h"
#include "sim/memory/stage_bytes.h"
#include "sim/memory/step_tape.h"
#include "sim/operators/block.h"
#include "sim/schedule/pipeline.h"

namespace llmsim::sim {
namespace {

// Tensors of one term, taken together and given back together.
struct Held {
  MemoryKind term = MemoryKind::Weights;
  Bytes size{};
  std::vector<CachingAllocator::Block> blocks{};
};

class Holdings {
 public:
  explicit Holdings(const MemoryCurveOptions& options) {
    if (options.reserved) allocator_.emplace(options.expandable_segments);
  }

  // `shares`: of the size, for each tensor; one tensor where there are none.
  Held take(MemoryKind term, Bytes size, const std::vector<double>& shares = {}) {
    Held held{.term = term, .size = size};
    if (size <= Bytes(0.0)) return held;
    if (allocator_ && shares.empty()) held.blocks.push_back(allocator_->take(size));
    if (allocator_) {
      for (const double share : shares) held.blocks.push_back(allocator_->take(share * size));
    }
    sums_[term] += size;
    ++count(term);
    return held;
  }

  void give(const Held& held) {
    if (held.size <= Bytes(0.0)) return;
    for (const CachingAllocator::Block block : held.blocks) allocator_->give(block);
    sums_[held.term] -= held.size;
    if (--count(held.term) == 0) sums_[held.term] = Bytes(0.0);
  }

  Bytes held(MemoryKind term) const { return sums_[term]; }
  Bytes allocated() const { return sums_.total(); }
  Bytes reserved() const { return allocator_ ? allocator_->reserved() : Bytes(0.0); }
  std::vector<MemoryTerm> terms() const { return sums_.present(); }

 private:
  int& count(MemoryKind term) { return counts_[static_cast<std::size_t>(term)]; }

  std::optional<CachingAllocator> allocator_;
  MemoryTerms sums_;
  std::array<int, kNumMemoryKinds> counts_{};
};

// What the operators of a plain block save, as shares of all that they save.
std::vector<double> tensor_shares(const Run& run, LayerKind kind) {
  const BlockOperators block =
      lower_block(run.model, run.strategy, effective_framework(run.framework, run.strategy), RecomputeKind::None, kind);
  const Bytes all = total_saved(block.forward);
  std::vector<double> shares;
  for (const Operator& op : block.forward) {
    if (op.saved > Bytes(0.0)) shares.push_back(op.saved / all);
  }
  return shares;
}

// Micro-batches after which a stage does what it has done before.
int followed(const Strategy& strategy, const MemoryCurveOptions& options) {
  const int all = strategy.num_microbatches();
  const bool repeats = strategy.pipeline_schedule == PipelineSchedule::OneForwardOneBackward ||
                       strategy.pipeline_schedule == PipelineSchedule::Interleaved;
  if (options.whole_step || !repeats) return all;
  const int rounds = strategy.pipeline_schedule == PipelineSchedule::Interleaved ? 3 : 2;
  return std::min(all, rounds * strategy.pp + 1 - (rounds - 2));
}

class StepReplay {
 public:
  StepReplay(const Run& run, const LayerPrices& prices, int stage, const MemoryCurveOptions& options)
      : run_(run),
        strategy_(run.strategy),
        prices_(prices),
        contents_(run.model, run.strategy),
        stage_(stage),
        bytes_(stage_bytes(run, prices, contents_, stage)),
        num_microbatches_(followed(run.strategy, options)),
        holdings_(options) {
    const int moe_blocks = contents_.moe_blocks(stage);
    if (!options.reserved) return;
    if (moe_blocks < contents_.blocks(stage)) dense_shares_ = tensor_shares(run, LayerKind::Dense);
    if (moe_blocks > 0) moe_shares_ = tensor_shares(run, LayerKind::Moe);
  }

  MemoryCurve timeline() {
    timeline_.stage = stage_;
    hold_what_lasts();
    add_point("idle");
    const Held gathered = holdings_.take(MemoryKind::Gathered, bytes_.gathered);
    PipelineShape shape = pipeline_shape(strategy_);
    shape.num_microbatches = num_microbatches_;
    const std::vector<PipelinePass> passes = stage_order(shape, stage_);
    const auto makes_gradients = [](const PipelinePass& p) { return p.backward() && p.kind != PassKind::WeightGradient; };
    const auto last = std::find_if(passes.rbegin(), passes.rend(), makes_gradients);
    for (const PipelinePass& pass : passes) run(pass, &pass == &*last);
    holdings_.give(gathered);
    update();
    add_point("idle");
    return std::move(timeline_);
  }

 private:
  void run(const PipelinePass& pass, bool last) {
    switch (pass.kind) {
      case PassKind::Forward: return forward(pass);
      case PassKind::Backward: return backward(pass, last);
      case PassKind::DataGradient:
        backward(pass, last);
        waiting_[{pass.microbatch, pass.chunk}] = activations(weight_inputs(part(pass.chunk)));
        return;
      case PassKind::WeightGradient: return weight_gradients(pass);
    }
  }

  bool persists() const { return run_.framework.gradients.persist; }
  const ModelPart& part(int chunk) const { return contents_.part(stage_, chunk); }

  void hold_what_lasts() {
    const MemoryTerms lasting = lasting_terms(bytes_, run_.framework);
    for (int i = 0; i < kNumMemoryKinds; ++i) {
      const auto kind = static_cast<MemoryKind>(i);
      holdings_.take(kind, lasting[kind]);
    }
  }

  void forward(const PipelinePass& pass) {
    std::vector<Held>& kept = kept_[{pass.microbatch, pass.chunk}];
    const ModelPart& blocks = part(pass.chunk);
    if (blocks.embedding) kept.push_back(activations(prices_.embedding.saved));
    const Bytes each = blocks.blocks > 0 ? kept_by_blocks(run_, prices_, blocks) / blocks.blocks : Bytes(0.0);
    for (int block = 0; block < blocks.blocks; ++block) kept.push_back(activations(each, shares(blocks, block)));
    blocks_in_flight_ += blocks.blocks;
    if (run_.framework.kept.stage_outputs) kept.push_back(activations(stage_output(run_.model, strategy_)));
    if (blocks.head) kept.push_back(activations(prices_.head.saved));
    add_point("forward", pass.microbatch, blocks.first_layer + blocks.blocks - 1);
    if (blocks.head) loss(pass.microbatch);
  }

  // What the gradients of the weights need after those of the data are made: held_activations.h.
  Bytes weight_inputs(const ModelPart& blocks) const {
    const Bytes sum = blocks.blocks * mean_block(run_, prices_, blocks).weight_inputs;
    return blocks.head ? sum + prices_.head.weight_inputs : sum;
  }

  void weight_gradients(const PipelinePass& pass) {
    add_point("weight gradients", pass.microbatch);
    const auto waiting = waiting_.find({pass.microbatch, pass.chunk});
    holdings_.give(waiting->second);
    waiting_.erase(waiting);
  }

  void loss(int micro_batch) {
    const Held logits = holdings_.take(MemoryKind::Logits, bytes_.logits);
    add_point("loss", micro_batch);
    holdings_.give(logits);
  }

  // The pass's point is that of its highest block.
  void backward(const PipelinePass& pass, bool last) {
    std::vector<Held>& kept = kept_[{pass.microbatch, pass.chunk}];
    const ModelPart& blocks = part(pass.chunk);
    if (blocks.head) give_last(kept);
    if (run_.framework.kept.stage_outputs) give_last(kept);
    std::optional<MemoryPoint> high;
    for (int block = blocks.blocks - 1; block >= 0; --block) {
      const bool end = last && block == 0;
      MemoryPoint point = backward_block(blocks, block, pass, end);
      if (end && high) keep(std::exchange(*high, point));
      if (!high || point.allocated > high->allocated) high = std::move(point);
      give_last(kept);
      --blocks_in_flight_;
    }
    if (high) keep(std::move(*high));
    if (blocks.embedding) give_last(kept);
    kept_.erase({pass.microbatch, pass.chunk});
  }

  // Weight gradients come with the block's last GEMMs; of the step's last block they are there with everything else.
  MemoryPoint backward_block(const ModelPart& blocks, int block, const PipelinePass& pass, bool end) {
    const std::vector<double>& tensors = shares(blocks, block);
    if (pass.microbatch == num_microbatches_ - 1) reduce_gradients();
    const Bytes buffers = end ? bytes_.gradient_buffers : bytes_.waiting_gradients;
    const std::array<Held, 3> passing{holdings_.take(MemoryKind::Recomputed, restored_share(block) * bytes_.restored, tensors),
                                      holdings_.take(MemoryKind::ActivationGradients, bytes_.activation_gradients),
                                      holdings_.take(MemoryKind::GradientBuffers, buffers)};
    if (end) take_gradients(pass);
    MemoryPoint point = point_now(end ? "gradients" : "backward", pass.microbatch, blocks.first_layer + block);
    if (!end) take_gradients(pass);
    for (const Held& held : passing) holdings_.give(held);
    return point;
  }

  // All blocks from a checkpoint on are made again at once, and given back one by one.
  double restored_share(int block) const {
    if (strategy_.recompute.kind != RecomputeKind::Full) return 1.0;
    const double spacing = checkpoint_spacing(strategy_, run_.framework);
    return (std::fmod(block, spacing) + 1.0) / spacing;
  }

  // A block's share of the stage's gradients, in the first backward pass through it.
  void take_gradients(const PipelinePass& pass) {
    if (pass.microbatch != first_backward_.try_emplace(pass.chunk, pass.microbatch).first->second) return;
    unreduced_.push_back(holdings_.take(MemoryKind::GradientBuffers, bytes_.unreduced_gradients / contents_.blocks(stage_)));
    if (persists()) return;
    gradients_.push_back(holdings_.take(MemoryKind::Gradients, bytes_.gradients / contents_.blocks(stage_)));
  }

  // Those of a block, in the last backward pass through it.
  void reduce_gradients() {
    if (!unreduced_.empty()) give_last(unreduced_);
  }

  void update() {
    const Held main = holdings_.take(MemoryKind::MainGradients, bytes_.main_gradients);
    const Held temporaries = holdings_.take(MemoryKind::Temporaries, bytes_.temporaries);
    add_point("update");
    holdings_.give(main);
    holdings_.give(temporaries);
    if (persists()) return;
    for (const Held& held : gradients_) holdings_.give(held);
  }

  // Under offload only as much as stays on the device.
  Held activations(Bytes size, const std::vector<double>& tensors = {}) {
    const bool stays = !strategy_.offload.activations || holdings_.held(MemoryKind::Activations) + size <= bytes_.activations;
    return holdings_.take(MemoryKind::Activations, stays ? size : Bytes(0.0), tensors);
  }

  void give_last(std::vector<Held>& kept) {
    holdings_.give(kept.back());
    kept.pop_back();
  }

  const std::vector<double>& shares(const ModelPart& blocks, int block) const {
    return is_moe_layer(run_.model, blocks.first_layer + block) ? moe_shares_ : dense_shares_;
  }

  MemoryPoint point_now(const char* instant, std::optional<int> micro_batch = {}, std::optional<int> layer = {}) const {
    const bool last = micro_batch && *micro_batch == num_microbatches_ - 1;
    return {.instant = instant,
            .micro_batch = last ? strategy_.num_microbatches() - 1 : micro_batch,
            .layer = layer,
            .passes_in_flight = static_cast<int>(kept_.size()),
            .blocks_in_flight = blocks_in_flight_,
            .allocated = holdings_.allocated(),
            .reserved = holdings_.reserved(),
            .terms = holdings_.terms()};
  }

  void add_point(const char* instant, std::optional<int> micro_batch = {}, std::optional<int> layer = {}) {
    keep(point_now(instant, micro_batch, layer));
  }

  void keep(MemoryPoint point) {
    timeline_.points.push_back(std::move(point));
    if (timeline_.points.back().allocated > timeline_.peak().allocated) timeline_.highest = timeline_.points.size() - 1;
  }

  const Run& run_;
  const Strategy& strategy_;
  const LayerPrices& prices_;
  StageContents contents_;
  int stage_;
  StageBytes bytes_;
  int num_microbatches_;
  Holdings holdings_;
  std::vector<double> dense_shares_, moe_shares_;
  std::vector<Held> gradients_;
  std::vector<Held> unreduced_;
  int blocks_in_flight_ = 0;
  std::map<std::pair<int, int>, std::vector<Held>> kept_;  // of each pass in flight: micro-batch and chunk
  std::map<std::pair<int, int>, Held> waiting_;            // for weight gradients, the same
  std::map<int, int> first_backward_;                      // of each chunk: its first micro-batch
  MemoryCurve timeline_;
};

MemoryCurve taped_timeline(const Run& run, const LayerPrices& prices, int stage) {
  MemoryCurve timeline{.stage = stage};
  for (MemoryInstant& instant : memory_timeline(run, prices, stage)) {
    timeline.points.push_back({.instant = instant.name,
                               .allocated = instant.allocated,
                               .reserved = instant.allocated,
                               .terms = std::move(instant.terms)});
    if (instant.allocated > timeline.peak().allocated) timeline.highest = timeline.points.size() - 1;
  }
  return timeline;
}

}  // namespace

MemoryCurve memory_curve(const Run& run, const LayerPrices& prices, int stage, const MemoryCurveOptions& options) {
  if (follows_tape(run)) return taped_timeline(run, prices, stage);
  return StepReplay(run, prices, stage, options).timeline();
}

}  // namespace llmsim::sim
