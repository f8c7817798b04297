#include "sim/memory/stage_bytes.h"

#include <algorithm>
#include <vector>

#include "sim/memory/held_activations.h"
#include "sim/memory/offloaded_activations.h"
#include "sim/operators/experts.h"
#include "sim/operators/update.h"
#include "sim/schedule/pipeline.h"

namespace llmsim::sim {
namespace {

// TransformerEngine's workspace is as large as the matrix library's from Hopper on, and this before.
constexpr Bytes kLargeWorkspace = 32.0 * MiB;
constexpr Bytes kEarlyEngineWorkspace = 4.0 * MiB;

// An interleaved stage of as many rounds has its peak behind it.
constexpr int kRoundsUntilRepeated = 3;

// Received activations, received gradients and the tensor being sent.
constexpr double kPipelineBuffers = 3.0;

class StageInventory {
 public:
  StageInventory(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage)
      : run_(run),
        strategy_(run.strategy),
        prices_(prices),
        contents_(contents),
        rank_(contents.rank()),
        stage_(stage),
        storage_(storage_of(run.strategy, run.framework)),
        shards_(state_shards(run.strategy)),
        expert_shards_(expert_state_shards(run.strategy)),
        has_experts_(contents.moe_blocks(stage) > 0),
        high_precision_(high_precision_blocks_of_stage()) {}

  StageBytes bytes() const {
    StageBytes bytes;
    const double apart = contents_.apart(stage_);
    add_states(bytes, {contents_.held(stage_) - apart, apart},
               {contents_.trained(stage_) - (strategy_.adapters ? 0.0 : apart), strategy_.adapters ? 0.0 : apart});
    add_activations(bytes);
    add_buffers(bytes);
    if (adds_up_whole_gradients()) {
      bytes.unreduced_gradients = Bytes(contents_.trained(stage_) * storage_.gradient_bytes);
      bytes.gradient_buffers = bytes.unreduced_gradients / std::max(1, contents_.blocks(stage_));
    }
    return bytes;
  }

 private:
  // Parameters that all data ranks share, and those of experts that fewer of them do.
  struct Counted {
    double shared, experts;
    double all() const { return shared + experts; }
  };

  // Of a rank, at so many bytes each.
  Bytes kept(const Counted& parameters, double bytes, double StateShards::*kind) const {
    return Bytes(parameters.shared * bytes / (shards_.*kind)) + Bytes(parameters.experts * bytes / (expert_shards_.*kind));
  }

  void add_states(StageBytes& bytes, const Counted& parameters, const Counted& trained) const {
    const double state = state_bytes_per_parameter(strategy_.optimizer, storage_);
    bytes.weights = weight_bytes(parameters.shared) / shards_.weights +
                    Bytes(parameters.experts * storage_.weight_bytes) / expert_shards_.weights +
                    low_precision_weights(parameters);
    if (strategy_.adapters) bytes.weights += Bytes(trained.all() * size_of(DType::Bf16).value());
    bytes.gradients = kept(trained, storage_.gradient_bytes, &StateShards::gradients);
    if (run_.framework.gradients.copied_into_buckets && strategy_.dp > 1 && strategy_.sharding == Sharding::None) {
      bytes.buckets = bytes.gradients;
    }
    const double owned = updated_shared(trained.shared) + trained.experts / expert_shards_.optimizer;
    bytes.main_gradients = Bytes(owned * storage_.main_gradient_bytes);
    bytes.master = Bytes(owned * storage_.master_bytes);
    bytes.states = Bytes(owned * state) + table_states(owned);
    const double temporary = update_temporary_bytes(strategy_.optimizer, storage_, run_.framework.update.fused);
    bytes.temporaries = Bytes(updated_at_once(owned) * (run_.framework.update.temporary_bytes + temporary));
    if (run_.framework.update.in_backward) free_gradients(bytes);
    if (shards_.weights > 1.0 || strategy_.offload.parameters) add_gathered_unit(bytes, parameters.all());
    move_to_host(bytes);
  }

