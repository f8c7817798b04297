#include "sim/strategy/recompute.h"

#include <gtest/gtest.h>

#include "sim/memory/chunk_layers.h"
#include "sim/memory/footprint.h"
#include "sim/model/layer_kinds.h"
#include "sim/operators/block.h"
#include "sim/operators/recomputation.h"
#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TEST(Recompute, EveryTextIsReadBackAsWritten) {
  for (const char* text :
       {"none", "selective", "selective=mlp", "selective=core_attn+mlp+moe+layernorm+activation",
        "selective=moe_act+shared_experts", "full", "full/2", "full=5", "every-n=4", "every-n=2/3",
        "op", "op=all", "op=qkv", "op=qkv+core_attn+attn_proj+mlp_up+mlp_down",
        "op=attn_proj+mlp_down"}) {
    ASSERT_TRUE(recompute_from(text)) << text;
    EXPECT_EQ(text_of(*recompute_from(text)), text);
  }
}

TEST(Recompute, OtherTextsAreNothing) {
  for (const char* text : {"", "some", "every-n", "every-n=0", "every-n=3/2", "full=x",
                           "selective=", "selective=softmax", "none=1", "op=2", "op=qkv+all",
                           "every-n/4", "full=99999"}) {
    EXPECT_FALSE(recompute_from(text)) << text;
  }
}

TEST(Recompute, MegatronsNamesForModulesAreUnderstood) {
  const auto modules = [](const char* names) { return recomputed_modules_from(names).value(); };
  EXPECT_TRUE(modules("moe_act").expert_activation);
  EXPECT_FALSE(modules("moe_act").activation);
  EXPECT_FALSE(modules("moe_act").mlp);
  EXPECT_TRUE(modules("moe+layernorm").moe);
  EXPECT_FALSE(modules("moe+layernorm").mlp);
  EXPECT_FALSE(modules("mlp+moe_act").moe);
  EXPECT_TRUE(modules("mla_up_proj").mla_up);
  EXPECT_FALSE(modules("mla_up_proj").core_attention);
  EXPECT_FALSE(recomputed_modules_from("mlp+softmax"));
}

TEST(Recompute, CountsTheBlocksOfAChunk) {
  EXPECT_EQ(recompute_from("none")->blocks_of(12), 0.0);
  EXPECT_EQ(recompute_from("selective")->blocks_of(12), 12.0);
  EXPECT_EQ(recompute_from("full=5")->blocks_of(12), 5.0);
  EXPECT_EQ(recompute_from("full=5")->blocks_of(4), 4.0);
  EXPECT_EQ(recompute_from("every-n=4")->blocks_of(12), 3.0);
  EXPECT_EQ(recompute_from("every-n=2/3")->blocks_of(12), 8.0);
  EXPECT_EQ(recompute_from("every-n=2/3")->blocks_of(4), 3.0);  // 0, 1 and 3
}

TEST(Recompute, OfTheFirstBlocksLiesBetweenNoneAndFull) {
  TrainingRun run = small_run();
  const auto step = [&](const char* recompute) {
    run.strategy.recompute = *recompute_from(recompute);
    return predict(run);
  };
  const Prediction none = step("none"), some = step("full=2"), full = step("full");
  // Two of eight blocks.
  EXPECT_NEAR((some.step_time - none.step_time).value(),
              0.25 * (full.step_time - none.step_time).value(), 1e-12);
  EXPECT_NEAR((some.hardware_flops - none.hardware_flops).value(),
              0.25 * (full.hardware_flops - none.hardware_flops).value(), 1.0);
  EXPECT_GT(none.memory.peak, some.memory.peak);
  EXPECT_GT(some.memory.peak, full.memory.peak);
}

// One tensor of tokens and hidden size, in 16 bits.
constexpr double kTensor = 1024.0 * 1024.0 * 2.0;
constexpr double kSums = 2.0 * 1024.0 * 2.0;  // mean and deviation of a norm's rows

Bytes offloaded(TrainingRun run, const char* modules,
                RecomputeKind recompute = RecomputeKind::None) {
  run.strategy.offload.modules = *offloaded_modules_from(modules);
  const LayerKind kind = run.model.moe ? LayerKind::Moe : LayerKind::Dense;
  const LayerGraph block =
      lower_block(run.model, run.strategy, run.framework, RecomputeKind::None, kind);
  Recompute chosen = run.strategy.recompute;
  chosen.kind = recompute;
  return offloaded_inputs(block, recomputation_of(block, chosen, run.model, run.framework, kind),
                          run.strategy.offload.modules);
}

TEST(Offload, ModulesHaveMegatronsNames) {
  const char* all = "attn_norm+qkv_linear+core_attn+attn_proj+mlp_norm+expert_fc1+moe_act";
  EXPECT_EQ(text_of(kAllOffloadedModules), all);
  EXPECT_EQ(offloaded_modules_from(all), kAllOffloadedModules);
  EXPECT_EQ(text_of(*offloaded_modules_from("moe_act+core_attn")), "core_attn+moe_act");
  EXPECT_FALSE(offloaded_modules_from("core_attn+mlp"));
  EXPECT_FALSE(offloaded_modules_from(""));
}

