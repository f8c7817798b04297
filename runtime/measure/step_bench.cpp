#include "runtime/measure/step_bench.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include <ATen/ATen.h>
#include <torch/version.h>
#include <nlohmann/json.hpp>

#include "runtime/kernels/library_attention.h"
#include "runtime/kernels/low_precision_linear.h"
#include "runtime/library/cuda_graph.h"
#include "runtime/library/device.h"
#include "runtime/library/memory_meter.h"
#include "runtime/measure/agreement.h"
#include "runtime/measure/counted_step.h"
#include "runtime/measure/kernel_bench.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"
#include "sim/strategy/validity.h"

namespace llmsim::runtime {
namespace {

using nlohmann::json;

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

// What only some devices and libraries execute.
std::vector<Variation> accelerator_variations(c10::Device device) {
  std::vector<Variation> list;
  if (has_attention_kernels(AttentionKernels::Flash, device)) {
    list.push_back({"bf16-library-flash", [](TrainingSetup& s) {
                      s.strategy.precision = sim::Precision::Bf16,
                      s.attention_kernels = AttentionKernels::Flash;
                    }});
  }
  if (has_attention_kernels(AttentionKernels::Efficient, device)) {
    list.push_back({"bf16-library-efficient", [](TrainingSetup& s) {
                      s.strategy.precision = sim::Precision::Bf16,
                      s.attention_kernels = AttentionKernels::Efficient;
                    }});
  }
  if (has_low_precision_gemms(device)) {
    list.push_back({"fp8", [](TrainingSetup& s) { s.strategy.precision = sim::Precision::Fp8; }});
  }
  if (can_capture_graphs(device)) {
    list.push_back({"bf16-cuda-graph", [](TrainingSetup& s) {
                      s.strategy.precision = sim::Precision::Bf16, s.strategy.cuda_graph = true;
                    }});
  }
  return list;
}

// Nothing stands in the record where there is no value.
void put_value(json& record, const std::string& key, const std::optional<sim::FieldValue>& value) {
  if (value) std::visit([&](const auto& known) { sim::place_of(record, key) = known; }, *value);
}

json model_record(const sim::Transformer& model) {
  json record{{"name", model.name}, {"architecture", "decoder"}};
  for (const sim::TransformerField& field : sim::transformer_fields())
    put_value(record, field.key, field.get(model));
  return record;
}

// What the runtime executes of a strategy, in the words of its table.
constexpr const char* kExecuted[] = {"precision",
                                     "optimizer",
                                     "micro_batch",
                                     "global_batch",
                                     "dp",
                                     "tp",
                                     "pp",
                                     "cp",
                                     "ep",
                                     "etp",
                                     "virtual_stages",
                                     "pipeline_schedule",
                                     "sharding",
                                     "shard_size",
                                     "sequence_parallel",
                                     "flash_attention",
                                     "cuda_graph",
                                     "fused_cross_entropy",
                                     "recompute.kind",
                                     "recompute.every_n",
                                     "recompute.share",
                                     "recompute.blocks",
                                     "recompute.modules",
                                     "offload.optimizer",
                                     "offload.activations"};

json training_record(const TrainingSetup& setup) {
  const sim::Strategy& strategy = setup.strategy;
  json record{{"framework", setup.autocast ? "libtorch-autocast" : "libtorch"},
              {"framework_version", TORCH_VERSION},
              {"num_microbatches", strategy.num_microbatches()}};
  for (const char* key : kExecuted) {
    const sim::StrategyField& field = *sim::find_strategy_field(key);
    if (is_stated(field, strategy)) put_value(record, field.key, field.get(strategy));
  }
  return record;
}

// Medians of the parts, and of the whole.
struct StepTimings {
  std::vector<sim::Seconds> forward, backward, optimizer;

  void add(const StepResult& result) {
    forward.push_back(result.forward);
    backward.push_back(result.backward);
    optimizer.push_back(result.optimizer);
  }
};

double largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

// What each group has carried since its counts were reset.
json carried_by(const RankGroups& groups) {
  json list = json::array();
  for (const auto& [kind, group] : groups.communicators()) {
    const CollectiveCounts counts = group->counts();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i].calls == 0) continue;
      list.push_back({{"group", sim::name_of(kind)},
                      {"collective", sim::name_of(static_cast<sim::CollectiveKind>(i))},
                      {"bytes", counts[i].bytes},
                      {"count", counts[i].calls}});
    }
  }
  return list;
}

// Peaks of all ranks; none where this build cannot ask the device.
struct RankPeaks {
  std::vector<double> allocated, reserved;

  RankPeaks(Communicator* world, c10::Device device) {
    const std::optional<PeakMemory> own = peak_memory(device);
    if (!own) return;
    allocated = of_all_ranks(world, static_cast<double>(own->allocated), device);
    if (own->reserved) reserved = of_all_ranks(world, static_cast<double>(*own->reserved), device);
  }
};

