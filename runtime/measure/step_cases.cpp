#include "runtime/measure/step_cases.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "hwdb/models/catalogue.h"
#include "runtime/kernels/library_attention.h"
#include "runtime/kernels/low_precision_linear.h"
#include "runtime/library/cuda_graph.h"
#include "runtime/library/operator_call.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"
#include "sim/strategy/validity.h"

namespace llmsim::runtime {
namespace {

// What all families have in common; the name is "gpt2-4x256-v8192".
sim::Transformer shape(const char* family, int layers, int hidden, int vocab, int seq_len) {
  sim::Transformer model;
  model.name = std::string(family) + "-" + std::to_string(layers) + "x" + std::to_string(hidden) +
               "-v" + std::to_string(vocab);
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.num_heads = model.num_kv_heads = hidden / 64;
  model.head_dim = 64;
  model.ffn_size = 4 * hidden;
  model.vocab_size = vocab;
  model.seq_len = seq_len;
  return model;
}

sim::Transformer gpt2(int layers, int hidden, int vocab, int seq_len) {
  sim::Transformer model = shape("gpt2", layers, hidden, vocab, seq_len);
  model.tied_embeddings = true;
  model.bias = sim::Biases::gpt();
  model.position = sim::Position::Learned;
  return model;
}

// Grouped queries, two to a key; the MLP 8/3 as wide as the model, rounded to 64.
sim::Transformer llama(int layers, int hidden, int vocab, int seq_len,
                       const char* family = "llama") {
  sim::Transformer model = shape(family, layers, hidden, vocab, seq_len);
  model.num_kv_heads = model.num_heads / 2;
  model.ffn_size = (8 * hidden / 3 + 63) / 64 * 64;
  model.gated_mlp = true;
  model.norm = sim::Norm::RmsNorm;
  model.position = sim::Position::Rope;
  return model;
}

// Two of eight experts half as wide as the model; together as wide as the MLP that each token would
// have.
sim::Transformer moe(int layers, int hidden, int vocab, int seq_len) {
  sim::Transformer model = llama(layers, hidden, vocab, seq_len, "moe");
  model.moe = {.num_experts = 8, .top_k = 2, .expert_ffn_size = model.ffn_size / 2};
  return model;
}

// Heads of DeepSeek-V2 (arXiv:2405.04434) halved: queries of 64 + 32, values of 64.  Latents of
// half the model's width for the queries and a quarter, as its Lite, for keys and values.
sim::Transformer mla(int layers, int hidden, int vocab, int seq_len) {
  sim::Transformer model = llama(layers, hidden, vocab, seq_len, "mla");
  model.num_kv_heads = model.num_heads;
  model.mla = {.q_lora_rank = hidden / 2,
               .kv_lora_rank = hidden / 4,
               .qk_nope_head_dim = 64,
               .qk_rope_head_dim = 32,
               .v_head_dim = 64};
  model.head_dim = sim::query_head_dim(model);
  return model;
}

// A base configuration and what varies it.
struct Variation {
  const char* name;
  void (*apply)(TrainingSetup&);
};

const Variation kVariations[] = {
    {"", [](TrainingSetup&) {}},
    {"full-recompute",
     [](TrainingSetup& s) { s.strategy.recompute.kind = sim::RecomputeKind::Full; }},
    {"unfused", [](TrainingSetup& s) { s.strategy.flash_attention = false; }},
    {"unfused-selective",
     [](TrainingSetup& s) {
       s.strategy.flash_attention = false;
       s.strategy.recompute = {.kind = sim::RecomputeKind::Selective};
     }},
    {"chunked-loss", [](TrainingSetup& s) { s.strategy.fused_cross_entropy = true; }},
    {"2-micro-batches", [](TrainingSetup& s) { s.strategy.global_batch *= 2; }},
    {"bf16", [](TrainingSetup& s) { s.strategy.precision = sim::Precision::Bf16; }},
    {"bf16-autocast",
     [](TrainingSetup& s) {
       s.strategy.precision = sim::Precision::Bf16;
       s.autocast = true;
     }},
};

TrainingSetup setup_of(const sim::Transformer& model, int micro_batch, c10::Device device) {
  TrainingSetup setup;
  setup.model = model;
  setup.device = device;
  setup.strategy.precision = sim::Precision::Fp32;
  setup.strategy.micro_batch = setup.strategy.global_batch = micro_batch;
  setup.balanced_experts = true;
  return setup;
}
// What an accelerator trains, in bf16 with the library's flash attention where nothing else is said.
TrainingSetup large_setup(const char* model, int layers, int seq_len, int micro_batch,
                          c10::Device device) {
  TrainingSetup setup = setup_of(hwdb::find_model(model)->model, micro_batch, device);
  setup.model.num_layers = layers > 0 ? layers : setup.model.num_layers;
  setup.model.seq_len = seq_len;
  setup.strategy.precision = sim::Precision::Bf16;
  if (has_attention_kernels(AttentionKernels::Flash, device))
    setup.attention_kernels = AttentionKernels::Flash;
  return setup;
}

// What varies a large step.
std::vector<Variation> large_variations(c10::Device device) {
  std::vector<Variation> list{
      {"full-recompute",
       [](TrainingSetup& s) { s.strategy.recompute.kind = sim::RecomputeKind::Full; }},
      {"chunked-loss", [](TrainingSetup& s) { s.strategy.fused_cross_entropy = true; }},
      {"blockwise", [](TrainingSetup& s) { s.attention_kernels = AttentionKernels::Blockwise; }},
      {"unfused",
       [](TrainingSetup& s) {
         s.attention_kernels = AttentionKernels::Blockwise, s.strategy.flash_attention = false;
       }},
      {"unfused-selective",
       [](TrainingSetup& s) {
         s.attention_kernels = AttentionKernels::Blockwise, s.strategy.flash_attention = false;
         s.strategy.recompute = {.kind = sim::RecomputeKind::Selective};
       }},
      {"4-micro-batches", [](TrainingSetup& s) { s.strategy.global_batch *= 4; }},
      {"autocast", [](TrainingSetup& s) { s.autocast = true; }},
      {"fp32",
       [](TrainingSetup& s) {
         s.strategy.precision = sim::Precision::Fp32;
         s.attention_kernels = AttentionKernels::Blockwise;
       }},
      {"host-update", [](TrainingSetup& s) { s.strategy.offload.optimizer = true; }}};
  if (has_attention_kernels(AttentionKernels::Cudnn, device))
    list.push_back(
        {"cudnn", [](TrainingSetup& s) { s.attention_kernels = AttentionKernels::Cudnn; }});
  if (has_low_precision_gemms(device))
    list.push_back({"fp8", [](TrainingSetup& s) { s.strategy.precision = sim::Precision::Fp8; }});
  if (has_operator("aten::_fused_adamw_"))
    list.push_back({"fused-update", [](TrainingSetup& s) { s.optimizer.form = AdamWForm::Fused; }});
  if (can_capture_graphs(device))
    list.push_back({"cuda-graph", [](TrainingSetup& s) { s.strategy.cuda_graph = true; }});
  return list;
}

// Models of 125 million to 70 billion parameters, the large ones in a few layers, until they do not
// fit.
struct LargeCase {
  const char* model;
  int layers;  // 0: all
  int seq_len;
  std::vector<int> micro_batches;
  std::vector<std::string> variations;  // of the first micro-batch
};
std::vector<LargeCase> large_cases() {
  const std::vector<std::string> most{"full-recompute", "chunked-loss", "cudnn", "fp8",
                                      "cuda-graph"};
  std::vector<std::string> many = most;
  many.insert(many.end(), {"fused-update", "blockwise", "unfused", "unfused-selective",
                           "4-micro-batches", "autocast", "fp32"});
  std::vector<std::string> all = many;
  all.emplace_back("host-update");
  return {{"gpt2", 0, 1024, {16, 4, 1, 64}, all},
          {"llama-3.1-8b", 4, 4096, {1, 2, 4}, many},
          {"gpt2-xl", 0, 1024, {4, 2, 8, 16, 20, 24, 32, 36, 38, 40}, most},
          {"llama-3-70b", 1, 4096, {1, 2}, most},
          {"gpt2-medium", 0, 1024, {8, 2, 16, 32}, {"full-recompute", "fp8"}},
          {"gpt2-large", 0, 1024, {4, 8, 16}, {"full-recompute", "fp8"}},
          {"llama-3.1-8b", 8, 4096, {1, 2, 4, 6, 8, 9, 10}, most},
          {"llama-2-7b", 12, 4096, {1, 2}, most},
          {"llama-3.1-8b", 2, 1024, {8}, {"cuda-graph"}},
          {"llama-3.1-8b", 2, 2048, {4}, {}},
          {"llama-3.1-8b", 2, 8192, {1, 2}, {"cudnn", "chunked-loss"}},
          {"llama-3.1-8b", 2, 16384, {1}, {"cudnn", "chunked-loss"}},
          {"llama-3.1-8b", 2, 32768, {1}, {"chunked-loss", "full-recompute"}},
          {"llama-3-70b", 2, 4096, {1}, {"full-recompute"}},
          {"llama-3-70b", 4, 4096, {1}, {}}};
}

}  // namespace

std::vector<StepCase> large_step_cases(c10::Device device) {
  const std::vector<Variation> variations = large_variations(device);
  std::vector<StepCase> cases;
  const auto add = [&](const LargeCase& one, int micro_batch, const Variation& variation) {
    TrainingSetup setup = large_setup(one.model, one.layers, one.seq_len, micro_batch, device);
    variation.apply(setup);
    std::string key = std::string("step ") + one.model +
                      (one.layers > 0 ? " l" + std::to_string(one.layers) : "") + " s" +
                      std::to_string(one.seq_len) + " b" + std::to_string(micro_batch);
    if (*variation.name != '\0') key += std::string(" ") + variation.name;
    cases.push_back({.key = std::move(key), .setup = std::move(setup)});
  };
  for (const LargeCase& one : large_cases()) {
    for (const int micro_batch : one.micro_batches) add(one, micro_batch, kVariations[0]);
    for (const Variation& variation : variations) {
      if (std::ranges::find(one.variations, variation.name) != one.variations.end())
        add(one, one.micro_batches.front(), variation);
    }
  }
  // A capture that fails may take the device with it.
  std::ranges::stable_partition(cases,
                                [](const StepCase& one) { return !one.setup.strategy.cuda_graph; });
  return cases;
}

std::vector<StepCase> step_cases(c10::Device device, bool bf16) {
  if (device.is_cuda()) return large_step_cases(device);
  std::vector<StepCase> cases;
  const auto add = [&](const sim::Transformer& model, int micro_batch, const Variation& variation) {
    TrainingSetup setup = setup_of(model, micro_batch, device);
    variation.apply(setup);
    if (setup.strategy.precision == sim::Precision::Bf16 && !bf16) return;
    std::string key = "step " + model.name + " s" + std::to_string(model.seq_len) + " b" +
                      std::to_string(micro_batch);
    if (*variation.name != '\0') key += std::string(" ") + variation.name;
    cases.push_back({.key = std::move(key), .setup = std::move(setup)});
  };
  for (const sim::Transformer& base : {gpt2(4, 256, 8192, 256), llama(3, 384, 4096, 256)}) {
    for (const Variation& variation : kVariations) add(base, 2, variation);
  }
  const Variation& plain = kVariations[0];
  add(gpt2(2, 512, 8192, 256), 2, plain);
  add(gpt2(8, 256, 2048, 128), 4, plain);
  add(gpt2(2, 256, 32768, 128), 2, plain);
  add(gpt2(2, 768, 1024, 128), 2, plain);
  add(gpt2(4, 256, 8192, 1024), 1, plain);
  add(llama(2, 512, 8192, 256), 2, plain);
  add(llama(4, 256, 8192, 512), 1, plain);
  add(llama(4, 256, 2048, 128), 8, plain);
  add(llama(2, 768, 2048, 128), 1, plain);
  add(llama(2, 256, 4096, 1024), 1, kVariations[2]);
  for (const int variation : {0, 1, 6}) add(moe(3, 256, 4096, 256), 2, kVariations[variation]);
  add(moe(2, 512, 2048, 128), 4, plain);
  add(mla(3, 256, 4096, 256), 2, plain);
  return cases;
}

std::vector<StepCase> parallel_step_cases(int ranks, c10::Device device) {
  const std::pair<const char*, std::function<void(sim::Strategy&)>> forms[] = {
      {"dp", [=](sim::Strategy& s) { s.dp = ranks, s.global_batch *= ranks; }},
      {"zero1",
       [=](sim::Strategy& s) {
         s.dp = ranks, s.global_batch *= ranks, s.sharding = sim::Sharding::Zero1;
       }},
      {"fsdp",
       [=](sim::Strategy& s) {
         s.dp = ranks, s.global_batch *= ranks, s.sharding = sim::Sharding::Zero3;
       }},
      {"tp", [=](sim::Strategy& s) { s.tp = ranks; }},
      {"tp-sp", [=](sim::Strategy& s) { s.tp = ranks, s.sequence_parallel = true; }},
      {"ep", [=](sim::Strategy& s) { s.dp = s.ep = ranks, s.global_batch *= ranks; }},
      {"pp", [=](sim::Strategy& s) { s.pp = ranks, s.global_batch *= 2 * ranks; }},
  };
  std::vector<StepCase> cases;
  for (const sim::Transformer& model :
       {gpt2(4, 256, 8192, 256), llama(4, 512, 4096, 256), moe(3, 256, 4096, 256)}) {
    for (const auto& [name, divide] : forms) {
      if (model.moe.has_value() != (std::string_view(name) == "ep")) continue;
      TrainingSetup setup = setup_of(model, 2, device);
      divide(setup.strategy);
      if (sim::broken_rule_name(model, setup.strategy, ranks) != nullptr) continue;
      const std::string key = "step " + model.name + " s" + std::to_string(model.seq_len) + " b2 " +
                              name + std::to_string(ranks);
      cases.push_back({.key = key, .setup = std::move(setup)});
    }
  }
  return cases;
}
}  // namespace llmsim::runtime