TEST(Offload, InputsOfModulesWeighWhatTheyAre) {
  const TrainingRun run = small_run();
  EXPECT_DOUBLE_EQ(offloaded(run, "attn_norm").value(), kTensor + kSums);
  EXPECT_DOUBLE_EQ(offloaded(run, "qkv_linear").value(), kTensor);
  EXPECT_DOUBLE_EQ(offloaded(run, "attn_proj").value(), kTensor);
  EXPECT_DOUBLE_EQ(offloaded(run, "mlp_norm").value(), kTensor + kSums);
  EXPECT_DOUBLE_EQ(offloaded(run, "expert_fc1").value(), kTensor);
  EXPECT_DOUBLE_EQ(offloaded(run, "moe_act").value(), 4.0 * kTensor);  // ffn_size = 4 h
  EXPECT_DOUBLE_EQ(offloaded(run, "attn_norm+moe_act").value(), 5.0 * kTensor + kSums);
  // Queries, keys and values; 8 heads keep the logarithm of a sum in fp32 for each of 1024 queries.
  EXPECT_DOUBLE_EQ(offloaded(run, "core_attn").value(), 3.0 * kTensor + 8.0 * 1024.0 * 4.0);
}

TEST(Offload, RowsOfExpertsGoNotTheirTokens) {
  TrainingRun run = small_run();
  run.model = small_moe();
  // a token visits two experts.
  EXPECT_DOUBLE_EQ(offloaded(run, "expert_fc1").value(), 2.0 * kTensor);
  EXPECT_DOUBLE_EQ(offloaded(run, "moe_act").value(), 2.0 * 1024.0 * 512.0 * 2.0);
}

TEST(Offload, WhatIsMadeAgainDoesNotGo) {
  TrainingRun run = small_run();
  run.strategy.recompute = {.kind = RecomputeKind::Selective,
                            .modules = {.core_attention = false, .norms = true}};
  EXPECT_EQ(offloaded(run, "qkv_linear+expert_fc1", RecomputeKind::Selective), Bytes(0.0));
  EXPECT_DOUBLE_EQ(offloaded(run, "attn_norm+qkv_linear", RecomputeKind::Selective).value(),
                   kTensor + kSums);
  // An MoE layer recomputed has no rows to send, the recomputation of dense MLPs leaves them.
  TrainingRun moe = run;
  moe.model = small_moe();
  moe.strategy.recompute.modules = {.core_attention = false, .moe = true};
  EXPECT_EQ(offloaded(moe, "expert_fc1+moe_act", RecomputeKind::Selective), Bytes(0.0));
  moe.strategy.recompute.modules = {.core_attention = false, .mlp = true};
  EXPECT_DOUBLE_EQ(offloaded(moe, "expert_fc1", RecomputeKind::Selective).value(), 2.0 * kTensor);
  // Of a block that is recomputed whole only the input is there.
  EXPECT_DOUBLE_EQ(
      offloaded(run, text_of(kAllOffloadedModules).c_str(), RecomputeKind::Full).value(), kTensor);
}

TEST(Offload, TheDeviceLosesWhatTheHostGains) {
  TrainingRun run = small_run();
  run.model.vocab_size = 64;  // logits that weigh nothing
  const auto peak = [&] { return memory_footprint(run, layer_prices(run)).peak; };
  const Bytes before = peak();
  run.strategy.offload = {.activations = true, .modules = *offloaded_modules_from("moe_act")};
  // One pass in flight: eight blocks, two of which stay.
  EXPECT_DOUBLE_EQ((before - peak()).value(), 6.0 * 4.0 * kTensor);
  EXPECT_DOUBLE_EQ(memory_footprint(run, layer_prices(run)).host.device.value(),
                   6.0 * 4.0 * kTensor);
}

TEST(Offload, SomeBlocksOfAStageOffloadAllTheyKeep) {
  TrainingRun run = small_run();
  run.strategy.offload = {.activations = true, .blocks = 5};
  EXPECT_DOUBLE_EQ(memory_footprint(run, layer_prices(run)).host.device.value(),
                   3.0 * layer_prices(run).blocks[0].saved.value());
  run.strategy.virtual_stages = 2;
  EXPECT_EQ(offloading_blocks(run.strategy, 4), 2.5);
  EXPECT_EQ(offloading_blocks(run.strategy, 2), 2.0);
}

TEST(Offload, TimeGrowsWithTheModulesOnASlowLink) {
  TrainingRun run = small_run();
  const Seconds none = predict(run).step_time;
  run.cluster.device.host_bandwidth = 1.0 * GBps;
  run.strategy.offload = {.activations = true, .modules = *offloaded_modules_from("moe_act")};
  const Seconds some = predict(run).step_time;
  run.strategy.offload.modules = kAllOffloadedModules;
  EXPECT_GT(some, none);
  EXPECT_GT(predict(run).step_time, some);
}

}  // namespace
}  // namespace llmsim::sim
