#include "sim/memory/shards.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/operators/tower.h"
#include "sim/pipeline/stage_order.h"
#include "sim/strategy/adapters.h"

namespace llmsim::sim {
namespace {

// Widths (in, out) of the adapted linear layers of a block, summed: each adapter has rank * (in +
// out) values.
double adapted_widths(const Transformer& model, const Adapters& adapters, LayerKind kind) {
  std::int64_t widths = 0;
  for (const LayerWeight& weight : layer_weights(model, kind)) {
    for (const std::int64_t columns : adapted_columns(adapters.layers, weight))
      widths += weight.rows + columns;
  }
  return static_cast<double>(widths);
}

// A kind of layer on one tensor rank.
KindParameters kind_parameters(const Transformer& model, const Strategy& strategy, LayerKind kind) {
  std::int64_t divided = 0, replicated = 0, partial = 0, divided_experts = 0,
               replicated_experts = 0;
  for (const LayerWeight& weight : layer_weights(model, kind)) {
    const bool expert = weight.part == LayerPart::Experts;
    (expert ? replicated_experts : weight.partial ? partial : replicated) += weight.replicated();
    (expert ? divided_experts : divided) += weight.parameters() - weight.replicated();
  }
  const auto held = [](std::int64_t shared_out, int ranks, std::int64_t by_all) {
    return static_cast<double>(shared_out) / ranks + static_cast<double>(by_all);
  };
  KindParameters block{.own = held(divided, strategy.tp, replicated + partial),
                       .replicated = static_cast<double>(replicated),
                       .partial = static_cast<double>(partial)};
  if (kind.has_experts())
    block.experts =
        held(divided_experts, strategy.expert_tensor_ranks(), replicated_experts) / strategy.ep;
  if (strategy.adapters)
    block.adapters = strategy.adapters->rank * adapted_widths(model, *strategy.adapters, kind) /
                     static_cast<double>(strategy.tp);
  return block;
}

// Parameters of a tower on one tensor rank.
double tower_on_rank(const Tower& tower, const Transformer& model, const Strategy& strategy) {
  const Strategy of_tower = tower_strategy(tower, strategy);
  double held = real(tower_parameters(tower, model.hidden_size));
  for (const Transformer& layers : tower_layers(tower)) {
    const double own = kind_parameters(layers, of_tower, kind_of_layer(layers, 0)).own;
    held += layers.num_layers * (own - real(block_parameters(layers, 0).total()));
  }
  return held;
}

// 4-bit values with one fp32 scale per 64 of them.
constexpr double kPackedFourBit = 0.5 + 4.0 / 64.0;

StateShards shards_over(double ranks, const Strategy& strategy) {
  StateShards shards;
  if (strategy.sharding == Sharding::None) return shards;
  shards.optimizer = ranks;
  if (strategy.sharding != Sharding::Zero1) shards.gradients = ranks;
  if (strategy.sharding == Sharding::Zero3 || strategy.sharding == Sharding::Hsdp)
    shards.weights = ranks;
  return shards;
}

}  // namespace

RankParameters rank_parameters(const Transformer& model, const Strategy& strategy) {
  const double tensor = strategy.tp;
  const Parameters whole = embedding_and_head_parameters(model);
  RankParameters rank;
  const auto norm = static_cast<double>(norm_parameters(model));
  const auto undivided = static_cast<double>(undivided_head_parameters(model));
  rank.head_layers = (model.final_norm ? norm : 0.0) + undivided;
  const std::int64_t ngrams = ngram_tables(model);
  rank.embedding = static_cast<double>(whole.embedding + ngrams) / tensor +
                   static_cast<double>(whole.positions - ngrams);
  const double head = model.tied_embeddings ? static_cast<double>(whole.embedding)
                                            : static_cast<double>(whole.head) - undivided;
  rank.head = head / tensor + rank.head_layers;
  rank.tied = model.tied_embeddings;
  rank.predicts = model.mtp_layers > 0;
  const double h = model.hidden_size;
  rank.prediction = model.mtp_layers * (2.0 * h * h / tensor + 3.0 * norm);
  rank.adapted = strategy.adapters.has_value();
  const LayerKinds kinds = layer_kinds(model);
  for (std::size_t slot = 0; slot < kinds.size(); ++slot)
    rank.kinds[slot] = kind_parameters(model, strategy, kinds[slot]);
  for_each_running_tower(model, [&](const char*, const Tower& tower) {
    const double held = tower_on_rank(tower, model, strategy);
    rank.tower += held;
    if (tower.frozen) rank.frozen_tower += held;
  });
  rank.experts_divided = model.moe && strategy.divides_experts();
  if (model.embedding_norm && model.moe) rank.embedding += norm;
  if (model.embedding_norm && !model.moe)
    for (KindParameters& block : rank.kinds)
      block.own += norm / model.num_layers, block.replicated += norm / model.num_layers;
  return rank;
}

double RankParameters::embedding_and_head(const ModelChunk& chunk) const {
  double sum = 0.0;
  if (chunk.embedding) sum += embedding + tower;
  if (chunk.head) sum += prediction + (tied && chunk.has_table() ? head_layers : head);
  if (chunk.head && predicts && !tied && !chunk.has_table()) sum += embedding;
  return sum;
}

double RankParameters::read_embedding_and_head(ModelChunk chunk) const {
  chunk.meets_embedding = false;
  return embedding_and_head(chunk);
}

double RankParameters::blocks(const ModelChunk& chunk) const {
  double sum = 0.0;
  for_each_kind(chunk.of_kind,
                [&](std::size_t slot, int blocks) { sum += blocks * kinds[slot].all(); });
  return sum;
}

double RankParameters::adapters(const LayerCounts& blocks) const {
  double sum = 0.0;
  for_each_kind(blocks, [&](std::size_t slot, int count) { sum += count * kinds[slot].adapters; });
  return sum;
}

double RankParameters::largest_block(bool with_divided) const {
  double largest = 0.0;
  for (std::size_t slot = 0; slot < kinds.size(); ++slot)
    largest = std::max(largest, with_divided ? kinds[slot].all() : without_divided(slot));
  return largest;
}

double RankParameters::held(const ModelChunk& chunk) const {
  return blocks(chunk) + embedding_and_head(chunk);
}

double RankParameters::divided_experts(const ModelChunk& chunk) const {
  double sum = 0.0;
  for_each_kind(chunk.of_kind,
                [&](std::size_t slot, int blocks) { sum += blocks * divided_experts(slot); });
  return sum;
}

double RankParameters::trained(const ModelChunk& chunk) const {
  return adapted ? adapters(chunk.of_kind) : blocks(chunk) + trained_embedding_and_head(chunk);
}

StateShards state_shards(const Strategy& strategy) {
  return shards_over(strategy.shard_ranks(), strategy);
}
StateShards expert_state_shards(const Strategy& strategy) {
  return shards_over(strategy.expert_shard_ranks(), strategy);
}

double checkpoint_spacing(const Strategy& strategy, const Framework& framework) {
  return std::max(1.0, strategy.recompute.every_n / framework.saved.parts_per_block);
}

bool divides_checkpoints(const Strategy& strategy, const Framework& framework) {
  return strategy.tp > 1 && framework.saved.partitioned_checkpoints &&
         strategy.recompute.kind == RecomputeKind::Full && !strategy.sequence_parallel;
}

StageParameters held_parameters(const RankParameters& rank, const ModelChunk& chunk) {
  const double experts = rank.divided_experts(chunk);
  return {.shared = rank.held(chunk) - experts, .experts = experts};
}

StageParameters trained_parameters(const RankParameters& rank, const ModelChunk& chunk) {
  const double experts = rank.trained_divided_experts(chunk);
  return {.shared = rank.trained(chunk) - experts, .experts = experts};
}

double stored_inputs_per_block(const Strategy& strategy, const Framework& framework) {
  if (strategy.recompute.kind != RecomputeKind::Full) return 1.0;
  const double share = divides_checkpoints(strategy, framework) ? strategy.tp : 1.0;
  return 1.0 / (checkpoint_spacing(strategy, framework) * share);
}

ParameterStorage storage_of(const Strategy& strategy, const Framework& framework) {
  ParameterStorage storage = framework.storage;
  if (size_of(activation_dtype(strategy.precision)) == size_of(DType::Fp32)) {
    storage.weight_bytes = storage.gradient_bytes = 4.0;
    storage.main_gradient_bytes = storage.master_bytes = 0.0;
  }
  if (strategy.precision == Precision::Nf4 || strategy.precision == Precision::Int4)
    storage.weight_bytes = kPackedFourBit;
  return storage;
}

double gradient_wire_bytes(const Run& run) {
  if (run.framework.gradients.reduced_in_fp32) return size_of(DType::Fp32).value();
  const double stored = storage_of(run.strategy, run.framework).gradient_bytes;
  return std::min(stored, size_of(activation_dtype(run.strategy.precision)).value());
}

namespace {

// Elements [begin, end) of a unit.
struct Range {
  double begin = 0.0, end = 0.0;
};

// A unit's parameters, and which of them are summed.
class UnitLayout {
 public:
  explicit UnitLayout(bool divides_tokens) : divides_tokens_(divides_tokens) { summed_.reserve(8); }

