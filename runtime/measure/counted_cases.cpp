#include "runtime/measure/counted_cases.h"

#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "hwdb/models/catalogue.h"
#include "runtime/library/device.h"
#include "runtime/library/memory_meter.h"
#include "runtime/library/operator_call.h"
#include "runtime/measure/counted_step.h"
#include "runtime/measure/results.h"
#include "sim/strategy/mesh.h"

namespace llmsim::runtime {
namespace {

using sim::RecomputeKind;

enum class Formats { Fp32, Bf16, Autocast };
constexpr const char* kFormatNames[] = {"fp32", "bf16", "autocast"};

// 200 tokens are a block of queries and a part of one.
sim::Transformer small_model(bool llama) {
  sim::Transformer model;
  model.name = llama ? "llama-3x64" : "gpt2-3x64";
  model.num_layers = 3;
  model.hidden_size = 64;
  model.num_heads = 4;
  model.num_kv_heads = llama ? 2 : 4;
  model.head_dim = 16;
  model.ffn_size = 128;
  model.vocab_size = 1000;
  model.seq_len = 200;
  model.gated_mlp = llama;
  model.norm = llama ? sim::Norm::RmsNorm : sim::Norm::LayerNorm;
  model.position = llama ? sim::Position::Rope : sim::Position::Learned;
  model.tied_embeddings = !llama;
  if (!llama) model.bias = sim::Biases::gpt();
  return model;
}

std::string key_of(const sim::Transformer& model, Formats formats, const std::string& what) {
  return model.name + " " + kFormatNames[static_cast<int>(formats)] + " " + what;
}

TrainingSetup setup_of(sim::Transformer model, Formats formats, int micro_batches) {
  TrainingSetup setup;
  setup.model = std::move(model);
  setup.device = formats == Formats::Fp32 ? c10::kCPU : c10::kMeta;
  setup.strategy.precision = formats == Formats::Fp32 ? sim::Precision::Fp32 : sim::Precision::Bf16;
  setup.autocast = formats == Formats::Autocast;
  setup.strategy.global_batch = micro_batches;
  return setup;
}

std::vector<sim::Recompute> recomputes() {
  return {{.kind = RecomputeKind::None},
          {.kind = RecomputeKind::Full},
          {.kind = RecomputeKind::Full, .blocks = 1},
          {.kind = RecomputeKind::EveryN, .every_n = 2},
          {.kind = RecomputeKind::Selective},
          {.kind = RecomputeKind::Selective,
           .modules = {.core_attention = true, .mlp = true, .norms = true}}};
}

void add_small(std::vector<CountedCase>& cases) {
  for (const bool llama : {false, true}) {
    for (const Formats formats : {Formats::Fp32, Formats::Bf16, Formats::Autocast}) {
      for (const sim::Recompute& recompute : recomputes()) {
        for (const bool fused : {false, true}) {
          TrainingSetup setup = setup_of(small_model(llama), formats, 2);
          setup.strategy.recompute = recompute;
          setup.strategy.flash_attention = setup.strategy.fused_cross_entropy = fused;
          const std::string key = key_of(setup.model, formats,
                                         "recompute=" + sim::text_of(recompute) +
                                             (fused ? " blockwise chunked-loss" : " unfused"));
          cases.push_back({.step = {.key = key, .setup = std::move(setup)}, .ranks = {0}});
        }
      }
    }
  }
}

// Heads of `head_dim` values beside a residual stream and an MLP of as little: the peak of a step
// is in a copy of heads, where of small_model() it is in the loss or the MLP.
sim::Transformer wide_heads(int head_dim) {
  sim::Transformer model = small_model(false);
  model.name = "gpt2-2x16-heads" + std::to_string(head_dim);
  model.num_layers = 2;
  model.hidden_size = model.ffn_size = model.vocab_size = model.seq_len = 16;
  model.head_dim = head_dim;
  return model;
}

// Backward: q, k and v back side by side where heads are wider than the sequence, the gradient of
// the output by heads where they are as wide; the output side by side where attention is
// recomputed.
void add_wide_heads(std::vector<CountedCase>& cases) {
  for (const int head_dim : {16, 64}) {
    for (const Formats formats : {Formats::Fp32, Formats::Bf16}) {
      for (const sim::Recompute& recompute : recomputes()) {
        TrainingSetup setup = setup_of(wide_heads(head_dim), formats, 1);
        setup.strategy.micro_batch = setup.strategy.global_batch = 16;
        setup.strategy.recompute = recompute;
        setup.strategy.flash_attention = false;
        const std::string key =
            key_of(setup.model, formats, "recompute=" + sim::text_of(recompute));
        cases.push_back({.step = {.key = key, .setup = std::move(setup)}, .ranks = {0}});
      }
    }
  }
}

struct Form {
  const char* name;
  void (*divide)(sim::Strategy&);
};

// Counted: the last tensor rank of the first data rank, on each of `stages` or, where none are
// named, on all.
void add_divided(std::vector<CountedCase>& cases, TrainingSetup setup, const std::string& key,
                 std::vector<int> stages = {}) {
  const sim::Strategy& strategy = setup.strategy;
  if (stages.empty()) {
    stages.resize(static_cast<std::size_t>(strategy.pp));
    std::iota(stages.begin(), stages.end(), 0);
  }
  for (int& rank : stages)
    rank = rank * sim::group_stride(strategy, sim::GroupKind::Pipeline) + strategy.tp - 1;
  cases.push_back({.step = {.key = key, .setup = std::move(setup)}, .ranks = std::move(stages)});
}

// Four micro-batches on each data rank, with an equal load of all experts.
void add_form(std::vector<CountedCase>& cases, const sim::Transformer& model, Formats formats,
              const Form& form) {
  TrainingSetup setup = setup_of(model, formats, 1);
  setup.balanced_experts = true;
  form.divide(setup.strategy);
  // The two copies of a tied table are no shards of the same rows.
  if (setup.strategy.pp > 1 && setup.strategy.sharding != sim::Sharding::None)
    setup.model.tied_embeddings = false;
  setup.strategy.global_batch = 4 * setup.strategy.dp;
  add_divided(cases, setup, key_of(model, formats, form.name));
}

void shard(sim::Strategy& s, sim::Sharding sharding, int ranks) {
  s.sharding = sharding, s.dp = ranks;
}

void pipeline(sim::Strategy& s, int stages, sim::PipelineSchedule schedule,
              int virtual_stages = 1) {
  s.pp = stages, s.pipeline_schedule = schedule, s.virtual_stages = virtual_stages;
}

void tensor(sim::Strategy& s, int ranks, bool sequence_parallel) {
  s.tp = ranks, s.sequence_parallel = sequence_parallel;
}

constexpr auto kOneForwardOneBackward = sim::PipelineSchedule::OneForwardOneBackward;

// Three data ranks do not divide the units of parameters.
const Form kForms[] = {
    {"ddp-3", [](sim::Strategy& s) { shard(s, sim::Sharding::None, 3); }},
    {"zero1-3", [](sim::Strategy& s) { shard(s, sim::Sharding::Zero1, 3); }},
    {"zero2-3", [](sim::Strategy& s) { shard(s, sim::Sharding::Zero2, 3); }},
    {"zero3-3", [](sim::Strategy& s) { shard(s, sim::Sharding::Zero3, 3); }},
    {"hsdp-6", [](sim::Strategy& s) { shard(s, sim::Sharding::Hsdp, 6), s.shard_size = 3; }},
    {"tp-2", [](sim::Strategy& s) { tensor(s, 2, false); }},
    {"tp-2-sp", [](sim::Strategy& s) { tensor(s, 2, true); }},
    {"pp-2", [](sim::Strategy& s) { pipeline(s, 2, kOneForwardOneBackward); }},
    {"pp-2-gpipe", [](sim::Strategy& s) { pipeline(s, 2, sim::PipelineSchedule::GPipe); }},
    {"pp-2-interleaved",
     [](sim::Strategy& s) { pipeline(s, 2, sim::PipelineSchedule::Interleaved, 2); }},
    {"tp-2-pp-2",
     [](sim::Strategy& s) { tensor(s, 2, false), pipeline(s, 2, kOneForwardOneBackward); }},
    {"tp-2-sp-zero3-2",
     [](sim::Strategy& s) { tensor(s, 2, true), shard(s, sim::Sharding::Zero3, 2); }},
    {"pp-2-zero1-2",
     [](sim::Strategy& s) {
       pipeline(s, 2, kOneForwardOneBackward), shard(s, sim::Sharding::Zero1, 2);
     }},
    {"tp-2-sp-pp-2-zero2-2",
     [](sim::Strategy& s) {
       tensor(s, 2, true), pipeline(s, 2, kOneForwardOneBackward),
           shard(s, sim::Sharding::Zero2, 2);
     }},
    {"tp-2-sp-pp-2-dp-2",
     [](sim::Strategy& s) {
       tensor(s, 2, true), pipeline(s, 2, kOneForwardOneBackward), s.dp = 2;
     }},
};

void add_forms(std::vector<CountedCase>& cases) {
  for (const bool llama : {false, true}) {
    sim::Transformer model = small_model(llama);
    model.num_layers = 5;
    for (const Formats formats : {Formats::Bf16, Formats::Autocast}) {
      for (const Form& form : kForms) add_form(cases, model, formats, form);
    }
  }
}

// Two of eight experts of width 32, and one that all tokens visit.
sim::Transformer small_moe() {
  sim::Transformer model = small_model(true);
  model.name = "moe-3x64";
  model.moe = sim::Moe{.num_experts = 8,
                       .top_k = 2,
                       .expert_ffn_size = 32,
                       .num_shared_experts = 1,
                       .shared_expert_ffn_size = 64,
                       .num_dense_layers = 1};
  return model;
}

// Latents of 24 and 20 values; queries of 12 + 8, values of 16.  Without a rank queries are
// projected directly.
sim::Transformer small_mla(std::optional<int> query_rank) {
  sim::Transformer model = small_model(true);
  model.name = query_rank ? "mla-3x64" : "mla-direct-3x64";
  model.num_kv_heads = model.num_heads;
  model.mla = sim::Mla{.q_lora_rank = query_rank,
                       .kv_lora_rank = 20,
                       .qk_nope_head_dim = 12,
                       .qk_rope_head_dim = 8,
                       .v_head_dim = 16};
  model.head_dim = sim::query_head_dim(model);
  return model;
}

void experts(sim::Strategy& s, int data_ranks, int expert_ranks) {
  s.dp = data_ranks, s.ep = expert_ranks;
}

const Form kMoeForms[] = {
    {"one-process", [](sim::Strategy&) {}},
    {"full-recompute", [](sim::Strategy& s) { s.recompute.kind = RecomputeKind::Full; }},
    {"zero3-2", [](sim::Strategy& s) { shard(s, sim::Sharding::Zero3, 2); }},
    {"tp-2-sp", [](sim::Strategy& s) { tensor(s, 2, true); }},
    {"tp-2-sp-ep-4-whole-experts",
     [](sim::Strategy& s) { tensor(s, 2, true), experts(s, 2, 4), s.etp = 1; }},
    {"ep-2-of-4-zero3",
     [](sim::Strategy& s) { shard(s, sim::Sharding::Zero3, 4), experts(s, 4, 2); }},
    {"pp-2-ep-2",
     [](sim::Strategy& s) { pipeline(s, 2, kOneForwardOneBackward), experts(s, 2, 2); }},
};

void add_moe_models(std::vector<CountedCase>& cases) {
  for (const Formats formats : {Formats::Fp32, Formats::Bf16, Formats::Autocast}) {
    for (const Form& form : kMoeForms) add_form(cases, small_moe(), formats, form);
  }
}

const Form kMlaForms[] = {
    {"one-process", [](sim::Strategy&) {}},
    {"unfused", [](sim::Strategy& s) { s.flash_attention = false; }},
    {"full-recompute", [](sim::Strategy& s) { s.recompute.kind = RecomputeKind::Full; }},
    {"tp-2-sp-mla-up-recompute",
     [](sim::Strategy& s) {
       tensor(s, 2, true);
       s.recompute = {.kind = RecomputeKind::Selective,
                      .modules = {.core_attention = true, .mla_up = true}};
     }},
    {"zero3-3", [](sim::Strategy& s) { shard(s, sim::Sharding::Zero3, 3); }},
    {"tp-2", [](sim::Strategy& s) { tensor(s, 2, false); }},
    {"tp-2-sp-pp-2",
     [](sim::Strategy& s) { tensor(s, 2, true), pipeline(s, 2, kOneForwardOneBackward); }},
};

void add_mla(std::vector<CountedCase>& cases) {
  for (const std::optional<int> query_rank : {std::optional<int>(24), std::optional<int>()}) {
    for (const Formats formats : {Formats::Fp32, Formats::Bf16, Formats::Autocast}) {
      for (const Form& form : kMlaForms) add_form(cases, small_mla(query_rank), formats, form);
    }
  }
}

struct LargeTraining {
  const char* model;
  Form form;
  int micro_batches;
  std::vector<int> stages;
};

void add_large(std::vector<CountedCase>& cases) {
  const auto mesh = [](sim::Strategy& s) {
    tensor(s, 8, true), pipeline(s, 4, kOneForwardOneBackward);
  };
  const auto full = [](sim::Strategy& s) {
    shard(s, sim::Sharding::Zero3, 256), s.recompute.kind = RecomputeKind::Full;
  };
  const auto hsdp = [](sim::Strategy& s) { shard(s, sim::Sharding::Hsdp, 256), s.shard_size = 64; };
  const auto deep = [](sim::Strategy& s) {
    tensor(s, 8, true), pipeline(s, 16, kOneForwardOneBackward);
  };
  const auto wide = [](sim::Strategy& s) {
    shard(s, sim::Sharding::Zero3, 1024), s.recompute.kind = RecomputeKind::Full;
  };
  const LargeTraining trainings[] = {{"llama-3-70b", {"tp-8-sp-pp-4", mesh}, 4, {0, 3}},
                                     {"llama-3-70b", {"zero3-256-full", full}, 1, {0}},
                                     {"llama-3-70b", {"hsdp-256", hsdp}, 1, {0}},
                                     {"llama-3.1-405b", {"tp-8-sp-pp-16", deep}, 16, {0, 8, 15}},
                                     {"llama-3.1-405b", {"zero3-1024-full", wide}, 1, {0}}};
  for (const LargeTraining& training : trainings) {
    TrainingSetup setup = setup_of(hwdb::find_model(training.model)->model, Formats::Bf16, 1);
    training.form.divide(setup.strategy);
    setup.strategy.global_batch = training.micro_batches * setup.strategy.dp;
    add_divided(cases, setup, std::string(training.model) + " bf16 " + training.form.name,
                training.stages);
  }
}

}  // namespace

std::vector<CountedCase> counted_cases() {
  std::vector<CountedCase> cases;
  add_small(cases);
  add_wide_heads(cases);
  add_forms(cases);
  add_moe_models(cases);
  add_mla(cases);
  add_large(cases);
  return cases;
}

void count_steps(const CampaignOptions& options) {
  install_memory_meter();
  install_meta_kernels();
  use_threads(1);  // tiny tensors
  ResultFile file(options.output, options.resume ? Opening::Resume : Opening::Fresh,
                  campaign_header(options));
  const std::vector<CountedCase> cases = counted_cases();
  Progress progress(static_cast<double>(cases.size()));
  for (const CountedCase& one : cases) {
    progress.advance(1.0, one.step.key);
    for (const int rank : one.ranks) {
      if (!file.contains(counted_key(one.step, rank))) file.append(counted_record(one.step, rank));
    }
  }
}

}  // namespace llmsim::runtime
