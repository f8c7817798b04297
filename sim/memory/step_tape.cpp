#include "sim/memory/step_tape.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/base/dtype.h"
#include "sim/memory/block_tape.h"
#include "sim/memory/parameter_tape.h"
#include "sim/memory/partial_gradients.h"
#include "sim/memory/shards.h"
#include "sim/operators/loss.h"
#include "sim/schedule/pipeline.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {
namespace {

constexpr double kTokenId = 8.0;
constexpr double kFlag = 1.0;  // a bool

class StepWalk {
 public:
  StepWalk(const Run& run, int stage, int shard)
      : run_(run),
        model_(run.model),
        strategy_(run.strategy),
        stage_(stage),
        shard_(shard),
        shape_(pipeline_shape(run.strategy)),
        parts_(stage_parts(run.model, run.strategy, stage)),
        part_(parts_.front()),
        rank_(rank_parameters(run.model, run.strategy)),
        storage_(storage_of(run.strategy, run.framework)),
        e_(size_of(activation_dtype(run.strategy.precision)).value()),
        tokens_(static_cast<double>(run.strategy.micro_batch) * run.model.seq_len),
        columns_(static_cast<double>(run.model.vocab_size) / run.strategy.tp),
        parameters_(run.strategy, run.framework, run.strategy.shard_ranks(), all_units()),
        experts_(run.strategy, run.framework, run.strategy.expert_shard_ranks(), all_experts()) {
    for (const LayerKind kind : {LayerKind::Dense, LayerKind::Moe}) {
      if (blocks_of_kind(kind) == 0) continue;
      tapes_of(kind) = {.kept = block_tape(run.model, run.strategy, run.framework, plain_recompute(), kind),
                        .recomputed = block_tape(run.model, run.strategy, run.framework, {.kind = RecomputeKind::Full}, kind)};
    }
  }

  StepTape walk() {
    hold_states();
    ledger_.take(tape_.persistent());
    host_.take(tape_.host = parameters_.on_host() + experts_.on_host());
    ledger_.take(Bytes(kFp32Bytes));  // the loss, summed over micro-batches
    bool turned = false;
    for (const PipelinePass& pass : stage_order(shape_, stage_)) {
      enter(static_cast<std::size_t>(pass.chunk));
      if (pass.backward() && !std::exchange(turned, true)) tape_.after_forward = ledger_.now();
      pass.backward() ? backward(pass.microbatch + 1 == strategy_.num_microbatches()) : forward();
    }
    ledger_.give(static_cast<double>(sent_forward_ + sent_backward_) * residual());
    parameters_.finish_gradients(ledger_);
    experts_.finish_gradients(ledger_);
    sum_partial();
    ParameterTape::take_norm(ledger_);
    parameters_.update(ledger_, host_);
    experts_.update(ledger_, host_);
    mark("update");
    tape_.host_peak = host_.peak();
    tape_.peak = ledger_.peak();
    return tape_;
  }

 private:
  // A block as it is kept, or made again whole.
  struct BlockTapes {
    BlockTape kept;
    BlockTape recomputed;
  };

  LayerKind kind_of(int block) const { return kind_of_layer(model_, part_.first_layer + block); }
  BlockTapes& tapes_of(LayerKind kind) { return kind == LayerKind::Moe ? moe_ : dense_; }
  int blocks_of_kind(LayerKind kind) const {
    int blocks = 0;
    for (const ModelPart& part : parts_) blocks += kind == LayerKind::Moe ? part.moe_blocks : part.dense_blocks();
    return blocks;
  }

  // Blocks whose recomputation is not all of them or none.
  Recompute plain_recompute() const {
    return strategy_.recompute.kind == RecomputeKind::Selective ? strategy_.recompute : Recompute{};
  }

  bool recomputed(int block) const {
    const Recompute& recompute = strategy_.recompute;
    if (recompute.kind == RecomputeKind::EveryN) return block % recompute.every_n < recompute.share;
    if (recompute.kind != RecomputeKind::Full) return false;
    return recompute.blocks == 0 || block < recompute.blocks;
  }
  const BlockTape& tape_of(int block) const {
    const BlockTapes& tapes = kind_of(block) == LayerKind::Moe ? moe_ : dense_;
    return recomputed(block) ? tapes.recomputed : tapes.kept;
  }

