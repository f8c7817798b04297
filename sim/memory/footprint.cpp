#include "sim/memory/footprint.h"

#include <algorithm>
#include <array>

#include "sim/memory/shards.h"
#include "sim/operators/update.h"
#include "sim/schedule/pipeline.h"
#include "sim/strategy/stages.h"

namespace llmsim::sim {
namespace {

enum class Instant { Load, Loss, Backward, Gradients, Update };

constexpr std::array<const char*, 5> kInstantNames{"load", "loss", "backward", "gradients", "update"};
constexpr std::array<Instant, 5> kInstants{Instant::Load, Instant::Loss, Instant::Backward, Instant::Gradients, Instant::Update};
constexpr int kNumTerms = 12;

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
  Bytes weights{}, gathered{}, gradients{}, gradient_buffers{}, master{}, states{};
  Bytes activations{}, last_block{}, logits{}, restored{}, activation_gradients{}, temporaries{}, whole_model{}, framework{};
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
    Instant worst = Instant::Loss;
    for (const Instant instant : kInstants) {
      if (sum(terms_at(instant, bytes)) > sum(terms_at(worst, bytes))) worst = instant;
    }
    StageMemory memory{.stage = index, .instant = kInstantNames[static_cast<std::size_t>(worst)]};
    for (const MemoryTerm& term : terms_at(worst, bytes)) {
      if (term.size > Bytes(0.0)) memory.terms.push_back(term);
    }
    memory.peak = sum(terms_at(worst, bytes));
    return memory;
  }

  Bytes host_bytes() const { return host_; }

 private:
  StageBytes stage_bytes(int stage) {
    StageBytes bytes;
    const double parameters = stage_parameters(stage);
    const double trained = strategy_.adapters ? stage_blocks(stage) * rank_.block_adapters : parameters;
    add_states(bytes, stage, parameters, trained);
    add_activations(bytes, stage);
    bytes.framework = run_.stack.framework_memory;
    if (run_.stack.loads_whole_model) bytes.whole_model = weight_bytes(parameters, stage);
    return bytes;
  }