  // Muon needs whole matrices: ranks share them out, and the one with a table has at least that.
  double updated_shared(double parameters) const {
    const double share = parameters / shards_.optimizer;
    return strategy_.optimizer == OptimizerKind::Muon ? std::max(share, largest_table()) : share;
  }

  bool adds_up_whole_gradients() const {
    return strategy_.sharding == Sharding::Zero2 && strategy_.num_microbatches() > 1 &&
           !run_.framework.gradients.reduced_every_microbatch;
  }

  double updated_at_once(double owned) const {
    return run_.framework.update.unit_by_unit ? std::min(owned, largest_unit() / shards_.optimizer) : owned;
  }

  double largest_unit() const { return std::max({rank_.embedding, rank_.head, rank_.largest_block()}); }

  double largest_table() const {
    const ModelPart& first = contents_.part(stage_, 0);
    const ModelPart& last = contents_.part(stage_, contents_.chunks() - 1);
    if (strategy_.adapters) return 0.0;
    return std::max(first.embedding ? rank_.embedding : 0.0, last.head ? rank_.ends({.head = true}) : 0.0);
  }

  // Beside Muon the tables have an Adam of their own, with a second value for each parameter.
  Bytes table_states(double owned) const {
    if (strategy_.optimizer != OptimizerKind::Muon) return Bytes(0.0);
    return Bytes(std::min(owned, largest_table()) * storage_.state_bytes);
  }

  // Of the blocks, but for divided experts.
  double block_parameters() const {
    const int moe_blocks = contents_.moe_blocks(stage_);
    return (contents_.blocks(stage_) - moe_blocks) * rank_.block +
           moe_blocks * (rank_.moe_block + (rank_.experts_divided ? 0.0 : rank_.experts));
  }

  HighPrecisionBlocks high_precision_blocks_of_stage() const {
    HighPrecisionBlocks sum;
    if (!prices_.wide) return sum;
    for (int chunk = 0; chunk < contents_.chunks(); ++chunk) {
      const HighPrecisionBlocks wide =
          high_precision_blocks(run_.framework.low_precision, strategy_.precision, run_.model, contents_.part(stage_, chunk));
      sum.dense += wide.dense, sum.moe += wide.moe;
    }
    return sum;
  }

  // Quantised weights that outlive a micro-batch, both layouts where the device needs them, with their scales: beside the 16-bit
  // ones or instead of them.  Sharded weights are quantised as they are gathered.
  Bytes low_precision_weights(const Counted& parameters) const {
    const LowPrecisionRecipe& recipe = run_.framework.low_precision;
    const bool whole = shards_.weights == 1.0 && expert_shards_.weights == 1.0 && !strategy_.offload.parameters;
    if (!whole || !is_low_precision(matmul_dtype(strategy_.precision)) || !(recipe.caches_weights || recipe.stores_weights))
      return Bytes(0.0);
    const double each =
        low_precision_copies(recipe, strategy_.precision) * low_precision_bytes(recipe, strategy_.precision, true);
    const double low_precision = block_parameters() + parameters.experts - high_precision_.dense * rank_.block -
                                 high_precision_.moe * (rank_.moe_block + rank_.experts);
    return Bytes(low_precision * (each - (recipe.stores_weights ? storage_.weight_bytes : 0.0)));
  }

  // 4-bit recipes pack the blocks; the embedding, the head and the norms stay in 16 bits.
  Bytes weight_bytes(double parameters) const {
    const double packed = block_parameters();
    const bool four_bit = strategy_.precision == Precision::Nf4 || strategy_.precision == Precision::Int4;
    if (!four_bit) return Bytes(parameters * storage_.weight_bytes);
    return Bytes(packed * storage_.weight_bytes) + (parameters - packed) * size_of(DType::Bf16);
  }