  bool offloads(int block) const { return strategy_.offload.activations && recomputed(block); }
  static void move(Bytes size, Ledger& from, Ledger& to) {
    to.take(size);
    from.give(size);
  }

  bool divided() const { return strategy_.tp > 1; }
  bool gathers() const { return divided() && strategy_.sequence_parallel; }
  double rows() const { return gathers() ? tokens_ / strategy_.tp : tokens_; }
  Bytes residual() const { return Bytes(rows() * model_.hidden_size * e_); }
  Bytes whole_residual() const { return Bytes(tokens_ * model_.hidden_size * e_); }

  void hold_states() {
    tape_.weights = parameters_.weights() + experts_.weights();
    tape_.gradients = parameters_.gradients() + experts_.gradients();
    tape_.master = parameters_.master() + experts_.master();
    tape_.states = parameters_.states() + experts_.states();
    tape_.buffers = mask() + rotary() + held_tokens();
  }

  // Ids with the embedding, targets with the head.
  Bytes held_tokens() const {
    int kinds = 0;
    for (const ModelPart& part : parts_) kinds += (part.embedding ? 1 : 0) + (part.head ? 1 : 0);
    return Bytes(kinds * kTokenId * tokens_ * strategy_.num_microbatches());
  }

  std::vector<double> all_units() const {
    std::vector<double> all;
    for (const ModelPart& part : parts_) {
      if (part.embedding) all.push_back(rank_.embedding);
      for (int block = 0; block < part.blocks; ++block) all.push_back(block_parameters(part.first_layer + block));
      // A tied head on the embedding's own stage is the final norm alone.
      if (part.head) all.push_back(model_.tied_embeddings && part.has_table() ? rank_.head_layers : rank_.head);
    }
    return all;
  }

  double block_parameters(int layer) const {
    if (!is_moe_layer(model_, layer)) return rank_.block;
    return rank_.moe_block + (rank_.experts_divided ? 0.0 : rank_.experts);
  }

  // Of blocks whose routed experts are divided over expert ranks.
  std::vector<double> all_experts() const {
    double blocks = 0.0;
    for (const ModelPart& part : parts_) blocks += rank_.experts_divided ? part.moe_blocks : 0;
    return std::vector<double>(static_cast<std::size_t>(blocks), rank_.experts);
  }

  static std::size_t units_of(const ModelPart& part) {
    return static_cast<std::size_t>(part.blocks) + (part.embedding ? 1 : 0) + (part.head ? 1 : 0);
  }

  // A pass of this chunk begins.
  void enter(std::size_t chunk) {
    part_ = parts_[chunk];
    first_unit_ = first_expert_ = 0;
    for (std::size_t before = 0; before < chunk; ++before) {
      first_unit_ += units_of(parts_[before]);
      first_expert_ += static_cast<std::size_t>(parts_[before].moe_blocks);
    }
  }

  std::size_t embedding_unit() const { return first_unit_; }
  std::size_t block_unit(int block) const { return first_unit_ + static_cast<std::size_t>(block) + (part_.embedding ? 1 : 0); }
  std::size_t head_unit() const { return block_unit(part_.blocks); }

  bool divided_experts(int block) const { return rank_.experts_divided && kind_of(block) == LayerKind::Moe; }
  std::size_t expert_unit(int block) const {
    return first_expert_ + static_cast<std::size_t>(count_moe_layers(model_, part_.first_layer, block));
  }

  std::vector<std::size_t> expert_units() const {
    std::vector<std::size_t> order(rank_.experts_divided ? static_cast<std::size_t>(part_.moe_blocks) : 0);
    std::iota(order.begin(), order.end(), first_expert_);
    return order;
  }
  std::vector<std::size_t> backward_expert_units() const {
    std::vector<std::size_t> order = expert_units();
    std::reverse(order.begin(), order.end());
    return order;
  }

