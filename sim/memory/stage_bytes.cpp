#include "sim/memory/stage_bytes.h"

#include <algorithm>

#include "sim/operators/update.h"

namespace llmsim::sim {
namespace {

// TransformerEngine's workspace is as large as the matrix library's from Hopper on, and this before.
constexpr Bytes kLargeWorkspace = 32.0 * MiB;
constexpr Bytes kEarlyEngineWorkspace = 4.0 * MiB;

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
        storage_(storage_of(run.strategy, run.stack)),
        shards_(state_shards(run.strategy)) {}

  StageBytes bytes() const {
    StageBytes bytes;
    add_states(bytes, contents_.held(stage_), contents_.trained(stage_));
    add_activations(bytes);
    add_buffers(bytes);
    return bytes;
  }

 private:
  void add_states(StageBytes& bytes, double parameters, double trained) const {
    const double state = state_bytes_per_parameter(strategy_.optimizer, storage_);
    bytes.weights = weight_bytes(parameters) / shards_.weights;
    if (strategy_.adapters) bytes.weights += Bytes(trained * size_of(DType::Bf16).value());
    bytes.gradients = Bytes(trained * storage_.gradient_bytes / shards_.gradients);
    if (run_.stack.gradients.copied_into_buckets && strategy_.data_parallel > 1 && strategy_.sharding == Sharding::None) {
      bytes.buckets = bytes.gradients;
    }
    bytes.main_gradients = Bytes(trained * storage_.main_gradient_bytes / shards_.optimizer);
    bytes.master = Bytes(trained * storage_.master_bytes / shards_.optimizer);
    bytes.states = Bytes(trained * state / shards_.optimizer);
    const double temporary = update_temporary_bytes(strategy_.optimizer, storage_, run_.stack.update.fused);
    bytes.temporaries = Bytes(trained / shards_.optimizer * (run_.stack.update.temporary_bytes + temporary));
    if (run_.stack.update.in_backward) free_gradients(bytes);
    if (shards_.weights > 1.0 || strategy_.offload.parameters) add_gathered_unit(bytes, parameters);
    move_to_host(bytes);
  }

  // 4-bit recipes pack the blocks; the embedding, the head and the norms stay in 16 bits.
  Bytes weight_bytes(double parameters) const {
    const double packed = contents_.blocks(stage_) * rank_.block;
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
    bytes.gradient_buffers = Bytes(whole_blocks(run_.stack.sharded.gradient_blocks) * rank_.block *
                                   (compute_bytes + (run_.stack.gradients.reduced_in_fp32 ? 4.0 : 0.0)));
  }

  // The gradient at hand and its temporaries, at most the larger end's.
  void free_gradients(StageBytes& bytes) const {
    const double largest = std::max({rank_.embedding, rank_.head, rank_.block});
    const double all = std::max(1.0, bytes.gradients.value() / storage_.gradient_bytes);
    bytes.gradients = bytes.gradients * std::min(1.0, largest / all);
    bytes.temporaries = bytes.temporaries * std::min(1.0, largest / all);
  }

  // Blocks in `units` units of sharded weights, at most the model's.
  double whole_blocks(double units) const {
    const double blocks = run_.stack.sharded.unit_blocks;
    const double unit = blocks > 0.0 ? std::max(1.0, blocks) : run_.model.num_layers;
    return std::min<double>(units * unit, run_.model.num_layers);
  }

  double gathered_parameters(double parameters) const {
    const bool kept = !run_.stack.sharded.regathers_in_backward || (strategy_.adapters && run_.stack.sharded.keeps_frozen);
    if (kept && strategy_.sharding != Sharding::None) return parameters;
    const double end = std::max(rank_.embedding, rank_.head);
    const double blocks = whole_blocks(run_.stack.sharded.gathered_blocks) * rank_.block;
    if (run_.stack.sharded.live_parameters <= 0.0) return blocks + end;
    return std::max({std::min(run_.stack.sharded.live_parameters, parameters), blocks, end});
  }

  void move_to_host(StageBytes& bytes) const {
    if (strategy_.offload.optimizer) {
      bytes.master = bytes.states = bytes.temporaries = bytes.main_gradients = Bytes(0.0);
      bytes.gradients = bytes.gradient_buffers;
    }
    if (strategy_.offload.parameters) bytes.weights = Bytes(0.0);
  }