  // Weights of the block at hand, of the next one with prefetch, and of the larger end; gradients of a block in the compute
  // format and, where they are reduced in fp32, once more.
  void add_gathered_unit(StageBytes& bytes, double parameters) const {
    const double compute_bytes = size_of(activation_dtype(strategy_.precision)).value();
    bytes.gathered = Bytes(gathered_parameters(parameters) * compute_bytes);
    if (strategy_.adapters) return;
    bytes.gradient_buffers = Bytes(whole_blocks(run_.framework.sharded.gradient_blocks) * rank_.largest_block() *
                                   (compute_bytes + (run_.framework.gradients.reduced_in_fp32 ? 4.0 : 0.0)));
  }

  // The gradient at hand and its temporaries, at most the larger end's.
  void free_gradients(StageBytes& bytes) const {
    const double largest = largest_unit();
    const double all = std::max(1.0, bytes.gradients.value() / storage_.gradient_bytes);
    bytes.gradients = bytes.gradients * std::min(1.0, largest / all);
    bytes.temporaries = bytes.temporaries * std::min(1.0, largest / all);
  }

  // Blocks in `units` units of sharded weights, at most the model's.
  double whole_blocks(double units) const {
    const double blocks = run_.framework.sharded.unit_blocks;
    const double unit = blocks > 0.0 ? std::max(1.0, blocks) : run_.model.num_layers;
    return std::min<double>(units * unit, run_.model.num_layers);
  }

  double gathered_parameters(double parameters) const {
    const bool kept =
        !run_.framework.sharded.regathers_in_backward || (strategy_.adapters && run_.framework.sharded.keeps_frozen);
    if (kept && strategy_.sharding != Sharding::None) return parameters;
    const double end = std::max(rank_.embedding, rank_.head);
    const double blocks = whole_blocks(run_.framework.sharded.gathered_blocks) * rank_.largest_block();
    if (run_.framework.sharded.live_parameters <= 0.0) return blocks + end;
    return std::max({std::min(run_.framework.sharded.live_parameters, parameters), blocks, end});
  }

  void move_to_host(StageBytes& bytes) const {
    if (strategy_.offload.optimizer) {
      bytes.master = bytes.states = bytes.temporaries = bytes.main_gradients = Bytes(0.0);
      bytes.gradients = bytes.gradient_buffers;
    }
    if (strategy_.offload.parameters) bytes.weights = Bytes(0.0);
  }

  void add_activations(StageBytes& bytes) const {
    if (fills_by_warmup(strategy_.pipeline_schedule)) {
      add_activations_after_warmup(bytes);
    } else {
      bytes.activations = bytes.activations_at_loss = activations_of_order();
    }
    if (has_head()) bytes.logits = prices_.head.working;
    bytes.last_block = block().saved + block().restored;
    if (contents_.part(stage_, 0).embedding) bytes.last_block += prices_.embedding.saved;
    bytes.restored = block().restored * restored_blocks() + unpartitioned();
    bytes.activation_gradients = block().gradients;
    bytes.waiting_gradients = std::max(Bytes(0.0), bytes.gradient_buffers - kept_block().saved);
    if (strategy_.offload.activations) move_activations_to_host(bytes);
  }

  // Of the blocks of all chunks in flight: at most, and while the last chunk has its loss.
  struct InFlight {
    Bytes most{}, at_loss{};
  };

  // Where the chunks of a stage differ, the schedule says how many of which are in flight.
  InFlight kept_in_flight(int passes) const {
    std::vector<Bytes> kept;
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) {
      kept.push_back(kept_by_blocks(run_, prices_, contents_.part(stage_, chunk)));
    }
    if (std::equal(kept.begin() + 1, kept.end(), kept.begin())) return {passes * kept.front(), passes * kept.front()};
    PipelineShape shape = pipeline_shape(strategy_);
    const int repeated = kRoundsUntilRepeated * shape.stages;
    if (shape.num_microbatches % shape.stages == 0) shape.num_microbatches = std::min(shape.num_microbatches, repeated);
    Bytes now;
    InFlight held;
    for (const PipelinePass& pass : stage_order(shape, stage_)) {
      const Bytes size = kept[static_cast<std::size_t>(pass.chunk)];
      now += pass.backward() ? -size : size;
      held.most = std::max(held.most, now);
      if (!pass.backward() && pass.chunk == strategy_.virtual_stages - 1) held.at_loss = std::max(held.at_loss, now);
    }
    return held;
  }