  std::vector<std::size_t> forward_units() const {
    std::vector<std::size_t> order(units_of(part_));
    std::iota(order.begin(), order.end(), first_unit_);
    return order;
  }
  std::vector<std::size_t> backward_units() const {
    std::vector<std::size_t> order = forward_units();
    std::reverse(order.begin(), order.end());
    if (tied_here()) std::rotate(order.begin(), order.end() - 1, order.end());
    return order;
  }

  Bytes mask() const {
    const double side = strategy_.flash_attention ? std::min(kAttentionBlock, model_.seq_len) : model_.seq_len;
    return Bytes(side * side * kFlag);
  }
  Bytes rotary() const {
    const int turned = model_.mla ? model_.mla->qk_rope_head_dim : model_.head_dim;
    return model_.position == Position::Rope ? Bytes(static_cast<double>(model_.seq_len) * turned * e_) : Bytes(0.0);
  }

  // A tensor goes to a neighbour and is held until enough later ones want to go the same way.
  void send(int& under_way) {
    if (under_way == messages_under_way(shape_))
      ledger_.give(residual());
    else
      ++under_way;
  }

  void forward() {
    if (!part_.embedding) ledger_.take(residual());  // received
    parameters_.begin_pass(ledger_, forward_units());
    experts_.begin_pass(ledger_, expert_units());
    if (part_.embedding) {
      parameters_.before_forward(ledger_, embedding_unit());
      embed();
      if (!tied_here()) parameters_.after_forward(ledger_, embedding_unit());
    }
    for (int block = 0; block < part_.blocks; ++block) {
      parameters_.before_forward(ledger_, block_unit(block));
      if (divided_experts(block)) experts_.before_forward(ledger_, expert_unit(block));
      ledger_.run(tape_of(block).forward);
      if (offloads(block)) move(residual(), ledger_, host_);
      parameters_.after_forward(ledger_, block_unit(block));
      if (divided_experts(block)) experts_.after_forward(ledger_, expert_unit(block));
    }
    mark("forward");
    if (!part_.head) return send(sent_forward_);
    parameters_.before_forward(ledger_, head_unit());
    if (chunks() > 0) parameters_.lend_gradients(ledger_, tied_here() ? embedding_unit() : head_unit());
    lose();
    parameters_.after_forward(ledger_, head_unit());
    if (tied_here()) parameters_.after_forward(ledger_, embedding_unit());
    ledger_.give(Bytes(kFp32Bytes));  // of this micro-batch
    mark("loss");
  }

  void backward(bool last) {
    if (!part_.head) ledger_.take(residual());  // received
    parameters_.begin_pass(ledger_, backward_units());
    experts_.begin_pass(ledger_, backward_expert_units());
    if (part_.head) {
      if (tied_here()) parameters_.before_backward(ledger_, embedding_unit());
      parameters_.before_backward(ledger_, head_unit());
      head_backward();
      parameters_.after_backward(ledger_, head_unit(), last);
    }
    for (int block = part_.blocks - 1; block >= 0; --block) {
      parameters_.before_backward(ledger_, block_unit(block));
      if (divided_experts(block)) experts_.before_backward(ledger_, expert_unit(block));
      if (offloads(block)) move(residual(), host_, ledger_);
      ledger_.run(tape_of(block).backward);
      parameters_.after_backward(ledger_, block_unit(block), last);
      if (divided_experts(block)) experts_.after_backward(ledger_, expert_unit(block), last);
    }
    if (part_.embedding) {
      if (!tied_here()) parameters_.before_backward(ledger_, embedding_unit());
      embed_backward();
      parameters_.after_backward(ledger_, embedding_unit(), last);
    } else {
      send(sent_backward_);
    }
    mark("backward");
  }

  bool tied_here() const { return model_.tied_embeddings && part_.embedding && part_.head; }

  // Token ids of this rank's rows, and which tokens are others'.
  void local_ids(Ledger& ledger) const {
    ledger.take(Bytes(tokens_ * (kTokenId + kFlag)));
    ledger.pass(Bytes(tokens_ * kFlag));
  }
  Bytes local_id_bytes() const { return Bytes(tokens_ * (kTokenId + kFlag)); }

