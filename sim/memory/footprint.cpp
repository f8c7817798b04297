#include "sim/memory/footprint.h"

#include <algorithm>
#include <array>

#include "sim/memory/shards.h"
#include "sim/operators/update.h"
#include "sim/schedule/pipeline.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {
namespace {

enum class Instant { Idle, Forward, Loss, Backward, Gradients, Update };

constexpr std::array<const char*, 6> kInstantNames{"idle", "forward", "loss", "backward", "gradients", "update"};
constexpr std::array<Instant, 6> kInstants{Instant::Idle,     Instant::Forward,   Instant::Loss,
                                           Instant::Backward, Instant::Gradients, Instant::Update};
constexpr std::size_t kNumTerms = 16;

// TransformerEngine's workspace is as large as the matrix library's from Hopper on, and this before.
constexpr Bytes kLargeWorkspace = 32.0 * MiB;
constexpr Bytes kEarlyEngineWorkspace = 4.0 * MiB;

// Received activations, received gradients and the tensor being sent.
constexpr double kPipelineBuffers = 3.0;

// Ranks that divide each kind of state under the strategy's sharding.
struct StateShards {
  double weights = 1.0;
  double gradients = 1.0;
  double optimizer = 1.0;
};

StateShards state_shards(const Strategy& strategy) {
  const double ranks = std::max(1, strategy.shard_ranks());
  StateShards shards;
  if (strategy.sharding == Sharding::None) return shards;
  shards.optimizer = ranks;
  if (strategy.sharding != Sharding::Zero1) shards.gradients = ranks;
  if (strategy.sharding == Sharding::Zero3 || strategy.sharding == Sharding::Hsdp) shards.weights = ranks;
  return shards;
}

// Bytes of one stage, one field per term.
struct StageBytes {
  Bytes weights{}, gathered{}, gradients{}, main_gradients{}, gradient_buffers{}, master{}, states{};
  Bytes activations{}, last_block{}, logits{}, restored{}, activation_gradients{}, temporaries{};
  Bytes pipeline_buffers{}, buckets{}, workspaces{}, framework{};
};

class StageFootprint {
 public:
  StageFootprint(const Run& run, const LayerPrices& prices)
      : run_(run),
        strategy_(run.strategy),
        prices_(prices),
        parts_(model_parts(run.model, run.strategy)),
        rank_(rank_parameters(run.model, run.strategy)),
        storage_(storage_of(run.strategy, run.stack)),
        shards_(state_shards(run.strategy)) {}

  StageMemory stage(int index) {
    const StageBytes bytes = stage_bytes(index);
    Instant worst = Instant::Idle;
    Terms terms = terms_at(worst, bytes);
    const Bytes idle = sum(terms);
    Bytes peak = idle;
    for (const Instant instant : kInstants) {
      const Terms there = terms_at(instant, bytes);
      if (sum(there) <= peak) continue;
      worst = instant, terms = there, peak = sum(there);
    }
    StageMemory memory{.stage = index, .instant = kInstantNames[static_cast<std::size_t>(worst)], .peak = peak};
    memory.terms = present(terms);
    add_gaps(memory, worst, idle, bytes);
    return memory;
  }

  std::vector<MemoryInstant> timeline(int index) {
    const StageBytes bytes = stage_bytes(index);
    std::vector<MemoryInstant> instants;
    for (const Instant instant : kInstants) {
      if (instant == Instant::Loss && bytes.logits <= Bytes(0.0)) continue;
      const Terms terms = terms_at(instant, bytes);
      instants.push_back({kInstantNames[static_cast<std::size_t>(instant)], sum(terms), present(terms)});
    }
    return instants;
  }

 private:
  StageBytes stage_bytes(int stage) {
    StageBytes bytes;
    const double parameters = stage_parameters(stage);
    const double trained = strategy_.adapters ? stage_blocks(stage) * rank_.block_adapters : parameters;
    add_states(bytes, stage, parameters, trained);
    add_activations(bytes, stage);
    add_buffers(bytes);
    return bytes;
  }

