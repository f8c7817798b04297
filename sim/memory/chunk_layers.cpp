#include "sim/memory/chunk_layers.h"

#include <algorithm>
#include <cmath>

#include "sim/memory/memory_account.h"
#include "sim/model/layer_kinds.h"

namespace llmsim::sim {
namespace {

double padded(double parameters, double ranks) { return std::ceil(parameters / ranks) * ranks; }

// A copy of the weights in the format of the GEMMs for each pass of a unit.
bool casts_units(const Framework& framework) {
  return framework.casts_weights_per_microbatch && framework.casts_weights_in_backward;
}

// How the units of a run are made.
class UnitSizes {
 public:
  UnitSizes(const Strategy& strategy, const Framework& framework)
      : strategy_(strategy),
        rules_(unit_rules(strategy, framework)),
        storage_(storage_of(strategy, framework)) {
    element_ = size_of(activation_dtype(strategy.precision)).value();
    high_precision_ = storage_.weight_bytes > element_;
    whole_ = rules_.shards_weights || (high_precision_ && casts_units(framework));
  }

  Units of(double shared, double experts) const {
    if (!rules_.freed) return {};
    return {.shared = unit(shared, strategy_.shard_ranks()),
            .experts = unit(experts, strategy_.expert_shard_ranks())};
  }
  bool freed() const { return rules_.freed; }

 private:
  Unit unit(double parameters, double ranks) const {
    Unit unit;
    const double all = padded(parameters, ranks);
    if (whole_) unit.whole = Bytes(all * element_);
    if (rules_.shards_weights && high_precision_) unit.sent = Bytes(all / ranks * element_);
    if (rules_.shards_gradients) unit.gradients = Bytes(all * storage_.gradient_bytes);
    return unit;
  }

