// Every way to divide a training gives the losses and gradients of one process.
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "runtime/library/device.h"
#include "runtime/model/initial_weights.h"
#include "tests/runtime/experts_setup.h"
#include "tests/runtime/local_training.h"
#include "tests/runtime/training_setup.h"

namespace llmsim::runtime::parallel_forms_test {
namespace {

constexpr int kSteps = 2;  // the second one is after an update

struct Form {
  std::string name;
  std::function<void(TrainingSetup&)> change;
};

enum class Formats { Fp32, Bf16, Autocast };

// What a gradient or loss may differ by when the same numbers are rounded and added up elsewhere.
//
//   fp32  sums in another order: parts in a million
//   bf16  8 bits of precision: a rounded number is off by up to u = 2^-8, about u / 2 as a root of
//         squares.  Between the tokens and a gradient lie some 15 tensors a layer each way, and the
//         sum over micro-batches: about 100 roundings that are independent of each other and add up
//         as their root, in each of the two trainings: sqrt(2 * 100) / 2 u = 7 u of a parameter's
//         root mean square; twice that is allowed.  A loss is a mean over tokens in fp32: u of it.
struct Tolerance {
  // Of a rank's piece of a parameter: root mean square of the error, relative to that of the
  // parameter.
  double gradient = 0.0;
  double norm = 0.0;  // relative
  double loss = 0.0;  // relative
};

Tolerance tolerance_of(Formats formats) {
  constexpr double u = 1.0 / 256.0;
  if (formats == Formats::Fp32) return {.gradient = 1e-4, .norm = 5e-5, .loss = 5e-6};
  return {.gradient = 14.0 * u, .norm = 4.0 * u, .loss = u};
}

double root_mean_square(const at::Tensor& tensor) {
  return tensor.square().mean().sqrt().item<double>();
}

// One process' gradients, each a whole parameter.
std::map<std::string, at::Tensor> whole_gradients(const RankGradients& alone) {
  std::map<std::string, at::Tensor> whole;
  for (const auto& piece : alone.pieces)
    whole[piece.parameter.name] = piece.gradient.view(piece.parameter.sizes);
  return whole;
}

// Every rank has what one process has of the parameters in its slices, and together they have all.
void expect_gradients(const LocalTraining& divided, const LocalTraining& alone, double tolerance) {
  const auto whole = whole_gradients(alone.first_gradients.front());
  std::map<std::pair<std::string, int>, at::Tensor> seen;
  for (const RankGradients& rank : divided.first_gradients) {
    for (const auto& piece : rank.pieces) {
      const std::string& name = piece.parameter.name;
      ASSERT_TRUE(whole.contains(name)) << name;
      const at::Tensor expected =
          own_part(whole.at(name), piece.parameter, rank.context).reshape({-1});
      const at::Tensor own = expected.narrow(0, piece.begin, piece.gradient.numel());
      EXPECT_LE(root_mean_square(piece.gradient - own), tolerance * root_mean_square(expected))
          << name;
      at::Tensor& mask = seen[{name, rank.context.shape.tensor_rank}];
      if (!mask.defined()) mask = at::zeros({expected.numel()});
      mask.narrow(0, piece.begin, piece.gradient.numel()).fill_(1.0);
    }
  }
  const int tensor_ranks = divided.first_gradients.front().context.shape.tensor_ranks;
  EXPECT_EQ(seen.size(), whole.size() * static_cast<std::size_t>(tensor_ranks));
  for (const auto& [key, mask] : seen)
    EXPECT_EQ(mask.mean().item<double>(), 1.0) << key.first << " on rank " << key.second;
}

// Some libraries round every sum of a 16-bit GEMM to 16 bits where the processor has no such
// arithmetic: 256 + 1 is 256 there, and the tolerances above do not hold.
bool sums_in_fp32() {
  const at::Tensor ones = at::ones({64, 1024}, at::kBFloat16);
  const auto is_exact = [](const at::Tensor& product) {
    return (product == 1024).all().item<bool>();
  };
  const at::Tensor columns = at::ones({1024, 64}, at::kBFloat16);
  return is_exact(at::mm(ones, columns)) && is_exact(at::mm(ones, ones.t())) &&
         is_exact(at::mm(columns.t(), columns));
}

class ParallelForms : public testing::TestWithParam<std::tuple<Family, Formats, Form>> {};

void set_formats(TrainingSetup& setup, Formats formats) {
  setup.strategy.precision = formats == Formats::Fp32 ? sim::Precision::Fp32 : sim::Precision::Bf16;
  setup.autocast = formats == Formats::Autocast;
}

TEST_P(ParallelForms, TrainAsOneProcess) {
  const auto& [family, formats, form] = GetParam();
  if (formats != Formats::Fp32 && !multiplies_in(c10::kCPU, at::kBFloat16))
    GTEST_SKIP() << "this processor lacks bf16 GEMMs";
  if (formats != Formats::Fp32 && !sums_in_fp32())
    GTEST_SKIP() << "sums of bf16 GEMMs are rounded to bf16 here";
  TrainingSetup divided = small_training(family);
  form.change(divided);
  TrainingSetup alone = small_training(family);
  alone.model = divided.model;
  set_formats(divided, formats), set_formats(alone, formats);
  const LocalTraining expected = train_locally(alone, kSteps),
                      actual = train_locally(divided, kSteps);
  const Tolerance tolerance = tolerance_of(formats);
  for (std::size_t step = 0; step < kSteps; ++step) {
    const StepResult &result = actual.steps[step], &one = expected.steps[step];
    EXPECT_NEAR(result.loss, one.loss, tolerance.loss * one.loss) << "step " << step;
    EXPECT_NEAR(result.gradient_norm, one.gradient_norm, tolerance.norm * one.gradient_norm)
        << "step " << step;
  }
  expect_gradients(actual, expected, tolerance.gradient);
}

void shard(TrainingSetup& setup, sim::Sharding sharding, int ranks, int shard_size = 0) {
  setup.strategy.sharding = sharding;
  setup.strategy.dp = ranks;
  setup.strategy.shard_size = shard_size;
}

// Of four layers.
void pipeline(TrainingSetup& setup, int stages, sim::PipelineSchedule schedule,
              int virtual_stages) {
  setup.model.num_layers = 4;
  setup.strategy.pp = stages;
  setup.strategy.pipeline_schedule = schedule;
  setup.strategy.virtual_stages = virtual_stages;
}

void tensor(TrainingSetup& setup, int ranks, bool sequence_parallel) {
  setup.strategy.tp = ranks;
  setup.strategy.sequence_parallel = sequence_parallel;
}

void eight_heads(TrainingSetup& setup) {
  setup.model.num_heads = setup.model.num_kv_heads = setup.model.head_dim = 8;
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
      {"tp_4_sp_mla_up_recompute",
       [](TrainingSetup& setup) {
         setup.model.num_kv_heads = 4, tensor(setup, 4, true);
         setup.strategy.recompute = {.kind = sim::RecomputeKind::Selective,
                                     .modules = {.mla_up = true}};
       }},
      {"tp_8", [](TrainingSetup& setup) { eight_heads(setup), tensor(setup, 8, false); }},
      {"tp_8_sp", [](TrainingSetup& setup) { eight_heads(setup), tensor(setup, 8, true); }},
  };
}

std::vector<Form> pipeline_forms() {
  using enum sim::PipelineSchedule;
  return {
      {"pp_2", [](TrainingSetup& setup) { pipeline(setup, 2, OneForwardOneBackward, 1); }},
      {"pp_4", [](TrainingSetup& setup) { pipeline(setup, 4, OneForwardOneBackward, 1); }},
      {"pp_8",
       [](TrainingSetup& setup) {
         pipeline(setup, 8, OneForwardOneBackward, 1), setup.model.num_layers = 8;
       }},
      {"pp_2_gpipe", [](TrainingSetup& setup) { pipeline(setup, 2, GPipe, 1); }},
      {"pp_2_interleaved", [](TrainingSetup& setup) { pipeline(setup, 2, Interleaved, 2); }},
      {"pp_3_uneven_interleaved",
       [](TrainingSetup& setup) {
         pipeline(setup, 3, Interleaved, 2), setup.model.num_layers = 7;
       }},
      {"pp_2_interleaved_chunked_loss_selective",
       [](TrainingSetup& setup) {
         pipeline(setup, 2, Interleaved, 2);
         setup.strategy.fused_cross_entropy = true;
         setup.strategy.recompute.kind = sim::RecomputeKind::Selective;
       }},
      {"tp_2_pp_2",
       [](TrainingSetup& setup) {
         pipeline(setup, 2, OneForwardOneBackward, 1), tensor(setup, 2, false);
       }},
      {"pp_2_interleaved_zero2_2",
       [](TrainingSetup& setup) {
         pipeline(setup, 2, Interleaved, 2), shard(setup, sim::Sharding::Zero2, 2);
         setup.model.tied_embeddings = false;
       }},
      {"tp_2_sp_pp_2_dp_2",
       [](TrainingSetup& setup) {
         pipeline(setup, 2, OneForwardOneBackward, 1), tensor(setup, 2, true);
         setup.strategy.dp = 2;
       }},
      {"tp_2_sp_pp_2_interleaved_dp_2_recompute",
       [](TrainingSetup& setup) {
         pipeline(setup, 2, Interleaved, 2), tensor(setup, 2, true);
         setup.strategy.dp = 2;
         setup.strategy.recompute.kind = sim::RecomputeKind::Full;
       }},
  };
}

// Tensor ranks, stages and shards of 8 ranks at most.
Form combined(const std::string& name, int tensor_ranks, bool sequence_parallel, int stages,
              sim::Sharding sharding, int data, int shard_size = 0) {
  return {name, [=](TrainingSetup& setup) {
            if (stages > 1)
              pipeline(setup, stages, sim::PipelineSchedule::OneForwardOneBackward, 1);
            if (stages > 1) setup.model.tied_embeddings = false;
            tensor(setup, tensor_ranks, sequence_parallel);
            shard(setup, sharding, data, shard_size);
          }};
}

std::vector<Form> combined_forms() {
  using enum sim::Sharding;
  std::vector<Form> list;
  for (const auto& [name, sharding] :
       {std::pair{"zero1", Zero1}, std::pair{"zero2", Zero2}, std::pair{"zero3", Zero3}}) {
    const std::string with = name;
    list.push_back(combined("tp_2_" + with + "_2", 2, false, 1, sharding, 2));
    list.push_back(combined("tp_2_sp_" + with + "_2", 2, true, 1, sharding, 2));
    list.push_back(combined("tp_2_sp_" + with + "_4", 2, true, 1, sharding, 4));
    list.push_back(combined("pp_2_" + with + "_4", 1, false, 2, sharding, 4));
    list.push_back(combined("tp_2_pp_2_" + with + "_2", 2, false, 2, sharding, 2));
    list.push_back(combined("tp_2_sp_pp_2_" + with + "_2", 2, true, 2, sharding, 2));
    list.push_back(
        {"tp_2_sp_pp_2_interleaved_" + with + "_2", [sharding = sharding](TrainingSetup& setup) {
           pipeline(setup, 2, sim::PipelineSchedule::Interleaved, 2), tensor(setup, 2, true);
           shard(setup, sharding, 2);
           setup.model.tied_embeddings = false;
           setup.strategy.recompute.kind = sim::RecomputeKind::Full;
           setup.strategy.fused_cross_entropy = true;
         }});
  }
  list.push_back(combined("tp_2_sp_hsdp_4", 2, true, 1, Hsdp, 4, 2));
  list.push_back(combined("pp_2_hsdp_4", 1, false, 2, Hsdp, 4, 2));
  return list;
}

std::vector<Form> forms() {
  return {
      {"micro_batch_2", [](TrainingSetup& setup) { setup.strategy.micro_batch = 2; }},
      {"unfused", [](TrainingSetup& setup) { setup.strategy.flash_attention = false; }},
      {"chunked_loss", [](TrainingSetup& setup) { setup.strategy.fused_cross_entropy = true; }},
      {"recompute_full",
       [](TrainingSetup& setup) { setup.strategy.recompute.kind = sim::RecomputeKind::Full; }},
      {"recompute_selective",
       [](TrainingSetup& setup) { setup.strategy.recompute.kind = sim::RecomputeKind::Selective; }},
      {"ddp_2", [](TrainingSetup& setup) { setup.strategy.dp = 2; }},
      {"ddp_4", [](TrainingSetup& setup) { setup.strategy.dp = 4; }},
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

std::string name_of(const testing::TestParamInfo<ParallelForms::ParamType>& tested) {
  const auto& [family, formats, form] = tested.param;
  const char* names[] = {"fp32_", "bf16_", "autocast_"};
  return std::string(name_of(family)) + "_" + names[static_cast<int>(formats)] + form.name;
}

std::vector<Form> all_forms() {
  std::vector<Form> all;
  for (const std::vector<Form>& some :
       {forms(), tensor_forms(), pipeline_forms(), combined_forms()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

// Each family in fp32 and in one of the formats that round.
const auto kAll = testing::ValuesIn(all_forms());
INSTANTIATE_TEST_SUITE_P(Fp32, ParallelForms,
                         testing::Combine(testing::Values(Family::Gpt2, Family::Llama, Family::Mla),
                                          testing::Values(Formats::Fp32), kAll),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Bf16, ParallelForms,
                         testing::Combine(testing::Values(Family::Llama),
                                          testing::Values(Formats::Bf16), kAll),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Autocast, ParallelForms,
                         testing::Combine(testing::Values(Family::Gpt2),
                                          testing::Values(Formats::Autocast), kAll),
                         name_of);

// Where tensor ranks share what a GEMM reads: queries without latents share the norm's output, and
// formats that round send latents as they multiply them.
std::vector<Form> sharing_forms() {
  std::vector<Form> forms = tensor_forms();
  std::erase_if(forms, [](const Form& form) {
    return form.name != "tp_2" && form.name != "tp_2_sp" && form.name != "tp_4_sp_mla_up_recompute";
  });
  return forms;
}

INSTANTIATE_TEST_SUITE_P(DirectQueries, ParallelForms,
                         testing::Combine(testing::Values(Family::MlaDirect),
                                          testing::Values(Formats::Fp32),
                                          testing::ValuesIn(sharing_forms())),
                         name_of);
INSTANTIATE_TEST_SUITE_P(LowPrecisionLatents, ParallelForms,
                         testing::Combine(testing::Values(Family::Mla),
                                          testing::Values(Formats::Bf16, Formats::Autocast),
                                          testing::ValuesIn(sharing_forms())),
                         name_of);

class MoeForms : public testing::TestWithParam<std::tuple<MoeForm, Form>> {};

// Rows reach an expert in another order, and its gradients are added up in another.
TEST_P(MoeForms, TrainAsOneProcess) {
  const auto& [moe, form] = GetParam();
  TrainingSetup divided = small_moe(moe);
  form.change(divided);
  TrainingSetup alone = small_moe(moe);
  alone.model = divided.model;
  const auto expected = train_locally(alone, kSteps).steps;
  const auto actual = train_locally(divided, kSteps).steps;
  for (int step = 0; step < kSteps; ++step) {
    const auto i = static_cast<std::size_t>(step);
    EXPECT_NEAR(actual[i].loss, expected[i].loss, 2e-5) << "step " << step;
    EXPECT_NEAR(actual[i].gradient_norm, expected[i].gradient_norm, 1e-4) << "step " << step;
  }
}

void divide_experts(TrainingSetup& setup, int data_ranks, int expert_ranks,
                    sim::Sharding sharding = sim::Sharding::None) {
  shard(setup, sharding, data_ranks);
  setup.strategy.ep = expert_ranks;
}

std::vector<Form> moe_divisions() {
  return {
      {"recompute_full",
       [](TrainingSetup& setup) { setup.strategy.recompute.kind = sim::RecomputeKind::Full; }},
      {"recompute_moe",
       [](TrainingSetup& setup) {
         setup.strategy.recompute = {.kind = sim::RecomputeKind::Selective,
                                     .modules = {.core_attention = false, .moe = true}};
       }},
      {"zero3_4", [](TrainingSetup& setup) { shard(setup, sim::Sharding::Zero3, 4); }},
      {"ep_4", [](TrainingSetup& setup) { divide_experts(setup, 4, 4); }},
      {"ep_2_of_4", [](TrainingSetup& setup) { divide_experts(setup, 4, 2); }},
      {"ep_2_of_4_zero1",
       [](TrainingSetup& setup) { divide_experts(setup, 4, 2, sim::Sharding::Zero1); }},
      {"ep_2_of_4_zero2_recompute",
       [](TrainingSetup& setup) {
         divide_experts(setup, 4, 2, sim::Sharding::Zero2);
         setup.strategy.recompute.kind = sim::RecomputeKind::Full;
       }},
      {"ep_2_of_4_zero3",
       [](TrainingSetup& setup) { divide_experts(setup, 4, 2, sim::Sharding::Zero3); }},
      {"pp_2_ep_2",
       [](TrainingSetup& setup) {
         divide_experts(setup, 2, 2);
         pipeline(setup, 2, sim::PipelineSchedule::OneForwardOneBackward, 1);
       }},
  };
}

// Whole experts over tensor and data ranks.
void divide_whole_experts(TrainingSetup& setup, int expert_ranks, sim::Sharding sharding) {
  tensor(setup, 2, true);
  divide_experts(setup, 2, expert_ranks, sharding);
  setup.strategy.etp = 1;
}

// Without biases inside experts.
std::vector<Form> moe_tensor_divisions() {
  return {
      {"tp_2", [](TrainingSetup& setup) { tensor(setup, 2, false); }},
      {"tp_2_sp_ep_2_of_4_zero3",
       [](TrainingSetup& setup) {
         tensor(setup, 2, true);
         divide_experts(setup, 4, 2, sim::Sharding::Zero3);
       }},
      {"tp_2_sp_dp_2_whole",
       [](TrainingSetup& setup) { divide_whole_experts(setup, 1, sim::Sharding::None); }},
      {"tp_2_sp_ep_4_whole",
       [](TrainingSetup& setup) { divide_whole_experts(setup, 4, sim::Sharding::None); }},
      {"tp_2_sp_ep_2_of_4_zero1_whole",
       [](TrainingSetup& setup) { divide_whole_experts(setup, 2, sim::Sharding::Zero1); }},
  };
}

std::vector<MoeForm> without_biases() {
  std::vector<MoeForm> forms;
  for (const MoeForm& form : moe_forms()) {
    const bool shared_bias = form.family == Family::Gpt2 && form.moe.num_shared_experts > 0;
    if (!form.moe.expert_bias && !shared_bias) forms.push_back(form);
  }
  forms.push_back({.name = "llama_gated_shared", .moe = forms.front().moe});
  forms.back().moe.num_shared_experts = 1, forms.back().moe.shared_expert_ffn_size = 24;
  forms.back().moe.shared_expert_gate = true;
  return forms;
}

std::string name_of_moe(const testing::TestParamInfo<std::tuple<MoeForm, Form>>& tested) {
  return std::get<0>(tested.param).name + "_" + std::get<1>(tested.param).name;
}

INSTANTIATE_TEST_SUITE_P(Data, MoeForms,
                         testing::Combine(testing::ValuesIn(moe_forms()),
                                          testing::ValuesIn(moe_divisions())),
                         name_of_moe);
INSTANTIATE_TEST_SUITE_P(Tensor, MoeForms,
                         testing::Combine(testing::ValuesIn(without_biases()),
                                          testing::ValuesIn(moe_tensor_divisions())),
                         name_of_moe);

// An MoE model learns the stream, with whatever load its router makes.
TEST(Moe, TheLossFallsOnTheLearnableStream) {
  for (const MoeForm& form : moe_forms()) {
    const auto steps = train_locally(small_moe(form), 30).steps;
    EXPECT_LT(steps.back().loss, 0.9 * steps.front().loss) << form.name;
  }
}

}  // namespace
}  // namespace llmsim::runtime::parallel_forms_test