  void embed() {
    if (divided()) local_ids(ledger_);
    ledger_.take(whole_residual());
    if (divided()) ledger_.give(local_id_bytes());
    if (!gathers()) return;
    ledger_.take(residual());
    ledger_.give(whole_residual());
  }

  void embed_backward() {
    if (gathers()) {
      ledger_.take(whole_residual());
      ledger_.give(residual());
    }
    const double positions = static_cast<double>(model_.seq_len) * model_.hidden_size;
    const bool wide = storage_.gradient_bytes > e_;
    if (model_.position == Position::Learned) ledger_.pass(Bytes(positions * (e_ + (wide ? kFp32Bytes : 0.0))));
    const Bytes cast(wide ? tokens_ * model_.hidden_size * kFp32Bytes : 0.0);
    if (divided()) {
      local_ids(ledger_);
      ledger_.pass(whole_residual() + cast);
      ledger_.give(local_id_bytes());
    } else {
      ledger_.pass(cast);
    }
    ledger_.give(whole_residual());
  }

  NormTape final_norm() const {
    return {.kind = model_.norm,
            .rows = rows(),
            .width = static_cast<double>(model_.hidden_size),
            .element = e_,
            .gradient_element = storage_.gradient_bytes,
            .weight = model_.norm_weight,
            .bias = model_.norm_weight && model_.bias.norm};
  }

  std::int64_t chunks() const {
    return strategy_.fused_cross_entropy ? loss_chunks(model_, run_.framework, static_cast<std::int64_t>(tokens_)) : 0;
  }

  // Ends holding the loss and what its backward pass needs.
  void lose() {
    final_norm().forward(ledger_);
    if (chunks() > 0) {
      lose_by_chunks();
      return;
    }
    if (gathers()) ledger_.take(whole_residual());
    ledger_.take(Bytes(tokens_ * columns_ * e_));
    if (gathers()) ledger_.give(whole_residual());
    cross_entropy(tokens_);
    ledger_.take(Bytes(kFp32Bytes));
  }

  // From logits to what is kept of them, in fp32.
  void cross_entropy(double tokens) {
    const Bytes wide(tokens * columns_ * kFp32Bytes);
    if (e_ < kFp32Bytes) {
      ledger_.take(wide);
      ledger_.give(Bytes(tokens * columns_ * e_));
    }
    if (!divided()) {
      ledger_.pass(wide);
      ledger_.pass(Bytes(tokens * kFp32Bytes + kFp32Bytes));
      return;
    }
    ledger_.take(Bytes(tokens * (kTokenId + kFlag)));
    ledger_.pass(Bytes(tokens * kFlag));
    ledger_.pass(Bytes(3.0 * tokens * kFp32Bytes));
    ledger_.give(Bytes(tokens * (kTokenId + kFlag)));
  }

  // From what is kept to the gradient of the logits.
  void cross_entropy_backward(double tokens) {
    if (divided()) {
      ledger_.pass(Bytes(tokens * (kTokenId + 2.0 * kFlag)));
      ledger_.pass(Bytes(tokens * (kTokenId + kFlag + kFp32Bytes)));
    } else {
      ledger_.pass(Bytes(tokens * kFp32Bytes));
    }
    if (e_ == kFp32Bytes) return;
    ledger_.take(Bytes(tokens * columns_ * e_));
    ledger_.give(Bytes(tokens * columns_ * kFp32Bytes));
  }

  void head_gradient() {
    if (storage_.gradient_bytes > e_) ledger_.pass(Bytes(columns_ * model_.hidden_size * (e_ + storage_.gradient_bytes)));
  }

  void lose_by_chunks() {
    if (gathers()) {
      ledger_.take(whole_residual());
      ledger_.give(residual());
    }
    ledger_.take(whole_residual() + Bytes(kFp32Bytes));
    const double pieces = static_cast<double>(chunks()),
                 largest = std::min(
                     tokens_, static_cast<double>((static_cast<std::int64_t>(tokens_) + static_cast<std::int64_t>(pieces) - 1) /
                                                  static_cast<std::int64_t>(pieces)));
    ledger_.take(Bytes(largest * columns_ * e_));
    cross_entropy(largest);
    ledger_.take(Bytes(kFp32Bytes));
    cross_entropy_backward(largest);
    head_gradient();
    ledger_.give(Bytes(largest * columns_ * e_ + kFp32Bytes));
    ledger_.give(whole_residual());  // the norm's output
  }