  void add(double elements) { size_ += elements; }
  void add_partial(double elements) {
    if (elements > 0.0) summed_.push_back({size_, size_ + elements});
    size_ += elements;
  }
  void add_own_tokens(double elements) { divides_tokens_ ? add_partial(elements) : add(elements); }

  double in_shard(double ranks, int shard) const {
    const double piece = std::ceil(size_ / ranks), begin = shard * piece;
    double values = 0.0;
    for (const Range& range : summed_)
      values += std::max(0.0, std::min(range.end, begin + piece) - std::max(range.begin, begin));
    return values;
  }

 private:
  bool divides_tokens_;
  double size_ = 0.0;
  std::vector<Range> summed_;
};

// A layer's weights, but for routed experts that are divided over ranks of their own.
UnitLayout layer_unit(const Transformer& model, const Strategy& strategy,
                      const RankParameters& rank, LayerKind kind, std::size_t slot) {
  UnitLayout layout(strategy.sequence_parallel);
  for (const LayerWeight& weight : layer_weights(model, kind)) {
    if (weight.part == LayerPart::Experts) continue;
    const auto replicated = static_cast<double>(weight.replicated());
    layout.add((static_cast<double>(weight.parameters()) - replicated) / strategy.tp);
    weight.partial ? layout.add_partial(replicated) : layout.add_own_tokens(replicated);
  }
  if (kind.has_experts() && !rank.experts_divided) layout.add(rank.kinds[slot].experts);
  return layout;
}

UnitLayout head_unit(const Strategy& strategy, const RankParameters& rank,
                     const ModelChunk& chunk) {
  UnitLayout layout(strategy.sequence_parallel);
  layout.add_own_tokens(rank.head_layers);
  if (!(rank.tied && chunk.has_table())) layout.add(rank.head - rank.head_layers);
  return layout;
}

}  // namespace

StageContents::StageContents(const Run& run)
    : StageContents(
          run,
          std::make_shared<const EqualStages>(run.model, run.strategy, run.framework.low_precision),
          rank_parameters(run.model, run.strategy)) {}

StageContents::StageContents(const Run& run, std::shared_ptr<const EqualStages> stages,
                             const RankParameters& rank)
    : strategy_(run.strategy), stages_(std::move(stages)), rank_(rank) {
  for (const EqualStages::Kind& kind : stages_->kinds()) {
    Sums& sums = sums_.emplace_back();
    for (int number = 0; number < chunks(); ++number) {
      const ModelChunk& own = chunk(kind.first, number);
      sums.blocks += own.blocks, sums.moe_blocks += own.moe_blocks;
      for_each_kind(own.of_kind,
                    [&](std::size_t slot, int blocks) { sums.of_kind[slot] += blocks; });
      sums.held += rank_.held(own), sums.trained += rank_.trained(own);
      sums.divided_experts += rank_.divided_experts(own);
    }
  }
}

int StageContents::chunks_in_flight(int stage) const {
  return peak_in_flight(pipeline_shape(strategy_), stage);
}

double partial_gradients(const Transformer& model, const Strategy& strategy,
                         const std::vector<ModelChunk>& chunks, int shard) {
  return partial_gradients(model, strategy, rank_parameters(model, strategy), chunks, shard);
}

double partial_gradients(const Transformer& model, const Strategy& strategy,
                         const RankParameters& rank, const std::vector<ModelChunk>& chunks,
                         int shard) {
  const auto in_shard = [&](const UnitLayout& layout) {
    return layout.in_shard(strategy.shard_ranks(), shard);
  };
  double values = 0.0;
  LayerCounts blocks{};
  for (const ModelChunk& chunk : chunks) {
    for_each_kind(chunk.of_kind, [&](std::size_t slot, int count) { blocks[slot] += count; });
    if (chunk.head) values += in_shard(head_unit(strategy, rank, chunk));
  }
  const LayerKinds kinds = layer_kinds(model);
  for_each_kind(blocks, [&](std::size_t slot, int count) {
    values += count * in_shard(layer_unit(model, strategy, rank, kinds[slot], slot));
  });
  return values;
}

}  // namespace llmsim::sim
