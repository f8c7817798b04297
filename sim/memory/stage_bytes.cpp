#include "sim/memory/stage_bytes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "sim/model/layer_weights.h"
#include "sim/operators/block_dataflow.h"
#include "sim/operators/experts.h"
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

class StageInventory {
 public:
  StageInventory(const Run& run, const LayerPrices& prices, const StageContents& contents,
                 int stage)
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
    if (run_.framework.sharded.flat_units && !strategy_.adapters) {
      const Counted units = padded_units();
      add_states(bytes, units, units);
    } else {
      add_states(bytes, {contents_.held(stage_) - apart, apart},
                 {contents_.trained(stage_) - (strategy_.adapters ? 0.0 : apart),
                  strategy_.adapters ? 0.0 : apart});
    }
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

  // The embedding, every block and the head are flat, and padded to the ranks that share them.
  Counted padded_units() const {
    const double n = strategy_.shard_ranks(), x = strategy_.expert_shard_ranks();
    const auto padded = [](double parameters, double ranks) {
      return std::ceil(parameters / ranks) * ranks;
    };
    Counted sum{0.0, 0.0};
    for_each_unit([&](double shared, double experts, int units) {
      sum.shared += units * padded(shared, n), sum.experts += units * padded(experts, x);
    });
    return sum;
  }

  // Of a rank, at so many bytes each.
  Bytes kept(const Counted& parameters, double bytes, double StateShards::*kind) const {
    return Bytes(parameters.shared * bytes / (shards_.*kind)) +
           Bytes(parameters.experts * bytes / (expert_shards_.*kind));
  }

  void add_states(StageBytes& bytes, const Counted& parameters, const Counted& trained) const {
    const double state = state_bytes_per_parameter(strategy_.optimizer, storage_);
    bytes.weights = weight_bytes(parameters.shared) / shards_.weights +
                    Bytes(parameters.experts * storage_.weight_bytes) / expert_shards_.weights +
                    low_precision_weights(parameters);
    if (strategy_.adapters) bytes.weights += Bytes(trained.all() * size_of(DType::Bf16).value());
    bytes.gradients = kept(trained, storage_.gradient_bytes, &StateShards::gradients);
    if (run_.framework.gradients.copied_into_buckets && strategy_.dp > 1 &&
        strategy_.sharding == Sharding::None) {
      bytes.buckets = bytes.gradients;
    }
    const double owned =
        updated_shared(trained.shared) + trained.experts / expert_shards_.optimizer;
    bytes.main_gradients = Bytes(owned * storage_.main_gradient_bytes);
    bytes.master = Bytes(owned * storage_.master_bytes);
    bytes.states = Bytes(owned * state) + table_states(owned);
    const double temporary =
        update_temporary_bytes(strategy_.optimizer, storage_, run_.framework.update.fused);
    const double cast =
        !run_.framework.autograd && storage_.gradient_bytes < kFp32Bytes ? kFp32Bytes : 0.0;
    bytes.temporaries =
        Bytes(updated_at_once(owned) * (run_.framework.update.temporary_bytes + temporary + cast));
    if (run_.framework.update.unit_by_unit && !run_.framework.autograd)
      bytes.temporaries += size_of(DType::Fp32);
    if (run_.framework.update.in_backward) free_gradients(bytes);
    if (shards_.weights > 1.0 || strategy_.offload.parameters)
      add_gathered_unit(bytes, parameters.all());
    move_to_host(bytes, owned);
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
    if (!run_.framework.update.unit_by_unit) return owned;
    return std::min(owned, run_.framework.sharded.flat_units ? largest_flat_unit()
                                                             : largest_unit() / shards_.optimizer);
  }

  // This rank's part of one of the stage's.
  double largest_flat_unit() const {
    const double n = strategy_.shard_ranks(), x = strategy_.expert_shard_ranks();
    double largest = 0.0;
    for_each_unit([&](double shared, double experts, int) {
      largest = std::max({largest, std::ceil(shared / n), std::ceil(experts / x)});
    });
    return largest;
  }

  // Visits the parameters of a unit, those of its divided experts, and how many such units the
  // stage has.
  template <class Visit>
  void for_each_unit(const Visit& visit) const {
    const double divided = rank_.experts_divided ? rank_.experts : 0.0;
    for (int chunk = 0; chunk < contents_.chunks(); ++chunk) {
      const ModelChunk& part = contents_.part(stage_, chunk);
      if (part.embedding) visit(rank_.embedding, 0.0, 1);
      if (part.dense_blocks() > 0) visit(rank_.block, 0.0, part.dense_blocks());
      if (part.moe_blocks > 0)
        visit(rank_.moe_block + rank_.experts - divided, divided, part.moe_blocks);
      if (part.head) visit(rank_.ends({.head = true, .meets_embedding = part.has_table()}), 0.0, 1);
    }
  }

