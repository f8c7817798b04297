#include "runtime/measure/kernel_bench.h"

#include <cstdint>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/library/device.h"
#include "runtime/library/memory_meter.h"
#include "runtime/library/operator_trace.h"
#include "tests/runtime/experts_setup.h"
#include "tests/runtime/training_setup.h"

namespace llmsim::runtime {
namespace {

constexpr sim::Bytes kCache{1e5};
const RepeatOptions kOnce{.warm_up = 0, .least = 1, .most = 1};

std::vector<KernelCase> small_cases(Family family, sim::Precision precision, bool fused) {
  TrainingSetup setup = small_training(family);
  setup.strategy.precision = precision;
  setup.strategy.micro_batch = 2;
  setup.strategy.flash_attention = setup.strategy.fused_cross_entropy = fused;
  return cases_of(setup.model, setup.strategy);
}

template <typename Visit>
void for_each_small_case(const Visit& visit) {
  for (const Family family : {Family::Gpt2, Family::Llama, Family::Mla, Family::MlaDirect}) {
    for (const sim::Precision precision : {sim::Precision::Fp32, sim::Precision::Bf16}) {
      if (precision == sim::Precision::Bf16 && !multiplies_in(c10::kCPU, c10::kBFloat16)) continue;
      for (const bool fused : {false, true}) {
        for (const KernelCase& one : small_cases(family, precision, fused)) visit(one);
      }
      TrainingSetup moe =
          small_moe({.name = "moe", .family = family, .moe = moe_forms().front().moe});
      moe.strategy.precision = precision;
      for (const KernelCase& one : expert_cases_of(moe.model, moe.strategy)) visit(one);
    }
  }
}

TEST(KernelBench, EveryOperatorOfAModelHasAKernel) {
  for_each_small_case([](const KernelCase& one) {
    const nlohmann::json record = measure_kernel(one, c10::kCPU, kCache, kOnce);
    EXPECT_EQ(record["outcome"], "ok") << one.key();
    ASSERT_TRUE(record.contains("median_s")) << one.key();
    EXPECT_GE(record["median_s"].get<double>(), 0.0) << one.key();
  });
}

// What is timed is the work that the simulator prices.
TEST(KernelBench, GemmsAndAttentionExecuteTheirFlops) {
  for_each_small_case([](const KernelCase& one) {
    const bool attention = one.op.kind == sim::OperatorKind::Attention;
    if (one.op.kind != sim::OperatorKind::Gemm && !attention) return;
    const std::optional<Work> work = work_of(one, c10::kCPU, kCache);
    ASSERT_TRUE(work) << one.key();
    OperatorTrace trace;
    work->run();
    EXPECT_EQ(attention ? trace.attention_flops() : trace.gemm_flops(),
              static_cast<std::int64_t>(one.op.flops.value()))
        << one.key();
  });
}

TEST(KernelBench, WhatDoesNotFitIsRecordedAsSuch) {
  install_memory_meter();
  KernelCase one = small_cases(Family::Gpt2, sim::Precision::Fp32, false).front();
  one.shape.batch = std::int64_t{1} << 42;
  const nlohmann::json record = measure_kernel(one, c10::kCPU, kCache, kOnce);
  EXPECT_EQ(record["outcome"], "oom");
  EXPECT_FALSE(record.contains("median_s"));
}

TEST(Shapes, ComeFromTheCatalogueOnceEachAndWithinTheLimits) {
  const ShapeLimits limits{.precisions = {sim::Precision::Fp32},
                           .memory = 4.0 * sim::GiB,
                           .longest = sim::Seconds(0.5),
                           .rate = sim::FlopsPerSecond(1e11),
                           .bandwidth = 10.0 * sim::GBps,
                           .cases_per_kind = 5};
  std::set<std::string> keys;
  std::set<sim::OperatorKind> kinds;
  for (const KernelCase& one : kernel_cases(limits)) {
    EXPECT_TRUE(keys.insert(one.key()).second) << one.key();
    EXPECT_LE(one.expected, 0.5) << one.key();
    EXPECT_LE(4.0 * one.op.moved, limits.memory) << one.key();
    kinds.insert(one.op.kind);
  }
  for (const sim::OperatorKind kind :
       {sim::OperatorKind::Gemm, sim::OperatorKind::Attention, sim::OperatorKind::Norm,
        sim::OperatorKind::Softmax, sim::OperatorKind::Activation, sim::OperatorKind::Rotary,
        sim::OperatorKind::Residual, sim::OperatorKind::Copy, sim::OperatorKind::Embedding,
        sim::OperatorKind::CrossEntropy, sim::OperatorKind::Optimizer,
        sim::OperatorKind::GradientNorm}) {
    EXPECT_TRUE(kinds.contains(kind)) << name_of(kind);
  }
}

}  // namespace
}  // namespace llmsim::runtime