  bool has_head() const {
    for (int chunk = 0; chunk < contents_.chunks(); ++chunk) {
      if (contents_.part(stage_, chunk).head) return true;
    }
    return false;
  }

  // Schedules with whole backward passes hold most when their warm-up has ended.
  static bool fills_by_warmup(PipelineSchedule schedule) {
    return !splits_backward(schedule) && schedule != PipelineSchedule::DualPipe;
  }

  void add_activations_after_warmup(StageBytes& bytes) const {
    const int passes = contents_.chunks_in_flight(stage_);
    const InFlight blocks = kept_in_flight(passes);
    bytes.activations = blocks.most;
    if (contents_.part(stage_, 0).embedding) bytes.activations += first_chunk_passes(passes) * prices_.embedding.saved;
    if (run_.framework.kept.stage_outputs) bytes.activations += passes * stage_output(run_.model, strategy_);
    if (has_head()) bytes.activations += last_chunk_passes() * prices_.head.saved;
    bytes.activations_at_loss = bytes.activations - blocks.most + blocks.at_loss;
  }

  Bytes activations_of_order() const {
    std::vector<ChunkActivations> chunks;
    for (int chunk = 0; chunk < contents_.chunks(); ++chunk) {
      const ModelPart& part = contents_.part(stage_, chunk);
      ChunkActivations one{.kept = kept_by_blocks(run_, prices_, part),
                           .waiting = part.blocks * mean_block(run_, prices_, part).weight_inputs};
      if (part.embedding) one.kept += prices_.embedding.saved;
      if (part.head) one.kept += prices_.head.saved, one.waiting += prices_.head.weight_inputs;
      if (run_.framework.kept.stage_outputs) one.kept += stage_output(run_.model, strategy_);
      chunks.push_back(one);
    }
    return most_held(stage_order(pipeline_shape(strategy_), stage_), chunks);
  }

  // All that blocks keep, or the inputs of some of their modules.
  void move_activations_to_host(StageBytes& bytes) const {
    if (strategy_.offload.modules.any() || strategy_.offload.blocks > 0) {
      const Bytes away = std::min(offloaded_activations(run_, prices_, contents_, stage_), bytes.activations_at_loss);
      bytes.activations -= away, bytes.activations_at_loss -= away;
      return;
    }
    const Bytes resident = 2.0 * checkpoint(block().saved);
    bytes.activations = std::min(bytes.activations, resident);
    bytes.activations_at_loss = std::min(bytes.activations_at_loss, resident);
    bytes.last_block = std::max(bytes.last_block, bytes.activations + bytes.restored);  // as much stays to the end
  }

  void add_buffers(StageBytes& bytes) const {
    if (strategy_.dp > 1 || strategy_.sharding != Sharding::None) bytes.framework = run_.framework.reserve.framework;
    const Bytes workspace = run_.framework.reserve.matmul_workspace.value_or(run_.cluster.device.matmul_workspace);
    bytes.workspaces = run_.framework.reserve.matmul_workspaces * workspace;
    if (run_.framework.reserve.transformer_engine) bytes.workspaces += engine_workspace();
    if (strategy_.pp > 1) bytes.pipeline_buffers = kPipelineBuffers * stage_output(run_.model, strategy_);
    if (!has_experts_) return;
    bytes.workspaces += run_.framework.reserve.grouped_gemm_streams * engine_workspace();
    if (strategy_.moe_dispatch == ExpertDispatch::AllGather) bytes.dispatch_buffers = gathered_tokens();
  }