  double largest_unit() const {
    return std::max({rank_.embedding, rank_.head, rank_.largest_block()});
  }

  double largest_table() const {
    const ModelChunk& first = contents_.part(stage_, 0);
    const ModelChunk& last = contents_.part(stage_, contents_.chunks() - 1);
    if (strategy_.adapters) return 0.0;
    return std::max(first.embedding ? rank_.embedding : 0.0,
                    last.head ? rank_.ends({.head = true}) : 0.0);
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
          high_precision_blocks(run_.framework.low_precision, strategy_.precision, run_.model,
                                contents_.part(stage_, chunk));
      sum.dense += wide.dense, sum.moe += wide.moe;
    }
    return sum;
  }

  // Quantised weights that outlive a micro-batch, both layouts where the device needs them, with
  // their scales: beside the 16-bit ones or instead of them.  Sharded weights are quantised as they
  // are gathered.
  Bytes low_precision_weights(const Counted& parameters) const {
    const LowPrecisionRecipe& recipe = run_.framework.low_precision;
    const bool whole =
        shards_.weights == 1.0 && expert_shards_.weights == 1.0 && !strategy_.offload.parameters;
    if (!whole || !is_low_precision(matmul_dtype(strategy_.precision)) ||
        !(recipe.caches_weights || recipe.stores_weights))
      return Bytes(0.0);
    const double each = low_precision_copies(recipe, strategy_.precision) *
                        low_precision_bytes(recipe, strategy_.precision, true);
    const double low_precision = block_parameters() + parameters.experts -
                                 high_precision_.dense * rank_.block -
                                 high_precision_.moe * (rank_.moe_block + rank_.experts);
    return Bytes(low_precision * (each - (recipe.stores_weights ? storage_.weight_bytes : 0.0)));
  }

  // 4-bit recipes pack the blocks; the embedding, the head and the norms stay in 16 bits.
  Bytes weight_bytes(double parameters) const {
    const double packed = block_parameters();
    const bool four_bit =
        strategy_.precision == Precision::Nf4 || strategy_.precision == Precision::Int4;
    if (!four_bit) return Bytes(parameters * storage_.weight_bytes);
    return Bytes(packed * storage_.weight_bytes) + (parameters - packed) * size_of(DType::Bf16);
  }

  // Weights of the block at hand, of the next one with prefetch, and of the larger end; gradients
  // of a block in the compute format and, where they are reduced in fp32, once more.
  void add_gathered_unit(StageBytes& bytes, double parameters) const {
    const double compute_bytes = size_of(activation_dtype(strategy_.precision)).value();
    bytes.gathered = Bytes(gathered_parameters(parameters) * compute_bytes);
    if (strategy_.adapters) return;
    bytes.gradient_buffers =
        Bytes(whole_blocks(run_.framework.sharded.gradient_blocks) * rank_.largest_block() *
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
    const bool kept = !run_.framework.sharded.regathers_in_backward ||
                      (strategy_.adapters && run_.framework.sharded.keeps_frozen);
    if (kept && strategy_.sharding != Sharding::None) return parameters;
    const double end = std::max(rank_.embedding, rank_.head);
    const double blocks =
        whole_blocks(run_.framework.sharded.gathered_blocks) * rank_.largest_block();
    if (run_.framework.sharded.live_parameters <= 0.0) return blocks + end;
    return std::max({std::min(run_.framework.sharded.live_parameters, parameters), blocks, end});
  }

  void move_to_host(StageBytes& bytes, double owned) const {
    if (strategy_.offload.optimizer) {
      const double cast = storage_.gradient_bytes < kFp32Bytes ? kFp32Bytes : 0.0;
      bytes.host = Bytes(owned * kFp32Bytes) + bytes.states;
      bytes.host_update =
          Bytes(largest_flat_unit() * (storage_.gradient_bytes + cast + kFp32Bytes) + kFp32Bytes);
      bytes.master = bytes.states = bytes.temporaries = bytes.main_gradients = Bytes(0.0);
      if (run_.framework.autograd) bytes.gradients = bytes.gradient_buffers;
    }
    if (strategy_.offload.parameters) bytes.weights = Bytes(0.0);
  }

  void add_buffers(StageBytes& bytes) const {
    if (strategy_.dp > 1 || strategy_.sharding != Sharding::None)
      bytes.framework = run_.framework.reserve.framework;
    const Bytes workspace =
        run_.framework.reserve.matmul_workspace.value_or(run_.cluster.device.matmul_workspace);
    bytes.workspaces = run_.framework.reserve.matmul_workspaces * workspace;
    if (run_.framework.reserve.transformer_engine)
      bytes.workspaces += engine_workspace() + dummy_weight_gradients();
    if (strategy_.pp > 1 && run_.framework.autograd)
      bytes.pipeline_buffers = kPipelineBuffers * stage_output(run_.model, strategy_);
    if (framework_holds_inputs()) bytes.buffers = masks() + positions() + step_tokens();
    if (!has_experts_) return;
    bytes.workspaces += run_.framework.reserve.grouped_gemm_streams * engine_workspace();
    if (strategy_.moe_dispatch == ExpertDispatch::AllGather)
      bytes.dispatch_buffers = gathered_tokens();
  }

  // The runtime allocates the inputs of a step once.
  bool framework_holds_inputs() const { return !run_.framework.autograd; }
  Bytes masks() const {
    const double side = strategy_.flash_attention ? std::min(kAttentionBlock, run_.model.seq_len)
                                                  : run_.model.seq_len;
    return Bytes(side * side * kFlag);
  }
  Bytes positions() const {
    const int turned = run_.model.mla ? run_.model.mla->qk_rope_head_dim : run_.model.head_dim;
    if (run_.model.position != Position::Rope) return Bytes(0.0);
    return static_cast<double>(run_.model.seq_len) * turned *
           size_of(activation_dtype(strategy_.precision));
  }
  // Ids with the embedding, targets with the head.
  Bytes step_tokens() const {
    int kinds = 0;
    for (int chunk = 0; chunk < contents_.chunks(); ++chunk) {
      const ModelChunk& part = contents_.part(stage_, chunk);
      kinds += (part.embedding ? 1 : 0) + (part.head ? 1 : 0);
    }
    const double tokens = static_cast<double>(strategy_.micro_batch) * run_.model.seq_len *
                          strategy_.num_microbatches();
    return Bytes(kinds * kTokenId * tokens);
  }

  Bytes engine_workspace() const {
    return run_.cluster.device.matmul_workspace >= kLargeWorkspace ? kLargeWorkspace
                                                                   : kEarlyEngineWorkspace;
  }

  // GEMMs that add to the main gradients give autograd a tensor all the same, one for all weights
  // of a shape.
  Bytes dummy_weight_gradients() const {
    const bool needed = run_.framework.reserve.dummy_weight_gradients &&
                        run_.framework.gradients.accumulated_by_gemm;
    if (!needed || strategy_.adapters) return Bytes(0.0);
    std::array<std::pair<std::int64_t, std::int64_t>, 2 * kWeightNames> shapes;
    auto end = shapes.begin();
    double values = 0.0;
    const auto add = [&](LayerKind kind) {
      for (const LayerWeight& weight : layer_weights(run_.model, kind)) {
        if (weight.rows == 0 || weight.part == LayerPart::Router) continue;
        const LayerWeight own = weight.on_rank(
            weight.part == LayerPart::Experts ? strategy_.expert_tensor_ranks() : strategy_.tp);
        const std::pair shape{own.rows, own.columns};
        if (std::find(shapes.begin(), end, shape) != end) continue;
        *end++ = shape;
        values += static_cast<double>(own.rows) * static_cast<double>(own.columns);
      }
    };
    if (contents_.moe_blocks(stage_) < contents_.blocks(stage_)) add(LayerKind::Dense);
    if (has_experts_) add(LayerKind::Moe);
    return values * size_of(activation_dtype(strategy_.precision));
  }

  // A buffer that stays, of the tokens of all ranks among which rows are dispatched; one rank alone
  // needs none.
  Bytes gathered_tokens() const {
    const ExpertShape shape = expert_shape(run_.model, strategy_, run_.framework);
    const int ranks = strategy_.ep * strategy_.expert_tensor_ranks();
    if (ranks == 1) return Bytes(0.0);
    const double tokens =
        static_cast<double>(shape.tokens) * (shape.routes_shards ? ranks : strategy_.ep);
    return tokens * run_.model.hidden_size * size_of(activation_dtype(strategy_.precision));
  }

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

StageBytes stage_bytes(const Run& run, const LayerPrices& prices, const StageContents& contents,
                       int stage) {
  return StageInventory(run, prices, contents, stage).bytes();
}

}  // namespace llmsim::sim
