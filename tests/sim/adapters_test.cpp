#include "sim/strategy/adapters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/memory/shards.h"
#include "sim/model/layer_kinds.h"
#include "sim/model/parameters.h"
#include "sim/operators/block.h"
#include "sim/predict.h"
#include "sim/strategy/strategy.h"
#include "tests/sim/operator_lists.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

// Llama's kind: h = 1024, 8 heads of 128, 2 of keys and values, f = 3000.
Transformer grouped_model() {
  Transformer model = small_run().model;
  model.hidden_size = 1024, model.num_heads = 8, model.head_dim = 128;
  model.num_kv_heads = 2, model.gated_mlp = true, model.ffn_size = 3000;
  return model;
}

double trained_by(const std::string& target) {
  Strategy strategy;
  const Transformer model = grouped_model();
  strategy.adapters = Adapters{.rank = 4, .layers = *adapted_layers_from(target, model)};
  return rank_parameters(model, strategy).kinds[0].adapters;
}

TEST(Adapters, EveryLayerHasRankTimesItsInputsAndOutputs) {
  EXPECT_EQ(trained_by("q"), 4.0 * (1024 + 1024));
  EXPECT_EQ(trained_by("k"), 4.0 * (1024 + 256));
  EXPECT_EQ(trained_by("v"), 4.0 * (1024 + 256));
  EXPECT_EQ(trained_by("o"), 4.0 * (1024 + 1024));
  EXPECT_EQ(trained_by("gate"), 4.0 * (1024 + 3000));
  EXPECT_EQ(trained_by("up"), 4.0 * (1024 + 3000));
  EXPECT_EQ(trained_by("down"), 4.0 * (3000 + 1024));
}

TEST(Adapters, GroupsOfLayersAreTheirSum) {
  EXPECT_EQ(trained_by("attention"), 4.0 * (2 * 2048 + 2 * 1280));
  EXPECT_EQ(trained_by("mlp"), 4.0 * 3 * 4024);
  EXPECT_EQ(trained_by("all"), trained_by("attention") + trained_by("mlp"));
  EXPECT_EQ(trained_by("all-linear"), trained_by("all"));
  EXPECT_EQ(trained_by("gate_proj"), trained_by("gate"));
}

TEST(Adapters, LayersThatAModelDoesNotHaveAreNotNamed) {
  Transformer model = grouped_model();
  EXPECT_FALSE(adapted_layers_from("qkv", model));
  model.gated_mlp = false;
  EXPECT_FALSE(adapted_layers_from("gate", model));
  EXPECT_EQ(names_of(*adapted_layers_from("mlp", model)), (std::vector<std::string>{"up", "down"}));
  model.moe = Moe{};
  EXPECT_FALSE(adapted_layers_from("mlp", model));
  EXPECT_EQ(names_of(*adapted_layers_from("all", model)),
            (std::vector<std::string>{"q", "k", "v", "o"}));
}

TEST(Adapters, BottlenecksOfLatentAttentionHaveOneEach) {
  Transformer model = grouped_model();
  model.mla = Mla{.q_lora_rank = 96,
                  .kv_lora_rank = 64,
                  .qk_nope_head_dim = 32,
                  .qk_rope_head_dim = 16,
                  .v_head_dim = 32};
  Strategy strategy;
  strategy.adapters = Adapters{.rank = 2, .layers = {.q = true}};
  // Down to 96, and up to 8 heads of 32 + 16.
  EXPECT_EQ(rank_parameters(model, strategy).kinds[0].adapters, 2.0 * (1024 + 96 + 96 + 8 * 48));
  strategy.adapters->layers = {.k = true, .v = true};
  // Down to 64 + 16, and from 64 up to 8 heads of 32 + 32.
  EXPECT_EQ(rank_parameters(model, strategy).kinds[0].adapters, 2.0 * (1024 + 80 + 64 + 8 * 64));
}

// Two GEMMs of the forward pass for each adapter, and four of the backward pass.
TEST(Adapters, GemmsAreThoseOfTheAdaptedLayers) {
  TrainingRun run = small_run();
  run.model = grouped_model();
  const auto gemms = [&](const std::string& target) {
    run.strategy.adapters = Adapters{.rank = 4, .layers = *adapted_layers_from(target, run.model)};
    const LayerOperators block =
        lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, LayerKind::Dense);
    int count = 0;
    for (const OperatorList* pass : {&block.forward, &block.backward})
      for (const Operator& op : *pass) count += std::string(op.label).starts_with("adapter_");
    return count;
  };
  EXPECT_EQ(gemms("q"), 6);
  EXPECT_EQ(gemms("attention"), 4 * 6);
  EXPECT_EQ(gemms("all"), 7 * 6);
}

