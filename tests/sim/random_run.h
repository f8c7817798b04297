// Valid runs of all kinds, for properties that hold whatever the run.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string>

#include "sim/strategy/validity.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {

class RandomChoice {
 public:
  explicit RandomChoice(unsigned seed) : random_(seed) {}

  // The same on every machine, unlike std::uniform_int_distribution.
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  bool yes() { return below(2) == 0; }
  template <class Value>
  Value of(std::initializer_list<Value> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }

 private:
  std::mt19937 random_;
};

// Layers of one thing each in any order, or mixers before the MLPs or the experts that were there.
inline void make_hybrid(Transformer& model, RandomChoice& choose) {
  const char first = choose.of({'M', 'G', 'S'});
  std::string letters = choose.yes() ? "*" : model.moe ? "*-E" : "*-", pattern(1, first);
  letters += first;
  while (pattern.size() < static_cast<std::size_t>(model.num_layers))
    pattern += letters[static_cast<std::size_t>(choose.below(static_cast<int>(letters.size())))];
  model.layer_pattern = pattern;
  if (first == 'M')
    model.mamba = Mamba{.num_heads = 32, .head_dim = 64, .num_groups = 8, .state_size = 128};
  if (first == 'S') model.mamba1 = Mamba1{.inner_size = 2048, .state_size = 16, .dt_rank = 64};
  if (first == 'G')
    model.gated_delta_net = GatedDeltaNet{
        .num_key_heads = 8, .key_head_dim = 128, .num_value_heads = 16, .value_head_dim = 128};
  if (model.moe && choose.yes()) model.moe->latent_size = 256;
}

// Three layers over four images or clips of 64 patches, or with windows of 16.
inline Tower random_tower(RandomChoice& choose, const Transformer& model) {
  Tower tower{.num_layers = 3,
              .hidden_size = 256,
              .num_heads = 4,
              .ffn_size = 512,
              .rotary = choose.yes(),
              .patch_embedding = choose.yes() ? "588x256" : "2x48x256 768xh",
              .patches = 64,
              .merged_patches = 4,
              .projector = "1024x" + std::to_string(model.hidden_size),
              .tokens = 64,
              .frozen = choose.yes()};
  if (choose.yes()) tower.window = 16, tower.window_interval = choose.of({1, 2});
  return tower;
}

// Dense, MoE in every layer, in every second or after some dense ones, hybrids; 4 to 20 layers.
inline Transformer random_model(RandomChoice& choose) {
  Transformer model = choose.of({small_model(), small_moe(), small_moe()});
  model.num_layers = 4 + choose.below(17);
  model.vocab_size = choose.of({64, 4096, 32768});
  model.tied_embeddings = choose.yes();
  model.gated_mlp = choose.yes();
  model.position = choose.of({Position::Learned, Position::Rope});
  if (choose.below(8) == 0) model.vision = random_tower(choose, model);
  if (choose.below(8) == 0) model.audio = random_tower(choose, model);
  const bool hybrid = choose.below(4) == 0;
  if (!model.moe) {
    if (hybrid) make_hybrid(model, choose);
    return model;
  }
  model.moe->layer_interval = choose.of({1, 2, 3});
  model.moe->num_dense_layers = choose.of({0, 0, 1, 3});
  if (choose.yes()) model.moe->num_shared_experts = 1, model.moe->shared_expert_ffn_size = 512;
  if (hybrid) make_hybrid(model, choose);
  return model;
}

// Autograd with buffers as frameworks have them, or this project's runtime, whose units are counted
// one by one.
inline Framework random_framework(RandomChoice& choose) {
  Framework framework;
  framework.fusion = ElementwiseFusion::Fused;
  framework.autograd = choose.yes();
  framework.gradients.persist = !framework.autograd || choose.below(4) > 0;
  framework.gradients.reduced_every_microbatch =
      choose.of<std::optional<bool>>({std::nullopt, true, false});
  framework.saved.stage_outputs = framework.autograd && choose.yes();
  framework.saved.partitioned_checkpoints = framework.autograd && choose.yes();
  framework.saved.parts_per_block = framework.autograd ? choose.of({1.0, 2.0}) : 1.0;
  framework.sharded.flat_units = !framework.autograd || choose.yes();
  framework.sharded.root_stays_gathered = framework.autograd && choose.yes();
  framework.sharded.gradients_of_units = framework.autograd && choose.yes();
  framework.sharded.regathers_in_backward = choose.yes();
  framework.sharded.whole_in_pipelines = choose.yes();
  framework.sharded.prefetch_units = choose.below(4);
  framework.sharded.regathers_recomputed = choose.yes();
  framework.sharded.fetches_synchronise = choose.below(4) == 0;
  framework.update.unit_by_unit = choose.yes();
  framework.update.fused = choose.yes();
  if (choose.yes()) framework.storage.main_gradient_bytes = 4.0;
  if (choose.yes()) {
    framework.storage = {.weight_bytes = 4.0, .gradient_bytes = 4.0, .master_bytes = 0.0};
    framework.casts_weights_per_microbatch = framework.casts_weights_in_backward = true;
  }
  return framework;
}

