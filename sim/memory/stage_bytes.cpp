#include "sim/memory/stage_bytes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "sim/model/layer_kinds.h"
#include "sim/model/parameters.h"
#include "sim/operators/attention_core.h"
#include "sim/operators/experts.h"
#include "sim/operators/newton_schulz.h"
#include "sim/operators/update.h"

namespace llmsim::sim {
namespace {

// TransformerEngine's workspace is as large as the matrix library's from Hopper on, and this
// before.
constexpr Bytes kLargeWorkspace = 32.0 * MiB;
constexpr Bytes kEarlyEngineWorkspace = 4.0 * MiB;

// A received activation, a received gradient and the tensor that was sent last: a schedule written
// in Python names them until the next ones come.
constexpr double kPipelineBuffers = 3.0;

constexpr double kTokenId = 8.0;
constexpr double kFlag = 1.0;  // a bool

// What of a stage Muon updates.
struct MuonHoldings {
  StageParameters matrices{}, busiest{};  // on a tensor rank, and of these on the busiest data rank
  double temporary_bytes = 0.0;           // of the matrix at hand
};

// What of a stage its bytes depend on.
struct Holdings {
  StageParameters held{}, trained{};  // padded to the ranks that share them, where units are flat
  double all_trained = 0.0;           // not padded
  double packed = 0.0;                // by 4-bit recipes
  // With low-precision copies that outlive a micro-batch, where the recipe makes such copies.
  double quantised = 0.0;
  double largest_table = 0.0;
  MuonHoldings muon{};
  double largest_flat_unit = 0.0;  // this rank's part of one of the stage's
  double dummy_gradients = 0.0;    // values of weights of different shapes (dummy_weight_gradients)
  int blocks = 1;
  int embeddings_and_heads = 0;
  bool has_experts = false;
};

// How the states of a run are kept, and what the stage holds.
struct Stage {
  const Run& run;
  const RankParameters& rank;
  const Strategy& strategy;
  const Framework& framework;
  ParameterStorage storage;
  StateShards shards, expert_shards;
  Holdings holds{};

  Stage(const Run& of, const RankParameters& parameters)
      : run(of),
        rank(parameters),
        strategy(of.strategy),
        framework(of.framework),
        storage(storage_of(of.strategy, of.framework)),
        shards(state_shards(of.strategy)),
        expert_shards(expert_state_shards(of.strategy)) {}
};

double all_of(const StageParameters& parameters) { return parameters.shared + parameters.experts; }

// Of a quantised parameter that outlives a micro-batch, beside its 16-bit weight or instead of it:
// both layouts where the device needs them, with their scales.  Sharded weights are quantised as
// they are gathered.
double low_precision_weight_bytes(const Stage& stage) {
  const LowPrecisionRecipe& recipe = stage.framework.low_precision;
  const Precision precision = stage.strategy.precision;
  const bool whole = stage.shards.weights == 1.0 && stage.expert_shards.weights == 1.0 &&
                     !stage.strategy.offload.parameters;
  if (!whole || !is_low_precision(matmul_dtype(precision)) ||
      !(recipe.caches_weights || recipe.stores_weights))
    return 0.0;
  return low_precision_copies(recipe, precision) * low_precision_bytes(recipe, precision, true) -
         (recipe.stores_weights ? stage.storage.weight_bytes : 0.0);
}

// A stage of a pipeline.
struct PlacedStage {
  const Run& run;
  const StageContents& contents;
  int number;

