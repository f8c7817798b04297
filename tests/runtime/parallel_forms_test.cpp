// Every way to divide a training gives the losses and gradient norms of one process.
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "tests/runtime/local_training.h"
#include "tests/runtime/training_setup.h"

namespace llmsim::runtime {
namespace {

constexpr int kSteps = 3;

struct Form {
  std::string name;
  std::function<void(TrainingSetup&)> change;
};

class ParallelForms : public testing::TestWithParam<std::tuple<Family, Form>> {};

// fp32 sums in another order differ by parts in a million.
TEST_P(ParallelForms, TrainAsOneProcess) {
  const auto& [family, form] = GetParam();
  TrainingSetup divided = small_training(family);
  form.change(divided);
  TrainingSetup alone = small_training(family);
  alone.model = divided.model;
  const auto expected = train_locally(alone, kSteps);
  const auto actual = train_locally(divided, kSteps);
  for (int step = 0; step < kSteps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    EXPECT_NEAR(actual[i].loss, expected[i].loss, 2e-5) << "step " << step;
    EXPECT_NEAR(actual[i].gradient_norm, expected[i].gradient_norm, 1e-4) << "step " << step;
  }
}

void shard(TrainingSetup& setup, sim::Sharding sharding, int ranks, int shard_size = 0) {
  setup.strategy.sharding = sharding;
  setup.strategy.data_parallel = ranks;
  setup.strategy.shard_size = shard_size;
}

// Of four layers.
void pipeline(TrainingSetup& setup, int stages, sim::PipelineSchedule schedule, int virtual_stages) {
  setup.model.num_layers = 4;
  setup.strategy.pipeline_parallel = stages;
  setup.strategy.schedule = schedule;
  setup.strategy.virtual_stages = virtual_stages;
}

void tensor(TrainingSetup& setup, int ranks, bool sequence_parallel) {
  setup.strategy.tensor_parallel = ranks;
  setup.strategy.sequence_parallel = sequence_parallel;
}

std::vector<Form> tensor_forms() {
  return {
      {"tp_2", [](TrainingSetup& setup) { tensor(setup, 2, false); }},
      {"tp_2_sp", [](TrainingSetup& setup) { tensor(setup, 2, true); }},
      {"tp_2_sp_chunked_loss_recompute",
       [](TrainingSetup& setup) {
         tensor(setup, 2, true);
         setup.strategy.fused_cross_entropy = true;
         setup.strategy.recompute.kind = sim::RecomputeKind::Full;
       }},
      {"tp_4", [](TrainingSetup& setup) { setup.model.num_kv_heads = 4, tensor(setup, 4, false); }},
      {"tp_4_sp", [](TrainingSetup& setup) { setup.model.num_kv_heads = 4, tensor(setup, 4, true); }},
  };
}

std::vector<Form> pipeline_forms() {
  using enum sim::PipelineSchedule;
  return {
      {"pp_2", [](TrainingSetup& setup) { pipeline(setup, 2, OneForwardOneBackward, 1); }},
      {"pp_4", [](TrainingSetup& setup) { pipeline(setup, 4, OneForwardOneBackward, 1); }},
      {"pp_2_gpipe", [](TrainingSetup& setup) { pipeline(setup, 2, GPipe, 1); }},
      {"pp_2_interleaved", [](TrainingSetup& setup) { pipeline(setup, 2, Interleaved, 2); }},
      {"pp_3_uneven_interleaved", [](TrainingSetup& setup) { pipeline(setup, 3, Interleaved, 2), setup.model.num_layers = 7; }},
      {"pp_2_interleaved_chunked_loss_selective",
       [](TrainingSetup& setup) {
         pipeline(setup, 2, Interleaved, 2);
         setup.strategy.fused_cross_entropy = true;
         setup.strategy.recompute.kind = sim::RecomputeKind::Selective;
       }},
      {"tp_2_pp_2", [](TrainingSetup& setup) { pipeline(setup, 2, OneForwardOneBackward, 1), tensor(setup, 2, false); }},
      {"pp_2_zero3_2",
       [](TrainingSetup& setup) {
         pipeline(setup, 2, OneForwardOneBackward, 1), shard(setup, sim::Sharding::Zero3, 2);
         setup.model.tied_embeddings = false;
       }},
      {"pp_2_interleaved_zero2_2",
       [](TrainingSetup& setup) {
         pipeline(setup, 2, Interleaved, 2), shard(setup, sim::Sharding::Zero2, 2);
         setup.model.tied_embeddings = false;
       }},
      {"tp_2_sp_zero1_2", [](TrainingSetup& setup) { tensor(setup, 2, true), shard(setup, sim::Sharding::Zero1, 2); }},
      {"tp_2_sp_pp_2_dp_2",
       [](TrainingSetup& setup) {
         pipeline(setup, 2, OneForwardOneBackward, 1), tensor(setup, 2, true);
         setup.strategy.data_parallel = 2;
       }},
      {"tp_2_sp_pp_2_interleaved_dp_2_recompute",
       [](TrainingSetup& setup) {
         pipeline(setup, 2, Interleaved, 2), tensor(setup, 2, true);
         setup.strategy.data_parallel = 2;
         setup.strategy.recompute.kind = sim::RecomputeKind::Full;
       }},
  };
}

std::vector<Form> forms() {
  return {
      {"micro_batch_2", [](TrainingSetup& setup) { setup.strategy.micro_batch = 2; }},
      {"unfused", [](TrainingSetup& setup) { setup.strategy.flash_attention = false; }},
      {"chunked_loss", [](TrainingSetup& setup) { setup.strategy.fused_cross_entropy = true; }},
      {"recompute_full", [](TrainingSetup& setup) { setup.strategy.recompute.kind = sim::RecomputeKind::Full; }},
      {"recompute_selective", [](TrainingSetup& setup) { setup.strategy.recompute.kind = sim::RecomputeKind::Selective; }},
      {"ddp_2", [](TrainingSetup& setup) { setup.strategy.data_parallel = 2; }},
      {"ddp_4", [](TrainingSetup& setup) { setup.strategy.data_parallel = 4; }},
      {"ddp_8", [](TrainingSetup& setup) { shard(setup, sim::Sharding::None, 8); }},
      {"ddp_2_buckets",
       [](TrainingSetup& setup) {
         shard(setup, sim::Sharding::None, 2);
         setup.exchange.bucket = 10'000;
       }},
      {"ddp_4_every_micro_batch",
       [](TrainingSetup& setup) {
         shard(setup, sim::Sharding::None, 4);
         setup.exchange.every_micro_batch = true;
       }},
      {"zero1_2", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero1, 2); }},
      {"zero1_4", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero1, 4); }},
      {"zero1_8", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero1, 8); }},
      {"zero2_2", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero2, 2); }},
      {"zero2_4", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero2, 4); }},
      {"zero2_8", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero2, 8); }},
      {"zero3_2", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero3, 2); }},
      {"zero3_4", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero3, 4); }},
      {"zero3_8", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero3, 8); }},
      {"zero1_2_every_micro_batch",
       [](TrainingSetup& setup) {
         shard(setup, sim::Sharding::Zero1, 2);
         setup.exchange.every_micro_batch = true;
       }},
      {"zero2_2_every_micro_batch",
       [](TrainingSetup& setup) {
         shard(setup, sim::Sharding::Zero2, 2);
         setup.exchange.every_micro_batch = true;
       }},
      {"zero3_alone", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero3, 1); }},
      {"zero3_2_chunked_loss",
       [](TrainingSetup& setup) {
         shard(setup, sim::Sharding::Zero3, 2);
         setup.strategy.fused_cross_entropy = true;
       }},
      {"zero3_2_keeps_weights",
       [](TrainingSetup& setup) {
         shard(setup, sim::Sharding::Zero3, 2);
         setup.exchange.regathers_in_backward = false;
       }},
      {"zero3_4_prefetch_2",
       [](TrainingSetup& setup) {
         shard(setup, sim::Sharding::Zero3, 4);
         setup.exchange.prefetch_units = 2;
       }},
      {"hsdp_4", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Hsdp, 4, 2); }},
      {"hsdp_8", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Hsdp, 8, 4); }},
      {"optimizer_offload", [](TrainingSetup& setup) { setup.strategy.offload.optimizer = true; }},
      {"zero3_2_offload",
       [](TrainingSetup& setup) {
         shard(setup, sim::Sharding::Zero3, 2);
         setup.strategy.recompute.kind = sim::RecomputeKind::Full;
         setup.strategy.offload.optimizer = setup.strategy.offload.activations = true;
       }},
      {"zero1_2_optimizer_offload",
       [](TrainingSetup& setup) {
         shard(setup, sim::Sharding::Zero1, 2);
         setup.strategy.offload.optimizer = true;
       }},
      {"foreach", [](TrainingSetup& setup) { setup.optimizer.form = AdamWForm::Foreach; }},
  };
}

std::string name_of(const testing::TestParamInfo<std::tuple<Family, Form>>& tested) {
  return (std::get<0>(tested.param) == Family::Gpt2 ? "gpt2_" : "llama_") + std::get<1>(tested.param).name;
}

const auto kFamilies = testing::Values(Family::Gpt2, Family::Llama);
INSTANTIATE_TEST_SUITE_P(OneOrData, ParallelForms, testing::Combine(kFamilies, testing::ValuesIn(forms())), name_of);
INSTANTIATE_TEST_SUITE_P(Tensor, ParallelForms, testing::Combine(kFamilies, testing::ValuesIn(tensor_forms())), name_of);
INSTANTIATE_TEST_SUITE_P(Stages, ParallelForms, testing::Combine(kFamilies, testing::ValuesIn(pipeline_forms())), name_of);

}  // namespace
}  // namespace llmsim::runtime
