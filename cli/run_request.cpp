#include "cli/run_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/number_list.h"
#include "hwdb/frameworks.h"
#include "hwdb/hardware.h"
#include "hwdb/huggingface.h"
#include "hwdb/run_record.h"
#include "hwdb/run_resolver.h"
#include "sim/base/error.h"
#include "sim/model/catalogue.h"

namespace llmsim::cli {
namespace {

using Text = std::optional<std::string>;

constexpr NumberRange kDevices{1, 1 << 20};
constexpr NumberRange kRanks{1, 1 << 20};
constexpr NumberRange kStages{1, 4096};
constexpr NumberRange kTensor{1, 1024};
constexpr NumberRange kSequence{1, 1 << 24};
constexpr NumberRange kBatch{1, 1 << 24};
constexpr NumberRange kMicroBatch{1, 1024};
constexpr NumberRange kVirtualStages{1, 1024};
constexpr NumberRange kStageLayers{1, 65536};
constexpr NumberRange kBatchTokens{1, std::int64_t{1} << 36};
constexpr std::int64_t kDefaultBatchTokens = std::int64_t{4} << 20;
constexpr std::int64_t kDefaultTokensPerDevice = 1024;

// Default values with their reasons, for the provenance.
using Notes = std::vector<sim::Fact>;

void note(Notes& notes, const std::string& key, const std::string& value, const std::string& reason) {
  notes.push_back({"assumed." + key, value, sim::Evidence::Assumed, reason});
}

std::optional<int> optional_number(const char* option, const Text& text, NumberRange range) {
  if (!text) return std::nullopt;
  return static_cast<int>(number_in(option, *text, range));
}

std::vector<int> optional_numbers(const char* option, const Text& text, NumberRange range) {
  return text ? numbers_in(option, *text, range) : std::vector<int>{};
}

std::vector<std::string> split(const std::string& text, char separator = ',') {
  std::vector<std::string> parts;
  std::stringstream stream(text.empty() ? text : text + separator);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// --- names ---

[[noreturn]] void refuse(const std::string& option, const std::string& value, const std::string& right) {
  throw Error(option + " = " + value + ": " + right + " is expected");
}

sim::Sharding sharding_in(const std::string& text) {
  if (const auto sharding = sim::sharding_named(text)) return *sharding;
  refuse("--sharding", text, "none, zero1, zero2, zero3 or hsdp");
}

sim::Recompute recompute_in(const std::string& text) {
  if (const auto recompute = sim::recompute_from(text)) return *recompute;
  refuse("--recompute", text,
         "none, selective, selective=core_attn+mlp+moe+layernorm+activation+moe_act+shared_experts+mla_up_proj, full, full=K, "
         "every-n=K, "
         "every-n=Q/P, op, op=all or "
         "op=qkv");
}

sim::PipelineSchedule schedule_in(const std::string& text) {
  if (const auto schedule = sim::schedule_named(text)) return *schedule;
  refuse("--schedule", text, "gpipe, 1f1b, interleaved, zb-h1, zb-v or dualpipe");
}

void offload_modules(const std::string& names, const std::string& text, hwdb::RecordedOffload& offload) {
  if (!sim::offloaded_modules_from(names))
    refuse("--offload", text, "activations= and some of " + sim::text_of(sim::kAllOffloadedModules) + ", joined by +");
  offload.activations = true;
  for (const std::string& name : split(names, '+')) offload.modules.push_back(name);
}

hwdb::RecordedOffload offload_in(const Text& text) {
  hwdb::RecordedOffload offload;
  if (!text) return offload;
  for (const std::string& part : split(*text)) {
    if (part == "optimizer")
      offload.optimizer = true;
    else if (part == "parameters")
      offload.parameters = true;
    else if (part == "activations")
      offload.activations = true;
    else if (part.starts_with("activations="))
      offload_modules(part.substr(part.find('=') + 1), *text, offload);
    else
      refuse("--offload", *text, "a list of optimizer, parameters and activations, or activations=core_attn+moe_act");
  }
  return offload;
}

Text precision_in(const Text& text) {
  if (text && !sim::precision_named(*text)) refuse("--precision", *text, "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4");
  return text;
}

Text context_scheme_in(const Text& text) {
  if (text && !sim::context_scheme_named(*text)) refuse("--cp-scheme", *text, "ring, all-gather or all-to-all");
  return text;
}

Text optimizer_in(const Text& text) {
  if (text && !sim::optimizer_named(*text)) {
    refuse("--optimizer", *text, "adamw, adam, adam8bit, lion, adafactor, sgd, momentum, lamb or muon");
  }
  return text;
}

Text transport_in(const Text& text) {
  if (text && !sim::transport_named(*text)) refuse("--transport", *text, "rdma or sockets");
  return text;
}

Text algorithm_in(const Text& text) {
  if (text && !sim::algorithm_named(*text)) refuse("--collective-algorithm", *text, "auto, ring, tree or hierarchical");
  return text;
}

// --- model ---

sim::Transformer model_named(const std::string& name) {
  if (const sim::CatalogueEntry* entry = sim::find_model(name)) return entry->model;
  if (std::filesystem::exists(name) || name.ends_with(".json")) return hwdb::load_model_config(name);
  std::string near;
  for (const std::string& model : sim::nearest_models(name, 3)) near += (near.empty() ? "; did you mean " : ", ") + model;
  throw Error("--model = " + name + ": neither a known model nor a config.json" + near + (near.empty() ? "" : "?"));
}

sim::Transformer model_of(const RunOptions& options, Notes& notes) {
  sim::Transformer model = model_named(options.model);
  if (const auto seq_len = optional_number("--seq-len", options.seq_len, kSequence))
    model.seq_len = *seq_len;
  else
    note(notes, "model.seq_len", std::to_string(model.seq_len), "training length of the model");
  return model;
}

// --- hardware ---

hwdb::RecordedHardware hardware_of(const RunOptions& options, int num_devices, const hwdb::Database& database, Notes& notes) {
  hwdb::RecordedHardware hardware;
  hardware.num_devices = num_devices;
  hardware.system = options.system;
  hardware.transport = transport_in(options.transport);
  hardware.collective_algorithm = algorithm_in(options.algorithm);
  if (options.hardware) hardware.accelerator = hwdb::device(database, *options.hardware).device.id;
  if (!options.hardware && !options.system) {
    hardware.accelerator = "h100_sxm";
    hardware.system = "dgx_h100";
    note(notes, "hardware.accelerator", "h100_sxm", "default of --hardware");
    note(notes, "hardware.system", "dgx_h100", "default of --system");
  }
  return hardware;
}

// --- batch ---

// 4 Mi tokens, or 1,024 for each device where that is more (Llama 3 405B: 16 Mi on 16,384), in sequences, rounded to a multiple
// of `divisor`, which is halved while it is more than that.
std::int64_t default_batch(int seq_len, int devices, std::int64_t divisor) {
  const std::int64_t tokens = std::max(kDefaultBatchTokens, kDefaultTokensPerDevice * devices);
  const std::int64_t sequences = std::max<std::int64_t>(1, tokens / seq_len);
  while (divisor > sequences && divisor % 2 == 0) divisor /= 2;
  return std::max<std::int64_t>(1, (sequences + divisor / 2) / divisor) * divisor;
}

int global_batch_of(const RunOptions& options, int seq_len, int devices, std::int64_t divisor, bool divisor_is_a_must,
                    Notes& notes) {
  if (options.global_batch && options.global_batch_tokens) {
    throw Error("--global-batch and --global-batch-tokens say the same thing: give one of them");
  }
  if (options.global_batch) return static_cast<int>(number_in("--global-batch", *options.global_batch, kBatch));
  std::int64_t batch = default_batch(seq_len, devices, divisor);
  if (divisor_is_a_must) batch = std::max<std::int64_t>(1, (batch + divisor / 2) / divisor) * divisor;
  std::string reason = devices > kDefaultBatchTokens / kDefaultTokensPerDevice
                           ? "1,024 tokens a device, as sequences that the devices divide"
                           : "4 Mi tokens, as sequences that the devices divide";
  if (options.global_batch_tokens) {
    const std::int64_t tokens = number_in("--global-batch-tokens", *options.global_batch_tokens, kBatchTokens);
    batch = std::max<std::int64_t>(1, (tokens + seq_len / 2) / seq_len);
    reason = std::to_string(tokens) + " tokens in sequences of " + std::to_string(seq_len);
    if (tokens == batch * seq_len) reason += ", exactly";
  }
  if (batch > kBatch.most)
    refuse("--global-batch", std::to_string(batch), "at most " + std::to_string(kBatch.most) + " sequences");
  note(notes, "training.global_batch", std::to_string(batch), reason);
  return static_cast<int>(batch);
}

// --- mesh ---

struct Mesh {
  std::int64_t tp = 1, pp = 1, cp = 1;
  std::optional<std::int64_t> dp;
  int ep = 1;

  std::int64_t model_ranks() const { return tp * pp * cp; }
  std::int64_t product() const { return dp.value_or(1) * model_ranks(); }
};

Mesh mesh_of(const RunOptions& options) {
  Mesh mesh;
  mesh.tp = optional_number("--tp", options.tp, kTensor).value_or(1);
  mesh.pp = optional_number("--pp", options.pp, kStages).value_or(1);
  mesh.cp = optional_number("--cp", options.cp, kTensor).value_or(1);
  mesh.ep = optional_number("--ep", options.ep, kTensor).value_or(1);
  if (const auto dp = optional_number("--dp", options.dp, kRanks)) mesh.dp = *dp;
  const auto fits = [](std::int64_t product) { return product <= kDevices.most; };
  if (!fits(mesh.model_ranks()) || !fits(mesh.product())) {
    refuse("--dp * --tp * --pp * --cp",
           std::to_string(mesh.dp.value_or(1)) + " * " + std::to_string(mesh.tp) + " * " + std::to_string(mesh.pp) + " * " +
               std::to_string(mesh.cp),
           "at most " + std::to_string(kDevices.most) + " devices");
  }
  return mesh;
}

// A mesh with its batch.
struct Layout {
  Mesh mesh;
  std::int64_t dp = 1;
  std::optional<int> micro_batch{};
  int global_batch = 1;

  std::int64_t replica_batch() const { return dp * micro_batch.value_or(1); }
  bool multiplies(int devices) const { return dp * mesh.model_ranks() == devices && global_batch % replica_batch() == 0; }
};

int devices_of(const RunOptions& options, const Mesh& mesh, Notes& notes) {
  if (const auto given = optional_number("--gpus", options.gpus, kDevices)) return *given;
  note(notes, "hardware.num_devices", std::to_string(mesh.product()), "dp * tp * pp * cp");
  return static_cast<int>(mesh.product());
}

// What most people train with on such devices.
const char* usual_framework(const sim::Device& device) {
  if (device.vendor == "Google") return "maxtext";
  if (device.vendor == "Intel") return "megatron-deepspeed";  // Gaudi: HabanaAI's fork of it
  if (device.vendor == "AWS") return "other";
  return "megatron-lm";
}

std::string framework_in(const Text& text, const hwdb::RecordedHardware& hardware, const hwdb::Database& database, Notes& notes) {
  if (!text) {
    const std::string& name = hardware.system ? *hardware.system : *hardware.accelerator;
    const sim::Device device = hardware.accelerator ? hwdb::device(database, *hardware.accelerator).device
                                                    : hwdb::cluster(database, name, 1).cluster.device;
    const char* const framework = usual_framework(device);
    note(notes, "training.framework", framework, "default of --framework for devices of " + device.vendor);
    return framework;
  }
  const std::vector<std::string> known = hwdb::Frameworks::shipped().ids();
  if (std::find(known.begin(), known.end(), *text) != known.end()) return *text;
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  refuse("--framework", *text, "one of " + names);
}

void set_experts(const RunOptions& options, hwdb::RecordedTraining& training) {
  training.etp = optional_number("--etp", options.etp, kTensor);
  if (options.moe_dispatch && !sim::expert_dispatch_named(*options.moe_dispatch))
    refuse("--moe-dispatch", *options.moe_dispatch, "alltoall, allgather or deepep");
  training.moe_dispatch = options.moe_dispatch;
  training.moe_overlap = options.moe_overlap;
  training.moe_captured = options.moe_captured;
  training.moe_imbalance = options.moe_imbalance;
  training.moe_capacity = options.moe_capacity;
}

hwdb::RecordedTraining recipe_of(const RunOptions& options, const hwdb::RecordedHardware& hardware,
                                 const hwdb::Database& database, Notes& notes) {
  hwdb::RecordedTraining training;
  training.framework = framework_in(options.framework, hardware, database, notes);
  training.precision = precision_in(options.precision);
  training.optimizer = optimizer_in(options.optimizer);
  training.offload = offload_in(options.offload);
  training.cp_scheme = context_scheme_in(options.cp_scheme);
  training.cp_balanced = options.cp_balanced;
  set_experts(options, training);
  training.framework_version = options.framework_version;
  training.sequence_parallel = options.sequence_parallel;
  training.flash_attention = options.flash;
  training.compile = options.compile;
  training.cuda_graph = options.cuda_graph;
  training.fused_cross_entropy = options.fused_cross_entropy;
  training.tp_overlap = options.tp_overlap;
  training.dp_overlap = options.dp_overlap;
  training.gradient_overlap = options.gradient_overlap;
  training.gather_overlap = options.gather_overlap;
  training.settings = options.settings;
  return training;
}

sim::Run resolved(hwdb::RunRecord record, const sim::Transformer& model, const Notes& notes, const hwdb::Database& database) {
  record.id = model.name;
  record.model = hwdb::recorded(model);
  sim::Run run = hwdb::RunResolver(database).resolve(record);
  if (run.cluster.system_accelerator) {
    throw Error("--hardware = " + run.cluster.device.id + ": system " + run.cluster.id + " has " +
                *run.cluster.system_accelerator + "; leave out --hardware or --system");
  }
  run.facts.insert(run.facts.begin(), notes.begin(), notes.end());
  return run;
}

hwdb::RecordedRecompute recorded(const sim::Recompute& r) {
  hwdb::RecordedRecompute recorded{.kind = sim::name_of(r.kind), .every_n = r.every_n, .share = r.share};
  if (r.first_blocks > 0) recorded.blocks = r.first_blocks;
  if (r.kind == sim::RecomputeKind::Selective) recorded.modules = split(sim::text_of(r.modules), '+');
  if (r.kind == sim::RecomputeKind::Op) recorded.saved = sim::name_of(r.kept);
  return recorded;
}

// In the order of the stages, each as often as it stands there.
std::vector<int> layers_in(const std::string& text) {
  std::vector<int> layers;
  for (const std::string& part : split(text)) layers.push_back(static_cast<int>(number_in("--stage-layers", part, kStageLayers)));
  return layers;
}

std::string date_in(const std::string& text) {
  const bool right =
      text.size() == 10 && text[4] == '-' && text[7] == '-' && text.find_first_not_of("0123456789-") == std::string::npos;
  if (!right) refuse("--date", text, "a day as YYYY-MM-DD");
  return text;
}

void set_layout(const RunOptions& options, hwdb::RecordedTraining& training) {
  training.virtual_stages = optional_number("--virtual-stages", options.virtual_stages, kVirtualStages);
  if (options.schedule) training.pipeline_schedule = sim::name_of(schedule_in(*options.schedule));
  training.embeddings_as_layers = options.embeddings_as_layers;
  if (options.stage_layers) training.stage_layers = layers_in(*options.stage_layers);
  if (options.recompute) training.recompute = recorded(recompute_in(*options.recompute));
  if (options.sharding) training.sharding = sim::name_of(sharding_in(*options.sharding));
  training.shard_size = optional_number("--shard-size", options.shard_size, kRanks);
  if (options.shard_size && training.sharding.value_or("none") == "none")
    refuse("--shard-size", *options.shard_size, "--sharding zero1, zero2, zero3 or hsdp beside it");
  if (!options.shard_size && training.sharding == "hsdp") {
    throw Error("--sharding = hsdp: --shard-size is missing, the ranks of a shard group (8 for nodes of eight)");
  }
}

// Facts about what a plan searches: they would name the values of one layout.
void drop_searched(Notes& facts) {
  constexpr std::array<std::string_view, 8> kSearched{"assumed.training.dp",
                                                      "assumed.training.sharding",
                                                      "assumed.training.pipeline_schedule",
                                                      "assumed.training.micro_batch",
                                                      "assumed.training.num_microbatches",
                                                      "assumed.training.recompute.kind",
                                                      "assumed.training.sequence_parallel",
                                                      "assumed.training.embeddings_as_layers"};
  std::erase_if(facts,
                [&](const sim::Fact& f) { return std::find(kSearched.begin(), kSearched.end(), f.key) != kSearched.end(); });
}

void check_products(const sim::PlanQuery& query) {
  const auto largest = [](const std::vector<int>& values) { return values.empty() ? std::int64_t{1} : values.back(); };
  const double product = static_cast<double>(largest(query.tensor_parallel)) *
                         static_cast<double>(largest(query.pipeline_parallel)) *
                         static_cast<double>(largest(query.context_parallel)) * static_cast<double>(largest(query.data_parallel));
  if (product > std::numeric_limits<int>::max()) {
    throw Error(
        "--tp * --pp * --dp * --cp: the largest values together are more than 2147483647 devices; smaller lists are expected");
  }
}

// The recorded mesh and batch: as asked where they multiply; otherwise plain data parallelism, so that the rest can be resolved.
void record_mesh(const Layout& layout, hwdb::RecordedTraining& training, int devices) {
  training.ep = layout.mesh.ep;
  if (!layout.multiplies(devices)) {
    training.dp = training.global_batch = devices;
    return;
  }
  training.tp = static_cast<int>(layout.mesh.tp);
  training.pp = static_cast<int>(layout.mesh.pp);
  training.cp = static_cast<int>(layout.mesh.cp);
  if (layout.mesh.dp) training.dp = static_cast<int>(layout.dp);
  training.micro_batch = layout.micro_batch;
  training.global_batch = layout.global_batch;
}

void set_mesh(const Layout& layout, sim::Strategy& strategy) {
  strategy.tensor_parallel = static_cast<int>(layout.mesh.tp);
  strategy.pipeline_parallel = static_cast<int>(layout.mesh.pp);
  strategy.context_parallel = static_cast<int>(layout.mesh.cp);
  strategy.data_parallel = static_cast<int>(layout.dp);
  if (layout.micro_batch) strategy.micro_batch = *layout.micro_batch;
  strategy.global_batch = layout.global_batch;
}

void set_search(const RunOptions& options, sim::PlanQuery& query) {
  query.tensor_parallel = optional_numbers("--tp", options.tp, kTensor);
  query.pipeline_parallel = optional_numbers("--pp", options.pp, kStages);
  query.data_parallel = optional_numbers("--dp", options.dp, kRanks);
  query.context_parallel = optional_numbers("--cp", options.cp, kTensor);
  query.expert_parallel = optional_numbers("--ep", options.ep, kTensor);
  query.micro_batch = optional_numbers("--micro-batch", options.micro_batch, kMicroBatch);
  query.virtual_stages = optional_numbers("--virtual-stages", options.virtual_stages, kVirtualStages);
  for (const std::string& part : split(options.schedule.value_or(""))) query.schedule.push_back(schedule_in(part));
  for (const std::string& part : split(options.sharding.value_or(""))) query.sharding.push_back(sharding_in(part));
  for (const std::string& part : split(options.recompute.value_or(""))) query.recompute.push_back(recompute_in(part));
  check_products(query);
}

}  // namespace

sim::Run run_of(const RunOptions& options, const hwdb::Database& database) {
  Notes notes;
  const sim::Transformer model = model_of(options, notes);
  Layout layout{.mesh = mesh_of(options)};
  const int devices = devices_of(options, layout.mesh, notes);
  layout.dp = layout.mesh.dp.value_or(std::max<std::int64_t>(1, devices / layout.mesh.model_ranks()));
  layout.micro_batch = optional_number("--micro-batch", options.micro_batch, kMicroBatch);
  layout.global_batch = global_batch_of(options, model.seq_len, devices, layout.replica_batch(), true, notes);
  hwdb::RunRecord record;
  if (options.date) record.date = date_in(*options.date);
  record.hardware = hardware_of(options, devices, database, notes);
  record.training = recipe_of(options, record.hardware, database, notes);
  set_layout(options, record.training);
  record_mesh(layout, record.training, devices);
  sim::Run run = resolved(std::move(record), model, notes, database);
  set_mesh(layout, run.strategy);
  return run;
}

sim::PlanQuery query_of(const RunOptions& options, const hwdb::Database& database) {
  Notes notes;
  const sim::Transformer model = model_of(options, notes);
  const int devices = static_cast<int>(number_in("--gpus", options.gpus.value_or(""), kDevices));
  hwdb::RunRecord record;
  if (options.date) record.date = date_in(*options.date);
  record.hardware = hardware_of(options, devices, database, notes);
  record.training = recipe_of(options, record.hardware, database, notes);
  record.training.dp = devices;  // any mesh: the search replaces it
  record.training.global_batch = record.training.shard_size = devices;
  const int global_batch = global_batch_of(options, model.seq_len, devices, devices, false, notes);
  sim::PlanQuery query;
  for (const auto sharding :
       {sim::Sharding::None, sim::Sharding::Zero1, sim::Sharding::Zero2, sim::Sharding::Zero3, sim::Sharding::Hsdp}) {
    record.training.sharding = sim::name_of(sharding);
    sim::Run run = resolved(record, model, notes, database);
    drop_searched(run.facts);
    run.strategy.global_batch = global_batch;
    query.under.emplace(sharding, std::move(run));
  }
  query.base = query.under.at(sim::Sharding::None);
  set_search(options, query);
  return query;
}

}  // namespace llmsim::cli
