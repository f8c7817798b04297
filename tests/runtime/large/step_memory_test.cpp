// The simulator's tape of a step against counted allocations, to the byte.
#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "runtime/measure/counted_step.h"
#include "sim/strategy/mesh.h"
#include "tests/runtime/divided_setup.h"
#include "tests/runtime/print_counts.h"
#include "tests/runtime/simulated_run.h"
#include "tests/runtime/training_setup.h"
#include "tests/share.h"

namespace llmsim::runtime::step_memory_test {
namespace {

enum class Formats { Fp32, Bf16, Autocast };

// Meta device, ..., flash attention, chunked loss.
using Case = std::tuple<bool, Family, Formats, bool, bool>;

class StepMemoryOfOneProcess : public testing::TestWithParam<Case> {};

TrainingSetup setup_of(const Case& parameters) {
  const auto& [meta, family, formats, flash, chunked] = parameters;
  TrainingSetup setup = small_training(family);
  setup.device = meta ? c10::kMeta : c10::kCPU;
  setup.strategy.precision = formats == Formats::Fp32 ? sim::Precision::Fp32 : sim::Precision::Bf16;
  setup.autocast = formats == Formats::Autocast;
  setup.strategy.flash_attention = flash;
  setup.strategy.fused_cross_entropy = chunked;
  return setup;
}

struct Sizes {
  int seq_len, layers, micro_batch, micro_batches, vocab;
};

// 200 tokens are a block of queries and a part of one; 37 words make odd sizes.  Every
// recomputation is tried with the first.
constexpr Sizes kSizes[] = {{200, 3, 2, 2, 1000}, {64, 2, 3, 1, 96}, {32, 2, 1, 1, 37}};

// Kernels of 16-bit GEMMs on the CPU take workspace from the same allocator: up to 1 % of a step of
// 20 MB and more, and never less than nothing.
TEST_P(StepMemoryOfOneProcess, IsWhatTheAllocatorsCounted) {
  const bool exact = std::get<0>(GetParam()) || std::get<2>(GetParam()) == Formats::Fp32;
  for (const Sizes& sizes : kSizes) {
    // In 16 bits, which many CPUs emulate, the meta device alone has all; sanitizers look for no
    // values.
    const bool all = exact && &sizes == std::begin(kSizes) && kPartsOfATest == 1;
    for (const sim::Recompute& recompute : all ? all_recomputes() : main_recomputes()) {
      TrainingSetup setup = setup_of(GetParam());
      setup.strategy.recompute = recompute;
      setup.model.seq_len = sizes.seq_len, setup.model.num_layers = sizes.layers,
      setup.model.vocab_size = sizes.vocab;
      setup.strategy.micro_batch = sizes.micro_batch,
      setup.strategy.global_batch = sizes.micro_batch * sizes.micro_batches;
      const sim::HeldBytes actual = counted_step(setup, 0).held,
                           expected = sim::rank_counts(simulated_run(setup), 0).held;
      const std::string name =
          sim::text_of(recompute) + ", " + std::to_string(sizes.seq_len) + " tokens";
      EXPECT_EQ(actual.persistent, expected.persistent) << name;
      EXPECT_EQ(actual.after_forward, expected.after_forward) << name;
      if (exact) {
        EXPECT_EQ(actual.peak, expected.peak) << name;
      } else {
        EXPECT_GE(actual.peak, expected.peak) << name;
      }
    }
  }
}

std::string name_of(const testing::TestParamInfo<Case>& tested) {
  const auto& [meta, family, formats, flash, chunked] = tested.param;
  const char* names[] = {"fp32", "bf16", "autocast"};
  return std::string(meta ? "meta_" : "cpu_") + name_of(family) + "_" +
         names[static_cast<int>(formats)] + (flash ? "_flash" : "_unfused") +
         (chunked ? "_chunked" : "_plain");
}

const auto kDense = testing::Values(Family::Gpt2, Family::Llama);
const auto kMla = testing::Values(Family::Mla, Family::MlaDirect);
const auto kFormats = testing::Values(Formats::Fp32, Formats::Bf16, Formats::Autocast);
const auto kFp32 = testing::Values(Formats::Fp32);
const auto kYes = testing::Values(true), kNo = testing::Values(false);

// The chunked loss is the same whatever the attention: MLA is tried with the plain one.
INSTANTIATE_TEST_SUITE_P(All, StepMemoryOfOneProcess,
                         testing::Combine(testing::Bool(), kDense, kFormats, testing::Bool(),
                                          testing::Bool()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Mla, StepMemoryOfOneProcess,
                         testing::Combine(testing::Bool(), kMla, kFp32, testing::Bool(), kNo),
                         name_of);
INSTANTIATE_TEST_SUITE_P(LowPrecisionMla, StepMemoryOfOneProcess,
                         testing::Combine(kYes, testing::Values(Family::Mla),
                                          testing::Values(Formats::Bf16, Formats::Autocast),
                                          testing::Bool(), kNo),
                         name_of);

class StepMemoryOfForms : public testing::TestWithParam<std::tuple<Case, Form>> {};

// Every stage, on its last tensor rank; of ranks with the same stage the first and the last, which
// have other shards.
TEST_P(StepMemoryOfForms, IsWhatTheAllocatorsCounted) {
  const auto& [parameters, form] = GetParam();
  TrainingSetup setup = setup_of(parameters);
  divide(setup, form);
  const auto stride = [&](sim::GroupKind kind) { return sim::group_stride(setup.strategy, kind); };
  const int shards = form.sharding == sim::Sharding::None ? 1 : setup.strategy.shard_ranks();
  for (const sim::Recompute& recompute : main_recomputes()) {
    setup.strategy.recompute = recompute;
    for (int stage = 0; stage < form.stages; ++stage) {
      for (int shard = 0; shard < shards; shard += std::max(1, shards - 1)) {
        const int rank = stage * stride(sim::GroupKind::Pipeline) +
                         shard * stride(sim::GroupKind::Data) + form.tensor - 1;
        const sim::RankCounts counted = counted_step(setup, rank),
                              simulated = sim::rank_counts(simulated_run(setup), stage, shard);
        const std::string name = sim::text_of(recompute) + ", stage " + std::to_string(stage) +
                                 ", shard " + std::to_string(shard);
        EXPECT_EQ(counted.held.persistent, simulated.held.persistent) << name;
        EXPECT_EQ(counted.held.after_forward, simulated.held.after_forward) << name;
        EXPECT_EQ(counted.held.peak, simulated.held.peak) << name;
        // A prediction's communication is that of the busiest stage: the first where none takes
        // time.
        if (shards > 1 && stage == 0) {
          EXPECT_EQ(counted.sent, simulated.sent) << name;
        }
      }
    }
  }
}

std::string name_of_form(const testing::TestParamInfo<std::tuple<Case, Form>>& tested) {
  return name_of({std::get<0>(tested.param), 0}) + "_" + std::get<1>(tested.param).name;
}

INSTANTIATE_TEST_SUITE_P(Meta, StepMemoryOfForms,
                         testing::Combine(testing::Combine(kYes, kDense, kFormats, testing::Bool(),
                                                           testing::Bool()),
                                          testing::ValuesIn(forms())),
                         name_of_form);
INSTANTIATE_TEST_SUITE_P(Cpu, StepMemoryOfForms,
                         testing::Combine(testing::Combine(kNo, kDense, kFp32, kYes,
                                                           testing::Bool()),
                                          testing::ValuesIn(forms())),
                         name_of_form);
INSTANTIATE_TEST_SUITE_P(MlaMeta, StepMemoryOfForms,
                         testing::Combine(testing::Combine(kYes, kMla, kFormats, kYes, kNo),
                                          testing::ValuesIn(forms())),
                         name_of_form);
INSTANTIATE_TEST_SUITE_P(MlaCpu, StepMemoryOfForms,
                         testing::Combine(testing::Combine(kNo, kMla, kFp32, kYes, kNo),
                                          testing::ValuesIn(forms())),
                         name_of_form);
INSTANTIATE_TEST_SUITE_P(ShardedMeta, StepMemoryOfForms,
                         testing::Combine(testing::Combine(kYes, kDense, kFormats, kYes,
                                                           testing::Bool()),
                                          testing::ValuesIn(sharded_forms())),
                         name_of_form);
INSTANTIATE_TEST_SUITE_P(ShardedCpu, StepMemoryOfForms,
                         testing::Combine(testing::Combine(kNo, kDense, kFp32, kYes, kNo),
                                          testing::ValuesIn(sharded_forms())),
                         name_of_form);
INSTANTIATE_TEST_SUITE_P(ShardedMla, StepMemoryOfForms,
                         testing::Combine(testing::Combine(kYes, kMla, kFp32, kYes, kNo),
                                          testing::ValuesIn(sharded_forms())),
                         name_of_form);

class StepMemoryOfLargeModels : public testing::TestWithParam<LargeTraining> {};

TEST_P(StepMemoryOfLargeModels, IsWhatTheAllocatorsCounted) {
  const TrainingSetup setup = setup_of(GetParam());
  for (const int stage : some_stages(GetParam())) {
    const sim::HeldBytes actual = counted_step(setup, 8 * stage + 7).held,
                         expected = sim::rank_counts(simulated_run(setup), stage).held;
    EXPECT_EQ(actual.persistent, expected.persistent) << "stage " << stage;
    EXPECT_EQ(actual.after_forward, expected.after_forward) << "stage " << stage;
    EXPECT_EQ(actual.peak, expected.peak) << "stage " << stage;
  }
}

INSTANTIATE_TEST_SUITE_P(All, StepMemoryOfLargeModels, testing::ValuesIn(large_trainings()),
                         [](const auto& tested) { return tested.param.name; });

// Models of the catalogue on 1 to 8 ranks, in 12 layers at most: 144 strategies.
class StepMemoryOfKnownModels
    : public testing::TestWithParam<std::tuple<const char*, Formats, Form>> {};

TEST_P(StepMemoryOfKnownModels, IsWhatTheAllocatorsCounted) {
  const auto& [model, formats, form] = GetParam();
  TrainingSetup setup;
  setup.device = c10::kMeta;
  setup.strategy.precision = formats == Formats::Fp32 ? sim::Precision::Fp32 : sim::Precision::Bf16;
  divide(setup, form);
  setup.model = hwdb::find_model(model)->model;
  setup.model.num_layers = std::min(setup.model.num_layers, 12);
  setup.model.seq_len = 1024;
  setup.model.vocab_size = (setup.model.vocab_size + 127) / 128 * 128;
  if (form.sharding != sim::Sharding::None && form.stages > 1) setup.model.tied_embeddings = false;
  for (const sim::RecomputeKind recompute :
       {sim::RecomputeKind::None, sim::RecomputeKind::Selective, sim::RecomputeKind::Full,
        sim::RecomputeKind::EveryN}) {
    setup.strategy.recompute = {.kind = recompute,
                                .every_n = recompute == sim::RecomputeKind::EveryN ? 2 : 1};
    for (int stage = 0; stage < form.stages; ++stage) {
      const int rank =
          stage * sim::group_stride(setup.strategy, sim::GroupKind::Pipeline) + form.tensor - 1;
      const sim::HeldBytes actual = counted_step(setup, rank).held,
                           expected = sim::rank_counts(simulated_run(setup), stage).held;
      const std::string name =
          sim::text_of(setup.strategy.recompute) + ", stage " + std::to_string(stage);
      EXPECT_EQ(actual.persistent, expected.persistent) << name;
      EXPECT_EQ(actual.after_forward, expected.after_forward) << name;
      EXPECT_EQ(actual.peak, expected.peak) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, StepMemoryOfKnownModels,
    testing::Combine(
        testing::Values("gpt2", "llama-3-8b"), testing::Values(Formats::Fp32, Formats::Bf16),
        testing::Values(Form{.name = "one"}, Form{.name = "tp_4", .tensor = 4},
                        Form{.name = "tp_4_sp", .tensor = 4, .sequence_parallel = true},
                        Form{.name = "pp_4", .stages = 4}, Form{.name = "dp_8", .data = 8},
                        Form{.name = "zero1_8", .data = 8, .sharding = sim::Sharding::Zero1},
                        Form{.name = "zero2_8", .data = 8, .sharding = sim::Sharding::Zero2},
                        Form{.name = "zero3_8", .data = 8, .sharding = sim::Sharding::Zero3},
                        Form{.name = "tp_2_sp_pp_2_zero1_2",
                             .tensor = 2,
                             .sequence_parallel = true,
                             .stages = 2,
                             .data = 2,
                             .sharding = sim::Sharding::Zero1})),
    [](const auto& tested) {
      std::string model = std::get<0>(tested.param);
      std::replace(model.begin(), model.end(), '-', '_');
      return model + (std::get<1>(tested.param) == Formats::Fp32 ? "_fp32_" : "_bf16_") +
             std::get<2>(tested.param).name;
    });

// The order of passes and the number of chunks are the simulator's on both sides: that they are
// right is worked out here.

// A stage s of p under 1F1B holds the activations of p - s micro-batches when its first backward
// pass begins, as one under GPipe does that has no more of them in a step.
TEST(StepMemory, OneForwardOneBackwardHoldsAMicroBatchForEachStageThatFollows) {
  const auto held_in_blocks = [](sim::PipelineSchedule schedule, int stage, int micro_batches) {
    TrainingSetup setup = small_training(Family::Llama);
    setup.device = c10::kMeta;
    setup.model.num_layers = 4;
    setup.strategy.pp = 4;
    setup.strategy.pipeline_schedule = schedule;
    setup.strategy.global_batch = micro_batches;
    const sim::HeldBytes held = counted_step(setup, stage).held;
    return held.after_forward - held.persistent;
  };
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t one = held_in_blocks(sim::PipelineSchedule::GPipe, stage, 1);
    const std::int64_t two = held_in_blocks(sim::PipelineSchedule::GPipe, stage, 2);
    EXPECT_EQ(held_in_blocks(sim::PipelineSchedule::OneForwardOneBackward, stage, 8),
              one + (3 - stage) * (two - one))
        << "stage " << stage;
  }
}

// Of t = 128 tokens and V / h = 256 / 64 = 4 a chunk has 128 / 4 = 32.  While one is lost there
// are, over what stays for the backward pass, the norm's output t h, the chunk's logits and their
// exponentials, 32 V each, and a sum: fp32.
TEST(StepMemory, AChunkedLossHoldsTheLogitsOfOneChunk) {
  TrainingSetup setup = small_training(Family::Gpt2);
  setup.device = c10::kMeta;
  setup.model.num_layers = 1;
  setup.model.num_heads = setup.model.num_kv_heads = 1;
  setup.model.head_dim = 4, setup.model.ffn_size = 8;  // next to the loss a block holds little
  setup.model.vocab_size = 256;
  setup.model.seq_len = 64;
  setup.strategy.micro_batch = setup.strategy.global_batch = 2;
  setup.strategy.fused_cross_entropy = true;
  const sim::HeldBytes held = counted_step(setup, 0).held;
  EXPECT_EQ(held.peak - held.after_forward, 4 * (128 * 64 + 2 * 32 * 256 + 1));
}

}  // namespace
}  // namespace llmsim::runtime::step_memory_test