  void add_states(StageBytes& bytes, int stage, double parameters, double trained) {
    const double state = state_bytes_per_parameter(strategy_.optimizer, storage_);
    bytes.weights = weight_bytes(parameters, stage) / shards_.weights;
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
  Bytes weight_bytes(double parameters, int stage) const {
    const double packed = stage_blocks(stage) * rank_.block;
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

  void move_to_host(StageBytes& bytes) {
    if (strategy_.offload.optimizer) {
      bytes.master = bytes.states = bytes.temporaries = bytes.main_gradients = Bytes(0.0);
      bytes.gradients = bytes.gradient_buffers;
    }
    if (strategy_.offload.parameters) bytes.weights = Bytes(0.0);
  }

  void add_activations(StageBytes& bytes, int stage) {
    const int passes = peak_in_flight(shape(), stage);
    const double chunks = strategy_.virtual_stages;
    Bytes one_pass;
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) one_pass += block_activations(part(stage, chunk).blocks);
    bytes.activations = passes / chunks * one_pass;
    if (part(stage, 0).embedding) bytes.activations += first_chunk_passes(passes) * prices_.embedding.saved;
    if (run_.stack.kept.stage_outputs) bytes.activations += passes * whole_residual();
    if (part(stage, strategy_.virtual_stages - 1).head) {
      bytes.activations += last_chunk_passes() * prices_.head.saved;
      bytes.logits = prices_.head.working;
    }
    bytes.last_block = prices_.block.saved + prices_.block.restored;
    bytes.restored = prices_.block.restored * restored_blocks();
    bytes.activation_gradients = prices_.block.gradients;
    if (strategy_.offload.activations) move_activations_to_host(bytes);
  }

  void move_activations_to_host(StageBytes& bytes) {
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
    if (strategy_.pipeline_parallel > 1) bytes.pipeline_buffers = kPipelineBuffers * whole_residual();
  }

  PipelineShape shape() const {
    return {.schedule = strategy_.schedule,
            .stages = strategy_.pipeline_parallel,
            .virtual_stages = strategy_.virtual_stages,
            .num_microbatches = strategy_.num_microbatches()};
  }

  // Of the forward passes in flight, those of the first chunk: an interleaved schedule runs `stages` of them, then as many of
  // every other chunk, then comes back to the first.
  double first_chunk_passes(int passes) const {
    return std::max(passes - strategy_.pipeline_parallel * (strategy_.virtual_stages - 1),
                    std::min(passes, strategy_.pipeline_parallel));
  }

  // The stage with the head runs the backward pass of its last chunk at once.
  double last_chunk_passes() const { return strategy_.schedule == PipelineSchedule::GPipe ? strategy_.num_microbatches() : 1.0; }

  // The residual stream that one stage hands to the next.
  Bytes whole_residual() const {
    const double tokens = static_cast<double>(strategy_.micro_batch) * run_.model.seq_len / strategy_.context_parallel;
    const double shards = strategy_.sequence_parallel ? strategy_.tensor_parallel : 1.0;
    return tokens * run_.model.hidden_size / shards * size_of(activation_dtype(strategy_.precision));
  }

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

  using Terms = std::array<MemoryTerm, kNumTerms>;

  static Bytes sum(const Terms& terms) {
    Bytes total;
    for (const MemoryTerm& term : terms) total += term.size;
    return total;
  }

  static std::vector<MemoryTerm> present(const Terms& terms) {
    std::vector<MemoryTerm> list;
    for (const MemoryTerm& term : terms) {
      if (term.size > Bytes(0.0)) list.push_back(term);
    }
    return list;
  }

  bool gradients_stay() const { return run_.stack.gradients.persist || strategy_.num_microbatches() > 1; }

  Terms terms_at(Instant instant, const StageBytes& b) const {
    const Bytes none{};
    const bool update = instant == Instant::Update, idle = instant == Instant::Idle;
    const bool loss = instant == Instant::Loss, backward = instant == Instant::Backward, last = instant == Instant::Gradients;
    const bool full = loss || backward || instant == Instant::Forward;
    const bool gradients = last || update || (idle ? run_.stack.gradients.persist : gradients_stay());
    return {{
        {"weights", b.weights},
        {"gathered_weights", update || idle ? none : b.gathered},
        {"gradients", gradients ? b.gradients : none},
        {"main_gradients", update ? b.main_gradients : none},
        {"gradient_buffers", last ? b.gradient_buffers : (backward ? waiting_gradients(b) : none)},
        {"master_weights", b.master},
        {"optimizer_states", b.states},
        {"activations", full ? b.activations : (last ? b.last_block : none)},
        {"logits", loss ? b.logits : none},
        {"recomputed_activations", backward ? b.restored + unpartitioned() : none},
        {"activation_gradients", backward || last ? b.activation_gradients : none},
        {"optimizer_temporaries", update ? b.temporaries : none},
        {"pipeline_buffers", b.pipeline_buffers},
        {"gradient_buckets", b.buckets},
        {"workspaces", b.workspaces},
        {"framework", b.framework},
    }};
  }

  // Whole gradients of a block wait for their reduction while the next block runs, when its own activations are gone.
  Bytes waiting_gradients(const StageBytes& b) const {
    return std::max(Bytes(0.0), b.gradient_buffers - prices_.kept_block.saved);
  }

  // Gaps among the blocks that a step allocates and frees.  The flat buffers of the update leave none, and fit into none.
  void add_gaps(StageMemory& memory, Instant worst, Bytes idle, const StageBytes& b) const {
    const Bytes flat = b.temporaries, none{};
    const bool update = worst == Instant::Update;
    const Bytes passing = memory.peak - idle - (update ? flat : none);
    memory.lost = std::max(none, (run_.stack.reserve.fragmentation - 1.0) * passing);
    memory.reserved = memory.peak + memory.lost + (update ? none : flat);
  }

  const ModelPart& part(int stage, int chunk) const {
    return parts_[static_cast<std::size_t>(chunk * strategy_.pipeline_parallel + stage)];
  }

  double stage_parameters(int stage) const {
    double sum = 0.0;
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) {
      sum += part_parameters(rank_, part(stage, chunk), run_.model.tied_embeddings);
    }
    return sum;
  }