  Bytes engine_workspace() const {
    return run_.cluster.device.matmul_workspace >= kLargeWorkspace ? kLargeWorkspace : kEarlyEngineWorkspace;
  }

  // A buffer that stays, of the tokens of all ranks among which rows are dispatched; one rank alone needs none.
  Bytes gathered_tokens() const {
    const ExpertShape shape = expert_shape(run_.model, strategy_, run_.framework);
    const int ranks = strategy_.ep * strategy_.expert_tensor_ranks();
    if (ranks == 1) return Bytes(0.0);
    const double tokens = static_cast<double>(shape.tokens) * (shape.routes_shards ? ranks : strategy_.ep);
    return tokens * run_.model.hidden_size * size_of(activation_dtype(strategy_.precision));
  }

  // Of the forward passes in flight, those of the first chunk: an interleaved schedule runs a group of micro-batches through it,
  // then through every other chunk, then the next group.
  double first_chunk_passes(int passes) const {
    if (strategy_.virtual_stages == 1) return passes;
    const int group = microbatch_group(pipeline_shape(strategy_));
    return std::max(passes - group * (strategy_.virtual_stages - 1), std::min(passes, group));
  }

  // The stage with the head runs the backward pass of its last chunk at once.
  double last_chunk_passes() const {
    return strategy_.pipeline_schedule == PipelineSchedule::GPipe ? strategy_.num_microbatches() : 1.0;
  }

  // Blocks that recomputation brings back at once: all between two checkpoints.
  double restored_blocks() const {
    return strategy_.recompute.kind == RecomputeKind::Full ? checkpoint_spacing(strategy_, run_.framework) : 1.0;
  }

  // The kind of block that takes most: one with experts where the stage has any, one in 16 bits where it has any of these.
  const BlockPrices& widest() const {
    return (has_experts_ ? high_precision_.moe : high_precision_.dense) > 0 ? *prices_.wide : prices_;
  }
  const BlockPrice& block() const { return has_experts_ ? widest().moe_block : widest().block; }
  const BlockPrice& kept_block() const { return has_experts_ ? widest().kept_moe_block : widest().kept_block; }

  bool partitions() const { return divides_checkpoints(strategy_, run_.framework); }
  Bytes checkpoint(Bytes saved) const { return partitions() ? saved / strategy_.tp : saved; }
  // A partitioned checkpoint is gathered before its block is made again.
  Bytes unpartitioned() const { return partitions() ? block().saved : Bytes(0.0); }

  const Run& run_;
  const Strategy& strategy_;
  const LayerPrices& prices_;
  const StageContents& contents_;
  const RankParameters& rank_;
  int stage_;
  ParameterStorage storage_;
  StateShards shards_;
  StateShards expert_shards_;
  bool has_experts_;
  HighPrecisionBlocks high_precision_;
};

}  // namespace

Bytes kept_by_blocks(const Run& run, const LayerPrices& prices, const ModelPart& part) {
  const Recompute& recompute = run.strategy.recompute;
  const Bytes each = mean_block(run, prices, part).saved;
  const Bytes checkpoint = divides_checkpoints(run.strategy, run.framework) ? each / run.strategy.tp : each;
  if (recompute.mixes()) {
    const double recomputed = recompute.blocks_of(part.blocks);
    const Bytes kept = mean_kept_block(run, prices, part).saved;
    return recomputed * checkpoint + (part.blocks - recomputed) * kept;
  }
  if (recompute.kind != RecomputeKind::Full) return part.blocks * each;
  return part.blocks / checkpoint_spacing(run.strategy, run.framework) * checkpoint;
}

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
  terms[MemoryKind::Framework] = bytes.framework;
  return terms;
}

StageBytes stage_bytes(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage) {
  return StageInventory(run, prices, contents, stage).bytes();
}

}  // namespace llmsim::sim