  void add_states(StageBytes& bytes, int stage, double parameters, double trained) {
    const double state = state_bytes_per_parameter(strategy_.optimizer, storage_);
    bytes.weights = weight_bytes(parameters, stage) / shards_.weights;
    if (strategy_.adapters) bytes.weights += Bytes(trained * size_of(DType::Bf16).value());
    bytes.gradients = Bytes(trained * storage_.gradient_bytes / shards_.gradients);
    bytes.gradients += Bytes(trained * storage_.main_gradient_bytes / shards_.optimizer);
    bytes.master = Bytes(trained * storage_.master_bytes / shards_.optimizer);
    bytes.states = Bytes(trained * state / shards_.optimizer);
    const double temporary = update_temporary_bytes(strategy_.optimizer, storage_, run_.stack.fused_update);
    bytes.temporaries = Bytes(trained / shards_.optimizer * (run_.stack.update_temporary_bytes + temporary));
    if (run_.stack.optimizer_in_backward) free_gradients(bytes);
    if (shards_.weights > 1.0 || strategy_.offload.parameters) add_gathered_unit(bytes);
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
  void add_gathered_unit(StageBytes& bytes) const {
    const double compute_bytes = size_of(activation_dtype(strategy_.precision)).value();
    bytes.gathered = Bytes(run_.stack.gathered_blocks * rank_.block * compute_bytes);
    bytes.gathered += Bytes(std::max(rank_.embedding, rank_.head) * compute_bytes);
    if (strategy_.adapters) return;
    bytes.gradient_buffers =
        Bytes(run_.stack.gradient_blocks * rank_.block * (compute_bytes + (run_.stack.gradient_reduce_in_fp32 ? 4.0 : 0.0)));
  }

  // The gradient at hand and its temporaries, at most the larger end's.
  void free_gradients(StageBytes& bytes) const {
    const double largest = std::max({rank_.embedding, rank_.head, rank_.block});
    const double all = std::max(1.0, bytes.gradients.value() / storage_.gradient_bytes);
    bytes.gradients = bytes.gradients * std::min(1.0, largest / all);
    bytes.temporaries = bytes.temporaries * std::min(1.0, largest / all);
  }

  void move_to_host(StageBytes& bytes) {
    if (strategy_.offload.optimizer) {
      host_ = std::max(host_, bytes.master + bytes.states + bytes.gradients);
      bytes.master = bytes.states = bytes.temporaries = Bytes(0.0);
      bytes.gradients = bytes.gradient_buffers;
    }
    if (strategy_.offload.parameters) {
      host_ += bytes.weights;
      bytes.weights = Bytes(0.0);
    }
  }

  void add_activations(StageBytes& bytes, int stage) {
    const PipelineShape shape{.schedule = strategy_.schedule,
                              .stages = strategy_.pipeline_parallel,
                              .virtual_stages = strategy_.virtual_stages,
                              .num_microbatches = strategy_.num_microbatches()};
    Bytes one_pass;
    for (int chunk = 0; chunk < strategy_.virtual_stages; ++chunk) one_pass += part_activations(part(stage, chunk));
    const double in_flight = peak_in_flight(shape, stage) / static_cast<double>(strategy_.virtual_stages);
    bytes.activations = in_flight * one_pass;
    bytes.last_block = prices_.block.saved + prices_.block.restored;
    bytes.restored = prices_.block.restored * restored_blocks();
    bytes.activation_gradients = prices_.block.gradients;
    if (part(stage, strategy_.virtual_stages - 1).head) bytes.logits = prices_.head.working;
    if (strategy_.offload.activations) {
      const Bytes resident = 2.0 * prices_.block.saved;
      host_ += std::max(Bytes(0.0), bytes.activations - resident);
      bytes.activations = std::min(bytes.activations, resident);
    }
  }

  // Blocks that recomputation brings back at once: all between two checkpoints.
  double restored_blocks() const {
    return strategy_.recompute.kind == RecomputeKind::Full ? std::max(1, strategy_.recompute.every_n) : 1.0;
  }

  Bytes part_activations(const ModelPart& part) const {
    const double n = std::max(1, strategy_.recompute.every_n);
    Bytes sum;
    if (strategy_.recompute.mixes()) {
      const double recomputed = strategy_.recompute.blocks_of(part.blocks);
      sum = recomputed * prices_.block.saved + (part.blocks - recomputed) * prices_.kept_block.saved;
    } else {
      sum = part.blocks / (strategy_.recompute.kind == RecomputeKind::Full ? n : 1.0) * prices_.block.saved;
    }
    if (part.embedding) sum += prices_.embedding.saved;
    if (part.head) sum += prices_.head.saved;
    return sum;
  }

  using Terms = std::array<MemoryTerm, kNumTerms>;

  static Bytes sum(const Terms& terms) {
    Bytes total;
    for (const MemoryTerm& term : terms) total += term.size;
    return total;
  }

  Terms terms_at(Instant instant, const StageBytes& b) const {
    const Bytes none{};
    if (instant == Instant::Load) return {{{"weights", b.weights}, {"whole_model", b.whole_model}, {"framework", b.framework}}};
    const bool loss = instant == Instant::Loss, backward = instant == Instant::Backward,
               gradients = instant == Instant::Gradients;
    const bool update = instant == Instant::Update, deep = backward || gradients;
    const bool accumulates = run_.stack.gradients_persist || strategy_.num_microbatches() > 1;
    return {{
        {"weights", b.weights},
        {"gathered_weights", update ? none : b.gathered},
        {"gradients", gradients || update || accumulates ? b.gradients : none},
        {"gradient_buffers", deep ? b.gradient_buffers : none},
        {"master_weights", b.master},
        {"optimizer_states", b.states},
        {"activations", loss || backward ? b.activations : (gradients ? b.last_block : none)},
        {"logits", loss ? b.logits : none},
        {"recomputed_activations", backward ? b.restored : none},
        {"activation_gradients", deep ? b.activation_gradients : none},
        {"optimizer_temporaries", update ? b.temporaries : none},
        {"framework", b.framework},
    }};
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
  Bytes host_{};
};

}  // namespace

Memory memory_footprint(const Run& run, const LayerPrices& prices) {
  StageFootprint footprint(run, prices);
  Memory memory;
  for (int stage = 0; stage < run.strategy.pipeline_parallel; ++stage) {
    memory.stages.push_back(footprint.stage(stage));
    memory.peak = std::max(memory.peak, memory.stages.back().peak);
  }
  memory.context = run.cluster.device.context_memory;
  memory.capacity = run.cluster.device.usable_memory;
  memory.reserved = memory.peak * run.stack.fragmentation;
  memory.device = memory.reserved + memory.context;
  memory.host = footprint.host_bytes();
  return memory;
}

}  // namespace llmsim::sim