inline Recompute random_recompute(RandomChoice& choose) {
  return choose.of<Recompute>({{.kind = RecomputeKind::None},
                               {.kind = RecomputeKind::Selective},
                               {.kind = RecomputeKind::Full},
                               {.kind = RecomputeKind::Full, .every_n = 2},
                               {.kind = RecomputeKind::Full, .every_n = 3},
                               {.kind = RecomputeKind::Full, .blocks = 1},
                               {.kind = RecomputeKind::EveryN, .every_n = 2},
                               {.kind = RecomputeKind::EveryN, .every_n = 3, .share = 2}});
}

inline Strategy random_strategy(RandomChoice& choose) {
  Strategy strategy;
  strategy.dp = choose.of({1, 2, 4}), strategy.tp = choose.of({1, 2, 4}),
  strategy.pp = choose.of({1, 2, 4, 8});
  strategy.ep = choose.of({1, 2, 4});
  if (choose.below(4) == 0) strategy.etp = 1;
  strategy.sequence_parallel = strategy.tp > 1 && choose.yes();
  strategy.sharding = choose.of({Sharding::None, Sharding::None, Sharding::Zero1, Sharding::Zero2,
                                 Sharding::Zero3, Sharding::Hsdp});
  if (strategy.sharding == Sharding::Hsdp) strategy.shard_size = std::max(1, strategy.dp / 2);
  strategy.pipeline_schedule =
      choose.of({PipelineSchedule::OneForwardOneBackward, PipelineSchedule::Interleaved,
                 PipelineSchedule::Interleaved, PipelineSchedule::GPipe, PipelineSchedule::ZbH1,
                 PipelineSchedule::ZbV, PipelineSchedule::DualPipe});
  if (strategy.pipeline_schedule == PipelineSchedule::Interleaved)
    strategy.virtual_stages = choose.of({2, 3});
  if (is_v_shaped(strategy.pipeline_schedule)) strategy.virtual_stages = 2;
  strategy.micro_batch = choose.of({1, 2});
  const int num_microbatches =
      choose.yes() ? strategy.pp * (1 + choose.below(6)) : 1 + choose.below(48);
  strategy.global_batch = strategy.dp * strategy.micro_batch * num_microbatches;
  // V-Min is not drawn: its steps can take 3 % longer on faster devices, which is not understood.
  if (strategy.pipeline_schedule == PipelineSchedule::ZbV)
    strategy.pipeline_schedule =
        std::array{PipelineSchedule::ZbV,
                   PipelineSchedule::VHalf}[static_cast<unsigned>(num_microbatches) % 2];
  strategy.recompute = random_recompute(choose);
  strategy.fused_cross_entropy = choose.yes();
  strategy.flash_attention = choose.yes();
  if (strategy.expert_tensor_ranks() * strategy.ep == strategy.tp * strategy.cp && choose.yes())
    strategy.mesh_order = MeshOrder::DataLast;
  return strategy;
}

// Heads, streams and tables that few models have.
inline void make_rare(Transformer& model, RandomChoice& choose) {
  if (choose.below(8) == 0) model.tied_embeddings = false, model.num_labels = choose.below(3);
  if (choose.below(8) == 0 && !is_hybrid(model)) {
    model.residual_streams = 4, model.alternating_updates = true;
    model.laurel_rank = 64;
  }
  if (choose.below(8) == 0) model.query_rank = 128;
  if (model.moe && choose.below(8) == 0) model.moe->num_last_dense_layers = 1;
  if (choose.below(8) == 0)
    model.ngram_embedding = NgramEmbedding{.num_tables = 4, .vocab_size = 1000, .width = 256};
}

inline void choose_muon(TrainingRun& run, RandomChoice& choose) {
  run.strategy.optimizer = OptimizerKind::Muon;
  run.strategy.muon_tp_mode = choose.of<std::optional<MuonTensorMode>>(
      {std::nullopt, MuonTensorMode::Blockwise, MuonTensorMode::Distributed});
  run.framework.update.symmetric_gemms = choose.yes();
  run.framework.update.gram_newton_schulz = choose.yes();
  run.framework.update.splits_gate = choose.yes();
  run.framework.update.whole_tables = choose.yes();
  run.framework.update.gathers_momentum = choose.yes();
}

// None where the choices break a rule.
inline std::optional<TrainingRun> random_run(unsigned seed) {
  RandomChoice choose(seed);
  TrainingRun run;
  run.model = random_model(choose);
  run.framework = random_framework(choose);
  run.strategy = random_strategy(choose);
  // The runtime sends checkpoints alone, all of them.
  const bool autograd = run.framework.autograd, offloads = choose.below(4) == 0;
  if (offloads && (autograd || run.strategy.recompute.kind == RecomputeKind::Full)) {
    run.strategy.offload.activations = true;
    if (autograd) run.strategy.offload.blocks = choose.below(2);
    if (autograd && choose.yes())
      run.strategy.offload.modules = {.mlp_input = true, .activation = true};
  }
  if (choose.below(6) == 0) run.strategy.offload.optimizer = true;
  run.cluster = ideal_cluster(run.strategy.num_devices());
  make_rare(run.model, choose);
  if (choose.below(4) == 0) choose_muon(run, choose);
  if (broken_rule_name(run.model, run.strategy, run.cluster.num_devices)) return std::nullopt;
  return run;
}

}  // namespace llmsim::sim