std::int64_t whole(double value) { return static_cast<std::int64_t>(value); }

// What a training of one case is seen to do.
void add_measured(json& record, const StepCase& one, Communicator* world, double own_time,
                  double slowest_time) {
  const std::vector<double> times = of_all_ranks(world, own_time, one.setup.device);
  const RankPeaks peaks(world, one.setup.device);
  json& measured = record["run"]["measured"];
  measured = {{"step_time_s", slowest_time}, {"outcome", "ok"}};
  if (!peaks.allocated.empty()) {
    measured.update({{"peak_memory_bytes", whole(largest(peaks.allocated))},
                     {"memory_kind", "allocated"},
                     {"memory_scope", "max-rank"}});
  }
  record["ranks"] = json::array();
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    json entry{{"rank", rank}, {"step_time_s", times[rank]}};
    if (!peaks.allocated.empty()) entry["peak_bytes"] = whole(peaks.allocated[rank]);
    if (!peaks.reserved.empty()) entry["reserved_bytes"] = whole(peaks.reserved[rank]);
    record["ranks"].push_back(std::move(entry));
  }
}

// One more step, which is not timed: what its passes multiply and what it sends.  A replayed graph
// calls no operators.
void add_counted(json& record, const StepCase& one, const RankGroups& groups, Trainer& trainer) {
  for (const auto& [kind, group] : groups.communicators()) group->reset_counts();
  PassFlops flops;
  StepObserver observer;
  observer.pass_done = [&](bool backward) { flops.pass_done(backward); };
  trainer.step(trainer.next_batches(), observer);
  synchronize(one.setup.device);
  const auto all = [](const sim::PassFlopCounts& pass) { return pass.gemms + pass.attention; };
  if (all(flops.forward()) > 0)
    record["flops"] = {{"forward", all(flops.forward())}, {"backward", all(flops.backward())}};
  if (one.setup.strategy.num_devices() > 1) record["communication"] = carried_by(groups);
}

void train(json& record, const StepCase& one, const RankGroups& groups,
           const RepeatOptions& options, Communicator* world) {
  Trainer trainer(one.setup, groups);
  StepTimings parts;
  StepResult last;
  std::vector<sim::Seconds> own;
  const auto step = [&] {
    const std::vector<MicroBatch> batches = trainer.next_batches();
    last = trainer.step(batches);
    synchronize(one.setup.device);
    parts.add(last);
    own.push_back(last.total);
    return slowest(world, last.total, one.setup.device);
  };
  reset_peak_memory(one.setup.device);
  const Timing timing = repeated(step, options);
  add_timing(record, timing);
  record["forward_s"] = summary(parts.forward).median.value();
  record["backward_s"] = summary(parts.backward).median.value();
  record["optimizer_s"] = summary(parts.optimizer).median.value();
  const std::vector<double> losses = of_all_ranks(world, last.loss, one.setup.device);
  record["loss"] = std::accumulate(losses.begin(), losses.end(), 0.0) / one.setup.strategy.tp;
  add_measured(record, one, world, summary(own).median.value(), timing.median.value());
  add_counted(record, one, groups, trainer);
}

}  // namespace

std::vector<StepCase> step_cases(c10::Device device, bool bf16) {
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
    for (const Variation& variation : accelerator_variations(device)) add(base, 2, variation);
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

json run_record(const StepCase& one, const std::string& accelerator) {
  return {{"id", one.key},
          {"group", "llmsim-runtime"},
          {"source", "measured by llmsim-runtime"},
          {"model", model_record(one.setup.model)},
          {"hardware",
           {{"accelerator", accelerator},
            {"num_devices", one.setup.strategy.num_devices()},
            {"devices_per_node", one.setup.strategy.num_devices()}}},
          {"training", training_record(one.setup)},
          {"scored", {{"step_time", true}, {"memory", true}, {"outcome", true}}}};
}

json step_record(const StepCase& one, const std::string& accelerator) {
  return {{"type", "step"}, {"key", one.key}, {"run", run_record(one, accelerator)}};
}

json oom_record(const StepCase& one, const std::string& accelerator) {
  json record = step_record(one, accelerator);
  record["outcome"] = "oom";
  record["run"]["measured"] = {{"outcome", "oom"}};
  return record;
}

json measure_step(const StepCase& one, const RankGroups& groups, const std::string& accelerator,
                  const RepeatOptions& options, Communicator* world) {
  json record = step_record(one, accelerator);
  with_outcome(record, [&] { train(record, one, groups, options, world); });
  return record["outcome"] == "oom" ? oom_record(one, accelerator) : record;
}

}  // namespace llmsim::runtime
