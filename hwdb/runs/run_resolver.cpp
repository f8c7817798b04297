#include "hwdb/runs/run_resolver.h"

#include <cstdint>
#include <utility>

#include "hwdb/runs/recorded_model.h"
#include "sim/base/error.h"
#include "sim/strategy/mesh.h"
#include "sim/strategy/validity.h"

namespace llmsim::hwdb {
namespace {

using sim::Run;

// --- strategy ---

std::string mesh_product_text(const sim::Strategy& s) {
  return "dp * tp * pp * cp = " + std::to_string(s.dp) + " * " + std::to_string(s.tp) + " * " +
         std::to_string(s.pp) + " * " + std::to_string(s.cp);
}

// What is stated of a field, as the record's strategy has it.
template <class T>
std::optional<T> stated(const RecordedTraining& t, const char* key) {
  return sim::stated<T>(t.strategy, key);
}

void set_mesh(const RecordedTraining& t, int num_devices, sim::Strategy& s, Assumptions& assume) {
  const std::int64_t inner = std::int64_t{s.tp} * s.pp;
  const std::int64_t model_ranks = inner > num_devices ? inner : inner * s.cp;
  const bool divides = model_ranks <= num_devices && num_devices % model_ranks == 0;
  const int dp = divides ? static_cast<int>(num_devices / model_ranks) : 0;
  s.dp = stated<int>(t, "dp").value_or(dp);
  if (divides && s.dp == dp) {
    if (!t.strategy.contains("dp"))
      assume.note("training.dp", std::to_string(dp), "num_devices / (tp * pp * cp)");
    return;
  }
  assume.refuse("training: " + mesh_product_text(s) + " is not num_devices = " +
                std::to_string(num_devices) + sim::mesh_advice(s, num_devices));
}

void set_batch(const RecordedTraining& t, sim::Strategy& s, Assumptions& assume) {
  const std::optional<int> global_batch = stated<int>(t, "global_batch"),
                           micro_batch = stated<int>(t, "micro_batch");
  if (!global_batch && !micro_batch)
    assume.refuse("training.global_batch is missing, and training.micro_batch too");
  const std::int64_t dp = s.dp;
  std::int64_t micro = micro_batch.value_or(1), steps = t.num_microbatches.value_or(1);
  if (global_batch && t.num_microbatches && !micro_batch) micro = *global_batch / (dp * steps);
  if (global_batch && !t.num_microbatches) steps = *global_batch / (dp * micro);
  const std::int64_t global = global_batch ? *global_batch : dp * micro * steps;
  if (!micro_batch && !t.num_microbatches) assume.note("training.micro_batch", "1", "the smallest");
  if (!global_batch && !t.num_microbatches)
    assume.note("training.num_microbatches", "1", "one forward pass per step");
  if (micro < 1 || steps < 1 || global != dp * micro * steps || global > 1'000'000'000) {
    assume.refuse("training.global_batch = " + std::to_string(global) +
                  " is not dp * micro_batch * num_microbatches = " + std::to_string(dp) + " * " +
                  std::to_string(micro) + " * " + std::to_string(steps));
  }
  s.micro_batch = static_cast<int>(micro);
  s.global_batch = static_cast<int>(global);
}

// A schedule and virtual stages that contradict each other are refused by the rules of the strategy
// (validity.h).
void set_schedule(const RecordedTraining& t, sim::Strategy& s, Assumptions& assume) {
  const bool asked = t.strategy.contains("pipeline_schedule");
  if (asked && is_v_shaped(s.pipeline_schedule) && !t.strategy.contains("virtual_stages"))
    s.virtual_stages = 2;
  if (asked) return;
  s.pipeline_schedule = s.virtual_stages > 1 ? sim::PipelineSchedule::Interleaved
                                             : sim::PipelineSchedule::OneForwardOneBackward;
  if (s.pp > 1)
    assume.note("training.pipeline_schedule", name_of(s.pipeline_schedule),
                "usual for this number of virtual stages");
}

// Megatron's "account for embedding and loss in the pipeline split": 126 layers in 128 chunks.
void set_layer_split(const RecordedTraining& t, int num_layers, sim::Strategy& s,
                     Assumptions& assume) {
  if (t.strategy.contains("embeddings_as_layers") || !s.stage_layers.empty()) return;
  const std::int64_t chunks = std::int64_t{s.pp} * s.virtual_stages;
  if (chunks == 1 || num_layers % chunks == 0 || (std::int64_t{num_layers} + 2) % chunks != 0)
    return;
  s.embeddings_as_layers = true;
  assume.note("training.embeddings_as_layers", "true",
              std::to_string(num_layers) + " layers do not divide into " + std::to_string(chunks) +
                  " chunks; with the embedding and the head they do");
}

void set_shards(const RecordedTraining& t, int node, sim::Strategy& s, Assumptions& assume) {
  const std::optional<int> asked = stated<int>(t, "shard_size");
  s.shard_size = 0;
  const bool hsdp = s.sharding == sim::Sharding::Hsdp;
  if (s.sharding == sim::Sharding::None || (!hsdp && !asked && !t.replicate_size)) return;
  const int ranks = s.dp * s.cp;
  if (!asked && t.replicate_size && ranks % *t.replicate_size == 0)
    s.shard_size = ranks / *t.replicate_size;
  else
    s.shard_size = assume.given(asked, "training.shard_size", std::gcd(ranks, node),
                                "the data ranks of a node, as HYBRID_SHARD takes them");
  if (ranks % s.shard_size != 0 ||
      ranks / s.shard_size != t.replicate_size.value_or(ranks / s.shard_size)) {
    assume.refuse("training.shard_size = " + std::to_string(s.shard_size) +
                  " times replicate_size must be dp * cp = " + std::to_string(ranks));
  }
}

void check_memory_savers(const sim::Recompute& recompute, const sim::Offload& offload,
                         Assumptions& assume) {
  if (recompute.share > recompute.every_n)
    assume.refuse("training.recompute.share = " + std::to_string(recompute.share) +
                  " is more than every_n = " + std::to_string(recompute.every_n));
  if (!offload.activations && (offload.modules.any() || offload.blocks > 0))
    assume.refuse("training.offload.modules and blocks need training.offload.activations = true");
}

// Of which a search finds out what is best.
bool is_chosen_later(std::string_view key) {
  return key == "sequence_parallel" || key == "tp_overlap";
}

// Fields of which the framework has a default.  Between tensor ranks that do not exist nothing is
// sharded or overlapped; of context ranks that do not exist nothing is told.  A search, which has
// yet to choose them, overlaps as the framework does, and shards where that is stated.
void set_defaults(const RecordedTraining& t, sim::Strategy usual, bool laid_out, sim::Strategy& s,
                  Assumptions& assume) {
  if (s.tp == 1) {
    usual.sequence_parallel = false;
    usual.tp_overlap = usual.tp_overlap && !laid_out;
  }
  const sim::Strategy asked = s;
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    if (!field.of_framework || t.strategy.contains(field.key)) continue;
    const sim::FieldValue value = *field.get(usual);
    field.put(s, value);
    if (is_stated(field, asked) && (laid_out || !is_chosen_later(field.key)))
      assume.note(("training." + field.key).c_str(), sim::text_of(value),
                  "default of the framework for such a run");
  }
  s.sequence_parallel = s.sequence_parallel && (s.tp > 1 || !laid_out);
}

// Ranks of an all-to-all inside a ring, where nobody says.
void set_inner_contexts(const Run& run, sim::Strategy& s, Assumptions& assume) {
  if (s.cp == 1 || s.cp_scheme != sim::ContextScheme::AllToAllRing || s.cp_inner) return;
  s.cp_inner = usual_context_inner(run.model, s, domain_size(run.cluster));
  assume.note("training.cp_inner", std::to_string(*s.cp_inner),
              "the most that divide the heads and share a fast domain");
}

// Low-rank adapters, as the record's model has them.
void set_adapters(const RecordedModel& m, const sim::Transformer& model, sim::Strategy& s,
                  Assumptions& assume) {
  if (!m.trainable || *m.trainable == "all") return;
  sim::Adapters adapters;
  adapters.rank = assume.given(m.lora_rank, "model.lora.rank", 8, "the usual rank");
  if (m.lora_targets.empty())
    assume.note("model.lora.targets", sim::joined(names_of(adapters.layers), ","),
                "queries and values, as in the paper on LoRA");
  else
    adapters.layers = {};
  for (const std::string& target : m.lora_targets) {
    const auto layers = sim::adapted_layers_from(target, model);
    if (!layers)
      assume.refuse("model.lora.targets = " + target + ": some of " +
                    sim::joined(names_of(all_adapted_layers(model)), ", ") + ", attention" +
                    (model.moe ? "" : ", mlp") + (is_hybrid(model) ? ", mixer" : "") +
                    " and all is expected");
    adapters.layers = adapters.layers | *layers;
  }
  s.adapters = adapters;
}

// Weights of 4 bits are storage: they are multiplied in 16, and no optimizer updates them.
void check_trained(const sim::Strategy& s, const Assumptions& assume) {
  const bool frozen = s.precision == sim::Precision::Nf4 || s.precision == sim::Precision::Int4;
  if (frozen && !s.adapters)
    assume.refuse("training.precision = " + std::string(name_of(s.precision)) +
                  ": weights of 4 bits are frozen, and without adapters nothing is trained; --lora "
                  "RANK, or model.lora of a run file, is expected");
}

// bf16, fp16 or fp32: the first in which the device multiplies.
std::string usual_precision(const sim::Device& device) {
  for (const auto& [name, dtype] :
       {std::pair{"bf16", sim::DType::Bf16}, std::pair{"fp16", sim::DType::Fp16}}) {
    if (device.matrix_peak[static_cast<std::size_t>(dtype)] > sim::FlopsPerSecond(0.0)) return name;
  }
  return "fp32";
}

// What is known of a run before its strategy: it decides how the framework behaves.
struct Recipe {
  std::string precision, sharding;
};

// What a search would choose.
void set_layout(const RecordedTraining& t, const Run& run, sim::Strategy& s, Assumptions& assume) {
  set_mesh(t, run.cluster.num_devices, s, assume);
  set_expert_ranks(t, s, assume);
  set_batch(t, s, assume);
  set_schedule(t, s, assume);
  set_layer_split(t, run.model.num_layers, s, assume);
  set_shards(t, run.cluster.devices_per_node, s, assume);
  const bool plain = run.framework.offers.plain_recompute;
  const std::string kind = assume.given(
      stated<std::string>(t, "recompute.kind"), "training.recompute.kind",
      std::string(plain ? "none" : "full"),
      plain ? "not recorded" : "not recorded, and the framework checkpoints each block");
  s.recompute.kind = *sim::named<sim::RecomputeKind>(kind);
}

sim::Strategy strategy_of(const RunRecord& record, const Run& run, const Recipe& recipe,
                          const FrameworkDefaults& defaults, bool laid_out, Assumptions& assume) {
  RecordedTraining t = record.training;
  t.strategy.insert({{"precision", recipe.precision}, {"sharding", recipe.sharding}});
  if (t.dp_overlap)
    t.strategy.insert({{"gradient_overlap", *t.dp_overlap}, {"gather_overlap", *t.dp_overlap}});
  sim::Strategy s;
  put(t.strategy, s);
  if (laid_out) set_layout(t, run, s, assume);
  check_memory_savers(s.recompute, s.offload, assume);
  set_defaults(t, defaults.strategy, laid_out, s, assume);
  if (laid_out) set_inner_contexts(run, s, assume);
  set_adapters(record.model, run.model, s, assume);
  check_trained(s, assume);
  assume.given(stated<std::string>(t, "optimizer"), "training.optimizer", std::string("adamw"),
               "the usual optimizer");
  return s;
}

// --- network ---

// How the collective library uses the network.  Nothing is noted where only the usual is assumed.
void set_collectives(const RecordedHardware& h, const FrameworkDefaults& defaults,
                     sim::Cluster& cluster, Assumptions& assume) {
  cluster.network.transport = sim::named<sim::Transport>(h.transport.value_or("rdma")).value();
  cluster.algorithm = h.collective_algorithm
                          ? sim::named<sim::CollectiveAlgorithm>(*h.collective_algorithm).value()
                          : defaults.collective_algorithm;
  if (!h.collective_algorithm && cluster.algorithm != sim::CollectiveAlgorithm::Auto)
    assume.note("hardware.collective_algorithm", name_of(cluster.algorithm),
                "what such a run of the framework sets");
}

// --- framework ---

// What most people use for such a layout.
std::string usual_framework(const RecordedTraining& t) {
  for (const char* ranks : {"tp", "pp", "cp"}) {
    if (stated<int>(t, ranks).value_or(1) > 1) return "megatron-lm";
  }
  const std::string sharding = stated<std::string>(t, "sharding").value_or("none");
  if (sharding == "zero3" || sharding == "hsdp") return "fsdp2";
  return sharding == "none" ? "ddp" : "deepspeed";
}

// One replica has nothing to shard.
bool is_alone(const RecordedTraining& t, int num_devices) {
  return std::int64_t{stated<int>(t, "tp").value_or(1)} * stated<int>(t, "pp").value_or(1) ==
         num_devices;
}

std::optional<int> tensor_ranks(const sim::Strategy& s, Assumptions& assume) {
  const std::int64_t inside = std::int64_t{s.dp} * s.cp;
  if (s.tp == 1 || inside % s.ep == 0 || inside * s.tp % s.ep != 0) return std::nullopt;
  assume.note("training.etp", "1",
              "ep = " + std::to_string(s.ep) + " does not divide dp * cp = " +
                  std::to_string(inside) + ", but tp times as much");
  return 1;
}

}  // namespace