// In the format of the run, which may be all that the device multiplies in; low precision is for
// the frozen weights alone.
TEST(Adapters, GemmsAreOfTheFormatOfTheRun) {
  TrainingRun run = small_run();
  run.model = grouped_model();
  run.strategy.adapters = Adapters{.rank = 4};
  for (const auto& [precision, dtype] :
       {std::pair{Precision::Bf16, DType::Bf16}, std::pair{Precision::Fp16, DType::Fp16},
        std::pair{Precision::Tf32, DType::Tf32}, std::pair{Precision::Fp32, DType::Fp32},
        std::pair{Precision::Fp8, DType::Bf16}, std::pair{Precision::Nf4, DType::Bf16}}) {
    run.strategy.precision = precision;
    const LayerOperators block =
        lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, LayerKind::Dense);
    for (const OperatorList* pass : {&block.forward, &block.backward}) {
      for (const Operator& op : *pass) {
        if (std::string(op.label).starts_with("adapter_")) {
          EXPECT_EQ(op.dtype, dtype) << op.label << " in " << name_of(precision);
        }
      }
    }
  }
}

// Mixers of states have their own: of Jamba's into 2 * 2048 channels, out of 2048, and to 64 + 32
// values of dt, B and C.  Layers of attention have none of them.
TEST(Adapters, MixersHaveThoseOfTheirProjections) {
  Transformer model = small_model();
  model.layer_pattern = "SSSS*SSS", model.ffn_size = 0;
  model.mamba1 = Mamba1{.inner_size = 2048, .state_size = 16, .dt_rank = 64};
  EXPECT_FALSE(adapted_layers_from("in", small_model()));
  Strategy strategy;
  strategy.adapters = Adapters{.rank = 2, .layers = *adapted_layers_from("mixer", model)};
  EXPECT_EQ(names_of(strategy.adapters->layers), (std::vector<std::string>{"in", "out", "x"}));
  const RankParameters rank = rank_parameters(model, strategy);
  const double mixer = 2.0 * (1024 + 4096 + 2048 + 1024 + 2048 + 96);
  EXPECT_EQ(rank.kinds[0].adapters, mixer);
  EXPECT_EQ(rank.kinds[1].adapters, 0.0);
  EXPECT_EQ(rank.trained({.blocks = 8, .of_kind = {7, 1}}), 7.0 * mixer);
  EXPECT_EQ(adapted_layers_from("in_proj", model), (AdaptedLayers{.in = true}));
}

// Frozen weights have no gradients: of t tokens the inputs of the projections are not saved, nor are
// the channels for dt, B and C, but what the scan reads is.
TEST(Adapters, FrozenMixersSaveWhatTheirScansNeed) {
  TrainingRun run = small_run();
  run.model.layer_pattern = "M", run.model.ffn_size = 0, run.model.norm = Norm::RmsNorm;
  run.model.mamba = Mamba{.num_heads = 32, .head_dim = 64, .num_groups = 8, .state_size = 128};
  run.strategy.micro_batch = 1;
  const LayerKind mamba{.mixer = Mixer::Mamba2, .mlp = LayerMlp::None};
  const double t = run.model.seq_len;
  const double all = saved_by_block(run, RecomputeKind::None, mamba).value();
  run.strategy.adapters = Adapters{.rank = 2, .layers = {.q = true}};
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::None, mamba).value(),
                   all - 2.0 * t * (1024 + 2048));
  run.strategy.adapters->layers = {.out = true};
  EXPECT_DOUBLE_EQ(saved_by_block(run, RecomputeKind::None, mamba).value(), all - 2.0 * t * 1024);
}

TEST(Adapters, HybridsExecuteTheirFlops) {
  TrainingRun run = small_run();
  run.model.layer_pattern = "S*", run.model.ffn_size = 0;
  run.model.mamba1 = Mamba1{.inner_size = 2048, .state_size = 16, .dt_rank = 64};
  run.strategy.adapters = Adapters{.rank = 8, .layers = *adapted_layers_from("all", run.model)};
  const Prediction prediction = predict(run);
  EXPECT_NEAR(prediction.hardware_flops / prediction.model_flops, 1.0, 1e-9);
}

}  // namespace
}  // namespace llmsim::sim