  const RankParameters& rank() const { return contents.rank(); }
  const ModelChunk& chunk(int place) const { return contents.chunk(number, place); }
};

// Visits the parameters of a unit, those of its divided experts, and how many such units the
// stage has.
template <class Visit>
void for_each_unit(const PlacedStage& stage, const Visit& visit) {
  for (int i = 0; i < stage.contents.chunks(); ++i) {
    if (stage.chunk(i).embedding) visit(stage.rank().embedding, 0.0, 1);
    if (stage.chunk(i).embedding && stage.rank().tower > 0.0) visit(stage.rank().tower, 0.0, 1);
    for_each_kind(stage.chunk(i).of_kind, [&](std::size_t slot, int blocks) {
      visit(stage.rank().without_divided(slot), stage.rank().divided_experts(slot), blocks);
    });
    if (stage.chunk(i).head)
      visit(stage.rank().embedding_and_head(
                {.head = true, .meets_embedding = stage.chunk(i).has_table()}),
            0.0, 1);
  }
}

// The embedding, every block and the head are flat, and padded to the ranks that share them.
StageParameters padded_units(const PlacedStage& stage) {
  const double n = stage.run.strategy.shard_ranks(), x = stage.run.strategy.expert_shard_ranks();
  const auto padded = [](double parameters, double ranks) {
    return std::ceil(parameters / ranks) * ranks;
  };
  StageParameters sum;
  for_each_unit(stage, [&](double shared, double experts, int units) {
    sum.shared += units * padded(shared, n), sum.experts += units * padded(experts, x);
  });
  return sum;
}

double largest_flat_unit(const PlacedStage& stage) {
  const double n = stage.run.strategy.shard_ranks(), x = stage.run.strategy.expert_shard_ranks();
  double largest = 0.0;
  for_each_unit(stage, [&](double shared, double experts, int) {
    largest = std::max({largest, std::ceil(shared / n), std::ceil(experts / x)});
  });
  return largest;
}

double largest_table(const PlacedStage& stage) {
  if (stage.run.strategy.adapters) return 0.0;
  return std::max(stage.chunk(0).embedding ? stage.rank().embedding : 0.0,
                  stage.chunk(stage.contents.chunks() - 1).head
                      ? stage.rank().embedding_and_head({.head = true})
                      : 0.0);
}

// But for divided experts.
double block_parameters(const PlacedStage& stage) {
  double sum = 0.0;
  for_each_kind(stage.contents.of_kind(stage.number), [&](std::size_t slot, int blocks) {
    sum += blocks * stage.rank().without_divided(slot);
  });
  return sum;
}

// Of the blocks that a low-precision recipe leaves in 16 bits.
double high_precision_parameters(const PlacedStage& stage) {
  double sum = 0.0;
  for (int i = 0; i < stage.contents.chunks(); ++i) {
    for_each_kind(
        high_precision_blocks(stage.run.framework.low_precision, stage.run.strategy.precision,
                              stage.run.model, stage.chunk(i)),
        [&](std::size_t slot, int blocks) { sum += blocks * stage.rank().kinds[slot].all(); });
  }
  return sum;
}

int embeddings_and_heads(const PlacedStage& stage) {
  int count = 0;
  for (int i = 0; i < stage.contents.chunks(); ++i)
    count += (stage.chunk(i).embedding ? 1 : 0) + (stage.chunk(i).head ? 1 : 0);
  return count;
}

// GEMMs that add to the main gradients give autograd a tensor all the same, one for all weights of
// a shape.
double values_of_different_shapes(const PlacedStage& stage) {
  const Strategy& strategy = stage.run.strategy;
  const MemoryReserve& reserve = stage.run.framework.reserve;
  const bool needed = reserve.transformer_engine && reserve.dummy_weight_gradients &&
                      stage.run.framework.gradients.accumulated_by_gemm;
  if (!needed || strategy.adapters) return 0.0;
  std::array<std::pair<std::int64_t, std::int64_t>, kMostLayerKinds * kWeightNames> shapes;
  auto end = shapes.begin();
  double values = 0.0;
  const auto add = [&](LayerKind kind) {
    for (const LayerWeight& weight : layer_weights(stage.run.model, kind)) {
      if (weight.rows == 0 || weight.part == LayerPart::Router) continue;
      const LayerWeight own = weight.on_rank(
          weight.part == LayerPart::Experts ? strategy.expert_tensor_ranks() : strategy.tp);
      const std::pair shape{own.rows, own.columns};
      if (std::find(shapes.begin(), end, shape) != end) continue;
      *end++ = shape;
      values += static_cast<double>(own.rows) * static_cast<double>(own.columns);
    }
  };
  const LayerKinds kinds = layer_kinds(stage.run.model);
  for_each_kind(stage.contents.of_kind(stage.number),
                [&](std::size_t slot, int) { add(kinds[slot]); });
  return values;
}

double frozen_here(const PlacedStage& stage) {
  double sum = 0.0;
  for (int i = 0; i < stage.contents.chunks(); ++i)
    sum += stage.chunk(i).embedding ? stage.rank().frozen_tower : 0.0;
  return sum;
}

// Matrices are shared out chunk by chunk.
void add_chunk(MuonHoldings& muon, const Run& run, const LayerCounts& of_kind) {
  std::vector<SharedMatrices> shared, experts;
  for (const MuonMatrices& equal :
       muon_matrices(run.model, run.strategy, run.framework.update, of_kind)) {
    const double values = equal.values(), all = static_cast<double>(equal.count) * values;
    (equal.of_experts ? muon.matrices.experts : muon.matrices.shared) += all;
    (equal.of_experts ? experts : shared)
        .push_back({.count = equal.count, .work = equal.work(), .values = values});
    muon.temporary_bytes =
        std::max(muon.temporary_bytes,
                 newton_schulz_bytes(equal, muon_tensor_mode(run.strategy, run.framework.update)));
  }
  muon.busiest.shared += busiest_rank(shared, run.strategy.shard_ranks()).values;
  muon.busiest.experts += busiest_rank(experts, run.strategy.expert_shard_ranks()).values;
}

// Shards of ZeRO-3 are equal pieces of every matrix.
MuonHoldings muon_holdings(const PlacedStage& stage) {
  const Strategy& strategy = stage.run.strategy;
  MuonHoldings muon;
  if (strategy.optimizer != OptimizerKind::Muon || strategy.adapters) return muon;
  for (int i = 0; i < stage.contents.chunks(); ++i)
    add_chunk(muon, stage.run, stage.chunk(i).of_kind);
  if (strategy.sharding >= Sharding::Zero3)
    muon.busiest = {.shared = muon.matrices.shared / strategy.shard_ranks(),
                    .experts = muon.matrices.experts / strategy.expert_shard_ranks()};
  return muon;
}

// Exactly what it holds.
Holdings exact_holdings(const PlacedStage& stage) {
  const double experts = stage.contents.divided_experts(stage.number),
               trained = stage.contents.trained(stage.number),
               trained_experts = stage.run.strategy.adapters ? 0.0 : experts;
  Holdings holds{.held = {stage.contents.held(stage.number) - experts, experts},
                 .trained = {trained - trained_experts, trained_experts},
                 .all_trained = trained,
                 .packed = block_parameters(stage),
                 .largest_table = largest_table(stage),
                 .muon = muon_holdings(stage),
                 .dummy_gradients = values_of_different_shapes(stage),
                 .blocks = stage.contents.blocks(stage.number),
                 .embeddings_and_heads = embeddings_and_heads(stage),
                 .has_experts = stage.contents.moe_blocks(stage.number) > 0};
  if (stage.run.framework.sharded.flat_units || stage.run.strategy.offload.optimizer)
    holds.largest_flat_unit = largest_flat_unit(stage);
  if (stage.run.framework.sharded.flat_units && !stage.run.strategy.adapters)
    holds.held = holds.trained = padded_units(stage), holds.trained.shared -= frozen_here(stage);
  if (is_low_precision(matmul_dtype(stage.run.strategy.precision)))
    holds.quantised = holds.packed + holds.held.experts - high_precision_parameters(stage);
  return holds;
}

// What each stage holds that has these parameters, at least, whichever layers they are of.
Holdings least_holdings(const Stage& stage, const StageParameters& held) {
  Holdings holds{.held = held, .packed = held.shared};
  if (!stage.strategy.adapters) {
    holds.trained = held;
    holds.trained.shared = std::max(0.0, held.shared - stage.rank.frozen_tower);
    holds.all_trained = all_of(holds.trained);
  }
  // As if all of them were matrices, and divided evenly.
  holds.muon.matrices = holds.trained;
  holds.muon.busiest = {.shared = holds.trained.shared / stage.shards.optimizer,
                        .experts = holds.trained.experts / stage.expert_shards.optimizer};
  if (low_precision_weight_bytes(stage) < 0.0) holds.quantised = all_of(held);
  return holds;
}

double largest_unit(const RankParameters& rank) {
  return std::max({rank.embedding, rank.head, rank.largest_block()});
}

// 4-bit recipes pack the blocks; the embedding, the head and the norms stay in 16 bits.
Bytes weight_bytes(const Stage& stage, double parameters) {
  const double packed = stage.holds.packed, each = stage.storage.weight_bytes;
  const Precision precision = stage.strategy.precision;
  const bool four_bit = precision == Precision::Nf4 || precision == Precision::Int4;
  if (!four_bit) return Bytes(parameters * each);
  return Bytes(packed * each) + (parameters - packed) * size_of(DType::Bf16);
}

// What Muon leaves to Adam, which ranks divide evenly, or but for whole tables.
double left_to_adam(const Stage& stage) {
  const StageParameters &trained = stage.holds.trained, &matrices = stage.holds.muon.matrices;
  const double shared = std::max(0.0, trained.shared - matrices.shared) / stage.shards.optimizer,
               experts = std::max(0.0, trained.experts - matrices.experts) /
                         stage.expert_shards.optimizer;
  const bool whole =
      stage.framework.update.whole_tables && stage.strategy.sharding < Sharding::Zero3;
  return (whole ? std::max(shared, stage.holds.largest_table) : shared) + experts;
}

// Parameters whose states are on this rank; under Muon on the one with most whole matrices.
double updated_parameters(const Stage& stage) {
  if (stage.strategy.optimizer == OptimizerKind::Muon)
    return left_to_adam(stage) + all_of(stage.holds.muon.busiest);
  const StageParameters& trained = stage.holds.trained;
  return trained.shared / stage.shards.optimizer + trained.experts / stage.expert_shards.optimizer;
}

double updated_at_once(const Stage& stage, double owned) {
  const UpdateBehaviour& update = stage.framework.update;
  if (update.parameters_at_once > 0.0) return std::min(owned, update.parameters_at_once);
  if (update.tensor_by_tensor && !update.fused && stage.strategy.sharding == Sharding::None)
    return std::min(owned, stage.holds.largest_table);
  if (!update.unit_by_unit) return owned;
  return std::min(owned, stage.framework.sharded.flat_units
                             ? stage.holds.largest_flat_unit
                             : largest_unit(stage.rank) / stage.shards.optimizer);
}

// Adam has a second value for each parameter that Muon leaves to it.
Bytes second_states(const Stage& stage) {
  if (stage.strategy.optimizer != OptimizerKind::Muon) return Bytes(0.0);
  return Bytes(left_to_adam(stage) * stage.storage.state_bytes);
}

Bytes update_temporaries(const Stage& stage, double owned) {
  const Framework& framework = stage.framework;
  const double temporary =
      update_temporary_bytes(stage.strategy.optimizer, stage.storage, framework.update);
  const double cast =
      !framework.autograd && stage.storage.gradient_bytes < kFp32Bytes ? kFp32Bytes : 0.0;
  const Bytes bytes(updated_at_once(stage, owned) * (temporary + cast) +
                    stage.holds.muon.temporary_bytes);
  const bool counts_units = framework.update.unit_by_unit && !framework.autograd;
  return counts_units ? bytes + size_of(DType::Fp32) : bytes;
}

// Of an update within the backward pass: the gradient at hand and its temporaries, at most the
// larger end's.
void free_gradients(StageBytes& bytes, const Stage& stage) {
  const double all = std::max(1.0, bytes.gradients.value() / stage.storage.gradient_bytes),
               share = std::min(1.0, largest_unit(stage.rank) / all);
  bytes.gradients = bytes.gradients * share;
  bytes.temporaries = bytes.temporaries * share;
}

// Blocks in `units` units of sharded weights, at most the model's.
double whole_blocks(const Run& run, double units) {
  const double blocks = run.framework.sharded.unit_blocks;
  const double unit = blocks > 0.0 ? std::max(1.0, blocks) : run.model.num_layers;
  return std::min<double>(units * unit, run.model.num_layers);
}

double gathered_parameters(const Stage& stage, double parameters) {
  const auto& sharded = stage.framework.sharded;
  const bool kept = !sharded.regathers_in_backward ||
                    gathers_units_once(stage.framework, stage.strategy) ||
                    (stage.strategy.adapters && sharded.keeps_frozen);
  if (kept && stage.strategy.sharding != Sharding::None) return parameters;
  const double end = std::max(stage.rank.embedding, stage.rank.head);
  const double blocks = whole_blocks(stage.run, sharded.gathered_blocks) *
                        stage.rank.largest_block(stage.expert_shards.weights > 1.0);
  if (sharded.live_parameters <= 0.0)
    return sharded.root_stays_gathered ? blocks + end : std::max(blocks, end);
  return std::max({std::min(sharded.live_parameters, parameters), blocks, end});
}

// Weights of the block at hand, of the next one with prefetch, and of the larger end; gradients of
// a block in the compute format and, where they are reduced in fp32, once more.
void add_gathered_unit(StageBytes& bytes, const Stage& stage, double parameters) {
  const double element = size_of(activation_dtype(stage.strategy.precision)).value();
  bytes.gathered = Bytes(gathered_parameters(stage, parameters) * element);
  if (stage.strategy.adapters) return;
  bytes.gradient_buffers =
      Bytes(whole_blocks(stage.run, stage.framework.sharded.gradient_blocks) *
            stage.rank.largest_block(stage.expert_shards.gradients > 1.0) *
            (element + (stage.framework.gradients.reduced_in_fp32 ? 4.0 : 0.0)));
}

void move_to_host(StageBytes& bytes, const Stage& stage, double owned) {
  if (stage.strategy.offload.optimizer) {
    const double gradient = stage.storage.gradient_bytes,
                 cast = gradient < kFp32Bytes ? kFp32Bytes : 0.0;
    bytes.host = Bytes(owned * kFp32Bytes) + bytes.states;
    bytes.host_update =
        Bytes(stage.holds.largest_flat_unit * (gradient + cast + kFp32Bytes) + kFp32Bytes);
    bytes.master = bytes.states = bytes.temporaries = Bytes(0.0);
    if (stage.framework.gradients.offloaded) {
      bytes.main_gradients = Bytes(0.0);
      if (stage.framework.autograd) bytes.gradients = bytes.gradient_buffers;
    }
  }
  if (stage.strategy.offload.parameters) bytes.weights = Bytes(0.0);
}

void add_states(StageBytes& bytes, const Stage& stage) {
  const StageParameters &parameters = stage.holds.held, &trained = stage.holds.trained;
  const Strategy& strategy = stage.strategy;
  const ParameterStorage& storage = stage.storage;
  const StateShards &shards = stage.shards, &expert_shards = stage.expert_shards;
  bytes.weights = weight_bytes(stage, parameters.shared) / shards.weights +
                  Bytes(parameters.experts * storage.weight_bytes) / expert_shards.weights +
                  Bytes(stage.holds.quantised * low_precision_weight_bytes(stage));
  if (strategy.adapters) bytes.weights += Bytes(all_of(trained) * size_of(DType::Bf16).value());
  bytes.gradients = Bytes(trained.shared * storage.gradient_bytes / shards.gradients) +
                    Bytes(trained.experts * storage.gradient_bytes / expert_shards.gradients);
  if (stage.framework.gradients.copied_into_buckets && strategy.dp > 1 &&
      strategy.sharding == Sharding::None)
    bytes.buckets = bytes.gradients;
  const double owned = updated_parameters(stage);
  bytes.main_gradients = Bytes(owned * storage.main_gradient_bytes);
  bytes.master = Bytes(owned * storage.master_bytes);
  bytes.states =
      Bytes(owned * state_bytes_per_parameter(strategy.optimizer, storage)) + second_states(stage);
  bytes.temporaries = update_temporaries(stage, owned);
  if (stage.framework.update.in_backward) free_gradients(bytes, stage);
  // Experts that one rank alone has are whole already.
  if (shards.weights > 1.0 || strategy.offload.parameters)
    add_gathered_unit(bytes, stage,
                      expert_shards.weights > 1.0 ? all_of(parameters) : parameters.shared);
  move_to_host(bytes, stage, owned);
}

// Whether micro-batches add to whole gradients, which are reduced once.
bool adds_up_whole_gradients(const Run& run) {
  return run.strategy.sharding >= Sharding::Zero2 && run.strategy.num_microbatches() > 1 &&
         !reduces_every_microbatch(run.framework, run.strategy);
}

// Of a parameter, while micro-batches add to it: PyTorch's FSDP accumulates in the format in which
// it reduces.
double whole_gradient_bytes(const Stage& stage) {
  if (stage.strategy.sharding == Sharding::Zero2) return stage.storage.gradient_bytes;
  return gradient_wire_bytes(stage.run);
}

Bytes engine_workspace(const Device& device) {
  return device.matmul_workspace >= kLargeWorkspace ? kLargeWorkspace : kEarlyEngineWorkspace;
}

// A buffer that stays, of the tokens of all ranks among which rows are dispatched; one rank alone
// needs none.
Bytes gathered_tokens(const Run& run) {
  const Strategy& strategy = run.strategy;
  const ExpertShape shape = expert_shape(run.model, strategy, run.framework);
  const int ranks = strategy.ep * strategy.expert_tensor_ranks();
  if (ranks == 1) return Bytes(0.0);
  const double tokens =
      static_cast<double>(shape.tokens) * (shape.routes_shards ? ranks : strategy.ep);
  return tokens * expert_row_size(run.model) * size_of(activation_dtype(strategy.precision));
}

Bytes masks(const Run& run) {
  const double side = run.strategy.flash_attention ? std::min(kAttentionBlock, run.model.seq_len)
                                                   : run.model.seq_len;
  return Bytes(side * side * kFlag);
}

Bytes positions(const Run& run) {
  const int turned = run.model.mla ? run.model.mla->qk_rope_head_dim : run.model.head_dim;
  if (run.model.position != Position::Rope) return Bytes(0.0);
  return static_cast<double>(run.model.seq_len) * turned *
         size_of(activation_dtype(run.strategy.precision));
}

// Ids with the embedding, targets with the head.
Bytes step_tokens(const Stage& stage) {
  const double tokens = static_cast<double>(stage.strategy.micro_batch) * stage.run.model.seq_len *
                        stage.strategy.num_microbatches();
  return Bytes(stage.holds.embeddings_and_heads * kTokenId * tokens);
}

void add_buffers(StageBytes& bytes, const Stage& stage) {
  const Strategy& strategy = stage.strategy;
  const Device& device = stage.run.cluster.device;
  const auto& reserve = stage.framework.reserve;
  if (strategy.dp > 1 || strategy.sharding != Sharding::None) bytes.framework = reserve.framework;
  bytes.workspaces =
      reserve.matmul_workspaces * reserve.matmul_workspace.value_or(device.matmul_workspace);
  if (reserve.transformer_engine)
    bytes.workspaces += engine_workspace(device) +
                        stage.holds.dummy_gradients * size_of(activation_dtype(strategy.precision));
  if (strategy.pp > 1 && stage.framework.autograd)
    bytes.pipeline_buffers = kPipelineBuffers * stage_output(stage.run.model, strategy);
  // The runtime allocates the inputs of a step once.
  if (!stage.framework.autograd)
    bytes.buffers = masks(stage.run) + positions(stage.run) + step_tokens(stage);
  if (!stage.holds.has_experts) return;
  bytes.workspaces += reserve.grouped_gemm_streams * engine_workspace(device);
  if (strategy.moe_dispatch == ExpertDispatch::AllGather)
    bytes.dispatch_buffers = gathered_tokens(stage.run);
}

// The rules, whether it is known exactly or at least what the stage holds: with more of anything
// that it holds it has no fewer bytes.
StageBytes bytes_of(const Stage& stage) {
  StageBytes bytes;
  add_states(bytes, stage);
  add_buffers(bytes, stage);
  if (adds_up_whole_gradients(stage.run)) {
    bytes.unreduced_gradients = Bytes(stage.holds.all_trained * whole_gradient_bytes(stage));
    bytes.gradient_buffers = bytes.unreduced_gradients / std::max(1, stage.holds.blocks);
  }
  return bytes;
}

}  // namespace

MemoryTerms lasting_terms(const StageBytes& bytes, const Framework& framework) {
  MemoryTerms terms;
  terms[MemoryKind::Weights] = bytes.weights;
  if (framework.gradients.persist) terms[MemoryKind::Gradients] = bytes.gradients;
  terms[MemoryKind::Master] = bytes.master;
  terms[MemoryKind::States] = bytes.states;
  terms[MemoryKind::PipelineBuffers] = bytes.pipeline_buffers;
  terms[MemoryKind::DispatchBuffers] = bytes.dispatch_buffers;
  terms[MemoryKind::Buckets] = bytes.buckets;
  terms[MemoryKind::Workspaces] = bytes.workspaces;
  terms[MemoryKind::Buffers] = bytes.buffers;
  terms[MemoryKind::Framework] = bytes.framework;
  return terms;
}

StageBytes stage_bytes(const Run& run, const StageContents& contents, int number) {
  Stage stage(run, contents.rank());
  stage.holds = exact_holdings({run, contents, number});
  return bytes_of(stage);
}

StageBytes least_stage_bytes(const Run& run, const RankParameters& rank,
                             const StageParameters& held) {
  Stage stage(run, rank);
  stage.holds = least_holdings(stage, held);
  return bytes_of(stage);
}

}  // namespace llmsim::sim