  double stage_blocks(int stage) const {
    double sum = 0.0;
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) sum += part(stage, chunk).blocks;
    return sum;
  }

  const Run& run_;
  const Strategy& strategy_;
  const LayerPrices& prices_;
  std::vector<ModelPart> parts_;
  RankParameters rank_;
  ParameterStorage storage_;
  StateShards shards_;
};

}  // namespace

const StageMemory& Memory::fullest() const {
  return *std::max_element(stages.begin(), stages.end(),
                           [](const StageMemory& a, const StageMemory& b) { return a.peak < b.peak; });
}

Memory memory_footprint(const Run& run, const LayerPrices& prices) {
  StageFootprint footprint(run, prices);
  Memory memory;
  for (int stage = 0; stage < run.strategy.pipeline_parallel; ++stage) {
    memory.stages.push_back(footprint.stage(stage));
    memory.peak = std::max(memory.peak, memory.stages.back().peak);
    memory.reserved = std::max(memory.reserved, memory.stages.back().reserved);
  }
  memory.context = context_memory(run);
  memory.margin = run.stack.reserve.unrecoverable_gaps * memory.fullest().lost;
  memory.capacity = run.cluster.device.usable_memory;
  memory.device = memory.reserved + memory.context;
  memory.host = host_memory(run, prices);
  return memory;
}

std::vector<MemoryInstant> memory_timeline(const Run& run, const LayerPrices& prices, int stage) {
  return StageFootprint(run, prices).timeline(stage);
}

Bytes context_memory(const Run& run) {
  const Strategy& s = run.strategy;
  const int kinds = (s.data_parallel > 1) + (s.tensor_parallel > 1) + (s.pipeline_parallel > 1) + (s.context_parallel > 1);
  const int further = kinds > 1 ? kinds : 0;
  return run.cluster.device.context_memory + further * run.cluster.device.communicator_memory;
}

}  // namespace llmsim::sim
