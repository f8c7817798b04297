// Choices that need an accelerator are refused on the CPU with what they need, and not offered.
#include <functional>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/kernels/library_attention.h"
#include "runtime/kernels/low_precision_linear.h"
#include "runtime/library/cuda_graph.h"
#include "runtime/library/memory_meter.h"
#include "runtime/measure/step_bench.h"
#include "sim/base/error.h"
#include "tests/error_of.h"
#include "tests/runtime/training_setup.h"

namespace llmsim::runtime {
namespace {

std::string refusal_of(const std::function<void(TrainingSetup&)>& change) {
  TrainingSetup setup = small_training(Family::Llama);
  change(setup);
  const RankGroups groups = counting_groups(setup.strategy, 0);
  return error_of([&] { Trainer(setup, groups); });
}

TEST(DeviceChoices, AreRefusedOnTheCpu) {
  EXPECT_EQ(refusal_of([](TrainingSetup& setup) { setup.strategy.cuda_graph = true; }),
            "cuda_graph = true needs a CUDA or ROCm device and a runtime built with its headers; "
            "the device is cpu");
  EXPECT_EQ(
      refusal_of([](TrainingSetup& setup) { setup.attention_kernels = AttentionKernels::Flash; }),
      "attention_kernels = flash runs on CUDA and ROCm devices, not on cpu; blockwise runs on all");
  EXPECT_EQ(refusal_of([](TrainingSetup& setup) {
              setup.attention_kernels = AttentionKernels::Efficient;
            }),
            "attention_kernels = efficient runs on CUDA and ROCm devices, not on cpu; blockwise "
            "runs on all");
  EXPECT_EQ(
      refusal_of([](TrainingSetup& setup) { setup.strategy.precision = sim::Precision::Fp8; }),
      "precision = fp8 runs on CUDA and ROCm devices, not on cpu; bf16 runs on all");
}

TEST(DeviceChoices, ThatContradictOthersAreRefused) {
  EXPECT_EQ(refusal_of([](TrainingSetup& setup) {
              setup.attention_kernels = AttentionKernels::Flash,
              setup.strategy.flash_attention = false;
            }),
            "attention_kernels = flash needs flash_attention = true");
  EXPECT_EQ(refusal_of([](TrainingSetup& setup) {
              setup.strategy.precision = sim::Precision::Fp8, setup.autocast = true;
            }),
            "autocast = true is for bf16, not for fp8");
  EXPECT_EQ(
      refusal_of([](TrainingSetup& setup) { setup.strategy.precision = sim::Precision::Nvfp4; }),
      "the runtime trains in fp32, bf16 and fp8, not in nvfp4");
}

TEST(DeviceChoices, ShapesThatRanksDoNotDivideAreRefused) {
  EXPECT_EQ(refusal_of([](TrainingSetup& setup) { setup.strategy.tp = 4; }),
            "tp = 4 does not divide num_kv_heads = 2, which the runtime deals out evenly");
  EXPECT_EQ(
      refusal_of([](TrainingSetup& setup) { setup.model.vocab_size = 97, setup.strategy.tp = 2; }),
      "tp = 2 does not divide vocab_size = 97, which the runtime deals out evenly");
}

TEST(StepBench, RecordsAStepThatDoesNotFit) {
  install_memory_meter();
  StepCase one{.key = "large", .setup = small_training(Family::Llama)};
  one.setup.model.vocab_size = 1 << 30, one.setup.model.hidden_size = 1 << 20;
  const nlohmann::json record =
      measure_step(one, counting_groups(one.setup.strategy, 0), "cpu", {.least = 1, .most = 1});
  EXPECT_EQ(record.at("outcome"), "oom");
  EXPECT_EQ(record.at("run").at("measured").at("outcome"), "oom");
  EXPECT_FALSE(record.contains("median_s"));
}

TEST(DeviceChoices, AreNotOfferedOnTheCpu) {
  EXPECT_FALSE(has_attention_kernels(AttentionKernels::Flash, c10::kCPU));
  EXPECT_FALSE(has_low_precision_gemms(c10::kCPU));
  EXPECT_FALSE(can_capture_graphs(c10::kCPU));
  EXPECT_TRUE(has_attention_kernels(AttentionKernels::Blockwise, c10::kCPU));
  for (const StepCase& one : step_cases(c10::kCPU, true)) {
    EXPECT_EQ(one.setup.attention_kernels, AttentionKernels::Blockwise) << one.key;
    EXPECT_NE(one.setup.strategy.precision, sim::Precision::Fp8) << one.key;
    EXPECT_FALSE(one.setup.strategy.cuda_graph) << one.key;
  }
}

}  // namespace
}  // namespace llmsim::runtime