RunResolver::RunResolver(const Database& database, Frameworks frameworks, std::optional<Site> site)
    : database_(&database), frameworks_(std::move(frameworks)), site_(std::move(site)) {
  for (const std::string& id : frameworks_.ids()) {
    for (const Coefficient& row : database.coefficients("framework", id)) frameworks_.put(row);
  }
}

const ClusterRecord& RunResolver::cluster_of(const RecordedHardware& h) {
  ClusterOverrides overrides{.accelerator = std::nullopt,
                             .devices_per_node = h.devices_per_node,
                             .inter_node_per_device = std::nullopt};
  if (h.system) overrides.accelerator = h.accelerator;
  if (h.inter_node_bytes_per_s_per_device)
    overrides.inter_node_per_device = sim::BytesPerSecond(*h.inter_node_bytes_per_s_per_device);
  const std::string& name = h.system ? *h.system : *h.accelerator;
  const std::string key = name + "\n" + overrides.accelerator.value_or("") + "\n" +
                          std::to_string(*h.num_devices) + "\n" +
                          std::to_string(h.devices_per_node.value_or(0)) + "\n" +
                          std::to_string(h.inter_node_bytes_per_s_per_device.value_or(0.0));
  const auto found = clusters_.find(key);
  if (found != clusters_.end()) return found->second;
  return clusters_.emplace(key, cluster(*database_, name, *h.num_devices, overrides)).first->second;
}