  const Strategy& strategy_;
  UnitRules rules_;
  ParameterStorage storage_;
  double element_ = 0.0;
  bool high_precision_ = false, whole_ = false;
};

// What tells blocks apart.
struct BlockKind {
  std::size_t slot = 0;  // of the model's kinds of layer
  bool kept = false, high_precision = false;
  double offloaded = 0.0;    // share of what it saves
  int since_checkpoint = 0;  // blocks
  bool operator==(const BlockKind&) const = default;
};

bool is_high_precision(const Run& run, const LayerPrices& prices, int layer) {
  return prices.high_precision && is_high_precision_layer(run.framework.low_precision,
                                                          run.strategy.precision, run.model, layer);
}

BlockKind kind_of(const Run& run, const LayerPrices& prices, const LayerKinds& kinds,
                  const ModelChunk& chunk, int block) {
  const Strategy& strategy = run.strategy;
  const int layer = chunk.first_layer + block;
  BlockKind kind{.slot = kinds.slot(kind_of_layer(run.model, layer)),
                 .kept = strategy.recompute.mixes() && !strategy.recompute.repeats(block),
                 .high_precision = is_high_precision(run, prices, layer)};
  // The runtime sends checkpoints alone.
  const bool offloads = strategy.offload.activations && (run.framework.autograd || !kind.kept);
  if (offloads)
    kind.offloaded = std::clamp(offloading_blocks(strategy, chunk.blocks) - block, 0.0, 1.0);
  if (kind.kept || strategy.recompute.kind != RecomputeKind::Full) return kind;
  const double spacing = checkpoint_spacing(strategy, run.framework);
  if (spacing != 1.0) kind.since_checkpoint = static_cast<int>(std::fmod(block, spacing));
  return kind;
}

// Whether all blocks of a chunk are of one kind, wherever they are in it.
bool are_alike(const Run& run, const LayerPrices& prices, const ModelChunk& chunk) {
  const Strategy& strategy = run.strategy;
  return chunk.has_one_kind() && !prices.high_precision && !strategy.recompute.mixes() &&
         !strategy.offload.activations &&
         (strategy.recompute.kind != RecomputeKind::Full ||
          checkpoint_spacing(strategy, run.framework) == 1.0);
}

const BlockPrice& price_of(const LayerPrices& prices, const BlockKind& kind) {
  const BlockPrices& blocks = kind.high_precision ? *prices.high_precision : prices;
  return (kind.kept ? blocks.whole_blocks : blocks.blocks)[kind.slot];
}

Bytes cast_weights(const Run& run, double parameters) {
  const bool casts =
      run.strategy.sharding < Sharding::Zero3 && runs_autocast(run.framework, run.strategy);
  return casts ? parameters * size_of(activation_dtype(run.strategy.precision)) : Bytes(0.0);
}

// A head that is not made in chunks.
Bytes cast_head(const Run& run, const RankParameters& rank) {
  return run.strategy.fused_cross_entropy
             ? Bytes(0.0)
             : cast_weights(run, rank.tied ? rank.embedding : rank.head);
}

Layer block_of(const Run& run, const LayerPrices& prices, const RankParameters& rank,
               const UnitSizes& units, const BlockKind& kind) {
  const BlockPrice& price = price_of(prices, kind);
  const double divided = rank.divided_experts(kind.slot);
  Layer layer{.memory = &price.memory};
  layer.units = units.of(rank.without_divided(kind.slot), divided);
  layer.divides_experts = units.freed() && divided > 0.0;
  layer.cast_weights = cast_weights(run, rank.without_divided(kind.slot) + divided);
  layer.casts_stay = kind.kept || run.strategy.recompute.kind != RecomputeKind::Full;
  if (!kind.kept && run.strategy.recompute.kind == RecomputeKind::Full) {
    const double stored = stored_inputs_per_block(run.strategy, run.framework);
    layer.stored_less = (1.0 - stored) * stage_output(run.model, run.strategy);
    layer.rerun_before = kind.since_checkpoint * price.memory.everything;
  }
  layer.stored_less += kind.offloaded * offloaded_by_block(run, price);
  return layer;
}

}  // namespace

UnitRules unit_rules(const Strategy& strategy, const Framework& framework) {
  UnitRules rules;
  rules.freed = framework.sharded.flat_units && !framework.sharded.root_stays_gathered;
  rules.shards_weights = strategy.sharding >= Sharding::Zero3;
  rules.shards_gradients = strategy.sharding >= Sharding::Zero2;
  rules.stay_whole =
      rules.freed && rules.shards_weights && !framework.sharded.regathers_in_backward;
  rules.gathered_once = gathers_units_once(framework, strategy);
  rules.reduced_every_microbatch = reduces_every_microbatch(framework, strategy);
  rules.ahead = rules.shards_weights ? framework.sharded.prefetch_units : 0;
  return rules;
}

void ChunkLayers::add(const Layer& layer, int index) {
  kinds_.push_back(layer);
  add_again(kinds_.size() - 1, index);
}

void ChunkLayers::add_again(std::size_t kind, int index) {
  const auto place = static_cast<std::uint16_t>(kind);
  order_.push_back({place, index});
  if (kinds_[kind].divides_experts) with_experts_.push_back(place);
}

double offloading_blocks(const Strategy& strategy, int blocks) {
  const int chosen = strategy.offload.blocks;
  return chosen == 0
             ? blocks
             : std::min<double>(blocks, static_cast<double>(chosen) / strategy.virtual_stages);
}

Bytes offloaded_by_block(const Run& run, const BlockPrice& block) {
  return run.strategy.offload.modules.any()
             ? block.offloaded
             : stored_inputs_per_block(run.strategy, run.framework) * block.saved;
}

ChunkLayers chunk_layers(const Run& run, const LayerPrices& prices, const RankParameters& rank,
                         const ModelChunk& chunk) {
  const UnitSizes units(run.strategy, run.framework);
  ChunkLayers layers(chunk, rank.tied);
  if (chunk.embedding)
    layers.add({.kind = UnitKind::Embedding,
                .memory = &prices.embedding.memory,
                .units = units.of(rank.embedding, 0.0)},
               kNoLayer);
  const std::size_t first = layers.kinds().size();
  const LayerKinds kinds = layer_kinds(run.model);
  const bool alike = are_alike(run, prices, chunk);
  std::vector<BlockKind> known;
  for (int block = 0; block < chunk.blocks; ++block) {
    if (alike && block > 0) {
      layers.add_again(first, block);
      continue;
    }
    const BlockKind kind = kind_of(run, prices, kinds, chunk, block);
    const auto found = std::find(known.begin(), known.end(), kind);
    if (found != known.end()) {
      layers.add_again(first + static_cast<std::size_t>(found - known.begin()), block);
      continue;
    }
    known.push_back(kind);
    layers.add(block_of(run, prices, rank, units, kind), block);
  }
  if (chunk.head) {
    const double head = rank.tied && chunk.has_table() ? rank.head_layers : rank.head;
    layers.add({.kind = UnitKind::Head,
                .memory = &prices.head.memory,
                .cast_weights = cast_head(run, rank),
                .units = units.of(head, 0.0)},
               kLossLayer);
  }
  return layers;
}

Bytes offloaded_bytes(const Run& run, const ChunkLayers& layers) {
  Bytes size;
  if (!run.strategy.offload.activations) return size;
  for (int i = 0; i < layers.size(); ++i) size += layers[i].stored_less;
  return size;
}

}  // namespace llmsim::sim
