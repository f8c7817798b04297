#include "sim/strategy/recompute.h"

#include <gtest/gtest.h>

#include "sim/predict.h"
#include "tests/sim/sample_run.h"

namespace llmsim::sim {
namespace {

TEST(Recompute, EveryTextIsReadBackAsWritten) {
  for (const char* text :
       {"none", "selective", "selective=mlp", "selective=core_attn+mlp+moe+layernorm+activation",
        "selective=moe_act+shared_experts", "full", "full/2", "full=5", "every-n=4", "every-n=2/3", "op", "op=all", "op=qkv"}) {
    ASSERT_TRUE(recompute_from(text)) << text;
    EXPECT_EQ(text_of(*recompute_from(text)), text);
  }
}

TEST(Recompute, OtherTextsAreNothing) {
  for (const char* text : {"", "some", "every-n", "every-n=0", "every-n=3/2", "full=x", "selective=", "selective=softmax",
                           "none=1", "op=2", "every-n/4", "full=99999"}) {
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
  EXPECT_NEAR((some.step_time - none.step_time).value(), 0.25 * (full.step_time - none.step_time).value(), 1e-12);
  EXPECT_NEAR((some.hardware_flops - none.hardware_flops).value(), 0.25 * (full.hardware_flops - none.hardware_flops).value(),
              1.0);
  EXPECT_GT(none.memory.peak, some.memory.peak);
  EXPECT_GT(some.memory.peak, full.memory.peak);
}

}  // namespace
}  // namespace llmsim::sim