const sim::Device& RunResolver::device_of(const RecordedHardware& h) {
  const std::string& name = h.accelerator ? *h.accelerator : *h.system;
  const auto found = devices_.find(name);
  if (found != devices_.end()) return found->second;
  return devices_
      .emplace(name, h.accelerator ? device(*database_, name).device
                                   : cluster(*database_, name, 1).cluster.device)
      .first->second;
}

// The order matters: the framework's rules ask for the number format, the model and the sharding,
// so these are filled first.
void RunResolver::resolve_parts(const RunRecord& record, bool laid_out, Run& run,
                                Assumptions& assume) {
  const RecordedTraining& t = record.training;
  const ClusterRecord& known = cluster_of(record.hardware);
  run.cluster = known.cluster;
  run.date = record.date.value_or("");
  run.framework_version = t.framework_version.value_or("");
  run.settings = t.settings;
  Recipe recipe{.precision = assume.given(stated<std::string>(t, "precision"), "training.precision",
                                          usual_precision(run.cluster.device),
                                          "the usual 16-bit format of the device"),
                .sharding = {}};
  FrameworkQuery query{.framework = assume.given(t.framework, "training.framework",
                                                 usual_framework(t), "usual for such a layout"),
                       .date = run.date,
                       .version = run.framework_version,
                       .precision = recipe.precision,
                       .architecture = run.cluster.device.architecture,
                       .position = {},
                       .blocks = {},
                       .sharding = {},
                       .trainable = record.model.trainable.value_or("all"),
                       .settings = run.settings};
  const FrameworkDefaults before = frameworks_.choose(query).defaults;
  run.model = model_of(record, before, assume);
  query.position = name_of(run.model.position);
  query.blocks = run.model.encoder ? "encoder" : run.model.moe ? "moe" : "dense";
  const std::string usual =
      is_alone(t, run.cluster.num_devices) ? "none" : name_of(before.strategy.sharding);
  recipe.sharding = assume.given(stated<std::string>(t, "sharding"), "training.sharding", usual,
                                 "default of the framework");
  const bool gathers_once =
      before.zero2_shards_weights && recipe.sharding == name_of(sim::Sharding::Zero2);
  if (gathers_once) {
    recipe.sharding = name_of(sim::Sharding::Zero3);
    query.settings.try_emplace("reshard_after_forward", false);
  }
  query.sharding = recipe.sharding;
  if (before.auto_buckets && !query.settings.contains("reduce_bucket_size"))
    query.settings["reduce_bucket_size"] =
        static_cast<double>(run.model.hidden_size) * run.model.hidden_size;
  FrameworkChoice choice = frameworks_.choose(query);
  run.framework = std::move(choice.framework);
  run.optimizer_step = choice.defaults.optimizer_step;
  set_collectives(record.hardware, choice.defaults, run.cluster, assume);
  run.strategy = strategy_of(record, run, recipe, choice.defaults, laid_out, assume);
  if (gathers_once) run.strategy.sharding = sim::Sharding::Zero3;
  run.model.validate();
  run.facts.insert(run.facts.end(), choice.facts.begin(), choice.facts.end());
  run.facts.insert(run.facts.end(), known.facts.begin(), known.facts.end());
  if (site_) apply_without_layout(*site_, frameworks_, run);
  if (site_ && laid_out) apply_layout(*site_, frameworks_, run);
}