  void add_activations(StageBytes& bytes) const {
    const int passes = contents_.chunks_in_flight(stage_);
    const double chunks = strategy_.virtual_stages;
    Bytes one_pass;
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk)
      one_pass += block_activations(contents_.part(stage_, chunk).blocks);
    bytes.activations = passes / chunks * one_pass;
    if (contents_.part(stage_, 0).embedding) bytes.activations += first_chunk_passes(passes) * prices_.embedding.saved;
    if (run_.stack.kept.stage_outputs) bytes.activations += passes * stage_output(run_.model, strategy_);
    if (contents_.part(stage_, strategy_.virtual_stages - 1).head) {
      bytes.activations += last_chunk_passes() * prices_.head.saved;
      bytes.logits = prices_.head.working;
    }
    bytes.last_block = prices_.block.saved + prices_.block.restored;
    bytes.restored = prices_.block.restored * restored_blocks() + unpartitioned();
    bytes.activation_gradients = prices_.block.gradients;
    bytes.waiting_gradients = std::max(Bytes(0.0), bytes.gradient_buffers - prices_.kept_block.saved);
    if (strategy_.offload.activations) move_activations_to_host(bytes);
  }

  void move_activations_to_host(StageBytes& bytes) const {
    const Bytes resident = 2.0 * checkpoint(prices_.block.saved) + unpartitioned();
    bytes.activations = std::min(bytes.activations, resident);
  }

  void add_buffers(StageBytes& bytes) const {
    if (strategy_.data_parallel > 1 || strategy_.sharding != Sharding::None) bytes.framework = run_.stack.reserve.framework;
    const Bytes workspace = run_.stack.reserve.matmul_workspace.value_or(run_.cluster.device.matmul_workspace);
    bytes.workspaces = run_.stack.reserve.matmul_workspaces * workspace;
    if (run_.stack.reserve.transformer_engine) {
      const bool large = run_.cluster.device.matmul_workspace >= kLargeWorkspace;
      bytes.workspaces += large ? kLargeWorkspace : kEarlyEngineWorkspace;
    }
    if (strategy_.pipeline_parallel > 1) bytes.pipeline_buffers = kPipelineBuffers * stage_output(run_.model, strategy_);
  }

  // Of the forward passes in flight, those of the first chunk: an interleaved schedule runs `stages` of them, then as many of
  // every other chunk, then comes back to the first.
  double first_chunk_passes(int passes) const {
    return std::max(passes - strategy_.pipeline_parallel * (strategy_.virtual_stages - 1),
                    std::min(passes, strategy_.pipeline_parallel));
  }

  // The stage with the head runs the backward pass of its last chunk at once.
  double last_chunk_passes() const { return strategy_.schedule == PipelineSchedule::GPipe ? strategy_.num_microbatches() : 1.0; }

  // Blocks that recomputation brings back at once: all between two checkpoints.
  double restored_blocks() const {
    return strategy_.recompute.kind == RecomputeKind::Full ? checkpoint_spacing(strategy_, run_.stack) : 1.0;
  }

  Bytes block_activations(int blocks) const {
    if (strategy_.recompute.mixes()) {
      const double recomputed = strategy_.recompute.blocks_of(blocks);
      return recomputed * checkpoint(prices_.block.saved) + (blocks - recomputed) * prices_.kept_block.saved;
    }
    if (strategy_.recompute.kind != RecomputeKind::Full) return blocks * prices_.block.saved;
    return blocks / checkpoint_spacing(strategy_, run_.stack) * checkpoint(prices_.block.saved);
  }

  bool partitions() const { return divides_checkpoints(strategy_, run_.stack); }
  Bytes checkpoint(Bytes saved) const { return partitions() ? saved / strategy_.tensor_parallel : saved; }
  // A partitioned checkpoint is gathered before its block is made again.
  Bytes unpartitioned() const { return partitions() ? prices_.block.saved : Bytes(0.0); }

  const Run& run_;
  const Strategy& strategy_;
  const LayerPrices& prices_;
  const StageContents& contents_;
  const RankParameters& rank_;
  int stage_;
  ParameterStorage storage_;
  StateShards shards_;
};

}  // namespace

StageBytes stage_bytes(const Run& run, const LayerPrices& prices, const StageContents& contents, int stage) {
  return StageInventory(run, prices, contents, stage).bytes();
}

}  // namespace llmsim::sim