  void head_backward() {
    if (chunks() == 0) {
      cross_entropy_backward(tokens_);
      ledger_.take(whole_residual());
      if (gathers()) ledger_.take(whole_residual());
      head_gradient();
      if (gathers()) ledger_.give(whole_residual());
      ledger_.give(residual() + Bytes(tokens_ * columns_ * e_));
    }
    if (gathers()) {
      ledger_.take(residual());
      ledger_.give(whole_residual());
    }
    final_norm().backward(ledger_);
    ledger_.give(2.0 * residual() + final_norm().statistics());
  }

  // Gradients of which every tensor rank has a part, side by side.
  void sum_partial() {
    if (divided()) ledger_.pass(Bytes(partial_gradients(model_, strategy_, parts_, shard_) * storage_.gradient_bytes));
  }

  void mark(const char* instant) {
    if (ledger_.peak() <= tape_.peak) return;
    tape_.peak = ledger_.peak();
    tape_.instant = instant;
  }

  const Run& run_;
  const Transformer& model_;
  const Strategy& strategy_;
  int stage_;
  int shard_;
  PipelineShape shape_;
  std::vector<ModelPart> parts_;
  ModelPart part_;  // of the pass under way
  RankParameters rank_;
  ParameterStorage storage_;
  double e_;
  double tokens_;
  double columns_;
  BlockTapes dense_;
  BlockTapes moe_;
  ParameterTape parameters_;
  ParameterTape experts_;       // those that are divided over expert ranks
  std::size_t first_unit_ = 0;  // of the chunk under way
  std::size_t first_expert_ = 0;
  Ledger ledger_;
  Ledger host_;
  int sent_forward_ = 0;  // tensors under way to a neighbour
  int sent_backward_ = 0;
  StepTape tape_;
};

bool executes_mla(const Transformer& m) {
  return m.norm == Norm::RmsNorm && m.position == Position::Rope && !m.bias.qkv && m.mla->qk_rope_head_dim > 0 &&
         m.mla->qk_rope_head_dim % 2 == 0;
}

bool executes(const Transformer& m) {
  if (m.mla && !executes_mla(m)) return false;
  return m.mtp_layers == 0 && !m.encoder && !m.parallel_block && m.norms_per_layer == 2 && m.qk_norm == QkNorm::None &&
         !m.embedding_norm && m.final_norm && !m.attention_sinks && !m.bias.head &&
         (m.position == Position::Rope || m.position == Position::Learned);
}

// All-to-alls of rows; experts divided as the rest is, or whole.
bool executes(const Strategy& s) {
  return s.plain_experts() && (s.expert_tensor_ranks() == s.tp || s.expert_tensor_ranks() == 1);
}

bool executes(const Recompute& recompute, const Offload& offload) {
  if (recompute.kind == RecomputeKind::Op || (recompute.kind == RecomputeKind::Full && recompute.every_n > 1)) return false;
  if (offload.modules.any() || offload.blocks > 0) return false;
  return !offload.parameters && (!offload.activations || recompute.kind == RecomputeKind::Full);
}

}  // namespace

bool follows_tape(const Run& run) {
  const Transformer& m = run.model;
  const Strategy& s = run.strategy;
  const bool formats = s.precision == Precision::Fp32 || s.precision == Precision::Bf16;
  const bool divides = m.num_kv_heads % s.tp == 0 && m.vocab_size % s.tp == 0;
  const bool table = !m.tied_embeddings || s.pp == 1 || s.sharding == Sharding::None;
  const bool schedule = s.pipeline_schedule <= PipelineSchedule::Interleaved;
  return run.framework.follows_tape && schedule && executes(m) && executes(s.recompute, s.offload) && formats && divides &&
         table && s.cp == 1 && executes(s) && !s.adapters && !s.cuda_graph && s.optimizer == OptimizerKind::AdamW;
}

StepTape step_tape(const Run& run, int stage, int shard) { return StepWalk(run, stage, shard).walk(); }

}  // namespace llmsim::sim