std::function<void(Run&)> RunResolver::site_layouts() const {
  if (!site_ || site_->layouts.points.empty()) return {};
  return
      [site = *site_, frameworks = frameworks_](Run& run) { apply_layout(site, frameworks, run); };
}

Run RunResolver::resolve(const RunRecord& record) { return resolve(record, true); }

Run RunResolver::resolve_without_layout(const RunRecord& record) { return resolve(record, false); }

Run RunResolver::resolve(const RunRecord& record, bool laid_out) {
  Run run;
  run.id = record.id;
  run.group = record.group;
  Assumptions assume(record, run);
  if (!record.hardware.accelerator && !record.hardware.system)
    assume.refuse("hardware.accelerator is missing");
  assume.required(record.hardware.num_devices, "hardware.num_devices");
  try {
    resolve_parts(record, laid_out, run, assume);
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.find("run " + record.id + ": ") != std::string::npos) throw;
    assume.refuse(what);
  }
  return run;
}

void set_expert_ranks(const RecordedTraining& training, sim::Strategy& strategy,
                      Assumptions& assume) {
  std::optional<int>& ranks = strategy.etp;
  if (!training.strategy.contains("etp")) ranks = tensor_ranks(strategy, assume);
  if (ranks == strategy.tp) ranks.reset();
}

}  // namespace llmsim::hwdb
