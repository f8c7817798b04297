#include "cli/run_request.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <utility>
#include <vector>

#include "cli/number_list.h"
#include "cli/strategy_options.h"
#include "hwdb/frameworks/frameworks.h"
#include "hwdb/hardware/hardware.h"
#include "hwdb/huggingface/huggingface.h"
#include "hwdb/launch/launch_file.h"
#include "hwdb/runs/plan_query.h"
#include "hwdb/text/date.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"
#include "sim/model/tower.h"

namespace llmsim::cli {
namespace {

using Text = std::optional<std::string>;

constexpr NumberRange kDevices{1, 1 << 20};
constexpr NumberRange kRank{1, 1 << 16};
constexpr NumberRange kSequence{1, 1 << 24};
constexpr NumberRange kBatch{1, 1 << 20};  // as validity.h
constexpr NumberRange kBatchTokens{1, std::int64_t{1} << 36};
constexpr double kGB = 1e9;
constexpr std::int64_t kDefaultBatchTokens = std::int64_t{4} << 20;
constexpr std::int64_t kDefaultTokensPerDevice = 1024;

// Default values with their reasons, for the provenance.
using Notes = std::vector<sim::Fact>;

void note(Notes& notes, const std::string& key, const std::string& value,
          const std::string& reason) {
  notes.push_back({"assumed." + key, value, sim::Evidence::Assumed, reason});
}

std::optional<int> optional_number(const char* option, const Text& text, NumberRange range) {
  if (!text) return std::nullopt;
  return static_cast<int>(number_in(option, *text, range));
}

// --- names ---

template <class Enum>
Text name_in(const char* option, const Text& text) {
  if (text && !sim::named<Enum>(*text))
    refuse(option, *text, sim::alternatives(sim::all_names<Enum>()));
  return text;
}

// --- model ---

// What is asked of a tower of the model, by options.
struct TowerOptions {
  const char* name;  // of the tower, an object of the model
  const char *tokens_option, *freeze_option, *what;
  Text RunOptions::*tokens;
  bool RunOptions::*freeze;
};
constexpr TowerOptions kTowers[] = {{"vision", "--image-tokens", "--freeze-vision", "image",
                                     &RunOptions::image_tokens, &RunOptions::freeze_vision},
                                    {"audio", "--audio-tokens", "--freeze-audio", "audio",
                                     &RunOptions::audio_tokens, &RunOptions::freeze_audio}};

// put(key, value) of fields of the model that the options state; `has(tower)`: whether it has one.
template <class Has, class Put>
void put_towers(const RunOptions& options, const std::string& model, const Has& has,
                const Put& put) {
  for (const TowerOptions& tower : kTowers) {
    const Text& tokens = options.*tower.tokens;
    const bool freezes = options.*tower.freeze;
    if (!tokens && !freezes) continue;
    if (!has(tower.name))
      throw Error((tokens ? tower.tokens_option + (" " + *tokens) : tower.freeze_option) + ": " +
                  model + " has no " + tower.what +
                  " tower that is known; the config.json of a model with one is expected "
                  "(--model FILE)");
    const std::string prefix = std::string(tower.name) + ".";
    if (const auto number = optional_number(tower.tokens_option, tokens, kSequence))
      put(prefix + "tokens", std::int64_t{*number});
    if (freezes) put(prefix + "frozen", true);
  }
}

sim::NamedModel model_of(const RunOptions& options, Notes& notes) {
  sim::NamedModel named = model_named("--model", options.model);
  sim::Transformer& model = named.model;
  if (const auto seq_len = optional_number("--seq-len", options.seq_len, kSequence))
    model.seq_len = *seq_len;
  else
    note(notes, "model.seq_len", std::to_string(model.seq_len), "training length of the model");
  if (const auto length = optional_number("--document-len", options.document_len, kSequence))
    model.document_len = *length;
  put_towers(
      options, model.name,
      [&](const char* tower) { return sim::states_object(sim::fields_of(model), tower); },
      [&](const std::string& key, const sim::FieldValue& value) {
        sim::put_field(*sim::find_field(sim::transformer_fields(), key), model, value);
      });
  return named;
}

// --- hardware ---

hwdb::RecordedHardware hardware_of(const RunOptions& options, int num_devices,
                                   hwdb::RunResolver& resolver, Notes& notes) {
  hwdb::RecordedHardware hardware;
  hardware.num_devices = num_devices;
  hardware.system = options.system;
  hardware.transport = name_in<sim::Transport>("--transport", options.transport);
  hardware.collective_algorithm =
      name_in<sim::CollectiveAlgorithm>("--collective-algorithm", options.algorithm);
  if (options.gpus_per_node) hardware.devices_per_node = std::stoi(*options.gpus_per_node);
  if (options.inter_node_bandwidth)
    hardware.inter_node_bytes_per_s_per_device = kGB * std::stod(*options.inter_node_bandwidth);
  if (options.hardware) {
    hardware.accelerator = options.hardware;
    hardware.accelerator = resolver.device_of(hardware).id;
  }
  if (!options.hardware && !options.system) {
    hardware.accelerator = "h100_sxm";
    hardware.system = "dgx_h100";
    note(notes, "hardware.accelerator", "h100_sxm", "default of --hardware");
    note(notes, "hardware.system", "dgx_h100", "default of --system");
  }
  return hardware;
}

// --- batch ---

// 4 Mi tokens, or 1,024 for each device where that is more (Llama 3 405B: 16 Mi on 16,384), in
// sequences, rounded to a multiple of `divisor`, which is halved while it is more than that.
std::int64_t default_batch(int seq_len, int devices, std::int64_t divisor) {
  const std::int64_t tokens = std::max(kDefaultBatchTokens, kDefaultTokensPerDevice * devices);
  const std::int64_t sequences =
      std::clamp<std::int64_t>(tokens / seq_len, 1, kBatch.most / 2);  // whose multiple is one too
  while (divisor > sequences && divisor % 2 == 0) divisor /= 2;
  return std::max<std::int64_t>(1, (sequences + divisor / 2) / divisor) * divisor;
}

int global_batch_of(const RunOptions& options, int seq_len, int devices, std::int64_t divisor,
                    bool divisor_is_a_must, Notes& notes) {
  if (options.global_batch && options.global_batch_tokens) {
    throw Error("--global-batch and --global-batch-tokens say the same thing: give one of them");
  }
  if (options.global_batch)
    return static_cast<int>(number_in("--global-batch", *options.global_batch, kBatch));
  std::int64_t batch = default_batch(seq_len, devices, divisor);
  if (divisor_is_a_must)
    batch = std::max<std::int64_t>(1, (batch + divisor / 2) / divisor) * divisor;
  std::string reason = devices > kDefaultBatchTokens / kDefaultTokensPerDevice
                           ? "1,024 tokens a device, as sequences that the devices divide"
                           : "4 Mi tokens, as sequences that the devices divide";
  if (options.global_batch_tokens) {
    const std::int64_t tokens =
        number_in("--global-batch-tokens", *options.global_batch_tokens, kBatchTokens);
    batch = std::max<std::int64_t>(1, (tokens + seq_len / 2) / seq_len);
    reason = std::to_string(tokens) + " tokens in sequences of " + std::to_string(seq_len);
    if (tokens == batch * seq_len) reason += ", exactly";
  }
  if (batch > kBatch.most)
    refuse("--global-batch", std::to_string(batch),
           "at most " + std::to_string(kBatch.most) + " sequences");
  note(notes, "training.global_batch", std::to_string(batch), reason);
  return static_cast<int>(batch);
}

// --- mesh ---

struct Mesh {
  std::int64_t tp = 1, pp = 1, cp = 1;
  std::optional<std::int64_t> dp{};

  std::int64_t model_ranks() const { return tp * pp * cp; }
  std::int64_t product() const { return dp.value_or(1) * model_ranks(); }
};

Mesh mesh_of(const sim::PartialStrategy& strategy) {
  const auto ranks = [&](const char* key) { return sim::stated<int>(strategy, key); };
  Mesh mesh{.tp = ranks("tp").value_or(1),
            .pp = ranks("pp").value_or(1),
            .cp = ranks("cp").value_or(1),
            .dp = ranks("dp")};
  const auto fits = [](std::int64_t product) { return product <= kDevices.most; };
  if (!fits(mesh.model_ranks()) || !fits(mesh.product())) {
    refuse("--dp * --tp * --pp * --cp",
           std::to_string(mesh.dp.value_or(1)) + " * " + std::to_string(mesh.tp) + " * " +
               std::to_string(mesh.pp) + " * " + std::to_string(mesh.cp),
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
  bool multiplies(int devices) const {
    return dp * mesh.model_ranks() == devices && global_batch % replica_batch() == 0;
  }
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

std::string framework_in(const Text& text, const hwdb::RecordedHardware& hardware,
                         hwdb::RunResolver& resolver, Notes& notes) {
  if (!text) {
    const sim::Device& device = resolver.device_of(hardware);
    const char* const framework = usual_framework(device);
    note(notes, "training.framework", framework,
         "default of --framework for devices of " + device.vendor);
    return framework;
  }
  const std::vector<std::string> known = hwdb::Frameworks::shipped().ids();
  if (std::ranges::find(known, *text) != known.end()) return *text;
  const std::string near = hwdb::did_you_mean(*text, known);
  throw Error("--framework = " + *text + ": unknown training framework" +
              (near.empty() ? "; known are " + sim::joined(known, ", ") : near));
}

// What the options state beside the strategy's own fields.
hwdb::RecordedTraining training_of(const RunOptions& options, sim::PartialStrategy strategy,
                                   const hwdb::RecordedHardware& hardware,
                                   hwdb::RunResolver& resolver, Notes& notes) {
  hwdb::RecordedTraining training;
  training.framework = framework_in(options.framework, hardware, resolver, notes);
  training.framework_version = options.framework_version;
  training.strategy = std::move(strategy);
  for (const std::string& part : split(options.offload.value_or("")))
    add_offload(part, *options.offload, training.strategy);
  training.dp_overlap = options.dp_overlap;
  training.settings = options.settings;
  return training;
}

// Adapters in place of all weights, where they are asked for.
void put_adapters(const RunOptions& options, hwdb::RecordedModel& model) {
  const auto rank = optional_number("--lora", options.lora, kRank);
  if (!rank) return;
  model.trainable = "lora";
  model.lora_rank = rank;
  model.lora_targets = split(options.lora_targets.value_or(""));
}

void put_model(const RunOptions& options, const sim::Transformer& model, hwdb::RunRecord& record) {
  record.id = model.name;
  record.model = hwdb::recorded(model);
  put_adapters(options, record.model);
}

// What of the model's file is not counted.
void add_warnings(const sim::NamedModel& model, sim::Run& run) {
  std::vector<std::string> counted;
  for_each_running_tower(run.model, [&](const char* tower, const sim::Tower&) {
    counted.push_back(tower + std::string("_config is counted"));
  });
  for (const std::string& note : model.notes) {
    const bool is = std::ranges::any_of(
        counted, [&](const std::string& start) { return note.starts_with(start); });
    if (!is) run.warnings.push_back(model.source + ": " + note);
  }
}

// A resolved run with the values that nobody gave.
void add_notes(const Notes& notes, sim::Run& run) {
  if (run.cluster.system_accelerator) {
    throw Error("--hardware = " + run.cluster.device.id + ": system " + run.cluster.id + " has " +
                *run.cluster.system_accelerator + "; leave out --hardware or --system");
  }
  run.facts.insert(run.facts.begin(), notes.begin(), notes.end());
}

std::string date_in(const std::string& text) {
  if (!hwdb::is_date(text)) refuse("--date", text, "a day as YYYY-MM-DD");
  return text;
}

// The recorded mesh and batch: as asked where they multiply; otherwise plain data parallelism, so
// that the rest can be resolved.
void record_mesh(const Layout& layout, sim::PartialStrategy& strategy, int devices) {
  strategy["global_batch"] = std::int64_t{layout.global_batch};
  if (layout.multiplies(devices)) return;
  for (const char* ranks : {"tp", "pp", "cp", "micro_batch"}) strategy.erase(ranks);
  strategy["dp"] = strategy["global_batch"] = std::int64_t{devices};
}

void set_mesh(const Layout& layout, sim::Strategy& strategy) {
  strategy.tp = static_cast<int>(layout.mesh.tp);
  strategy.pp = static_cast<int>(layout.mesh.pp);
  strategy.cp = static_cast<int>(layout.mesh.cp);
  strategy.dp = static_cast<int>(layout.dp);
  if (layout.micro_batch) strategy.micro_batch = *layout.micro_batch;
  strategy.global_batch = layout.global_batch;
}

// What options state beside a run file.
void put_over(const RunOptions& options, hwdb::RecordedTraining& training) {
  sim::PartialStrategy stated =
      strategy_in(options, [](const std::string&, const std::string&) { return false; });
  for (const std::string& part : split(options.offload.value_or("")))
    add_offload(part, *options.offload, stated);
  if (options.recompute) {
    std::erase_if(training.strategy,
                  [](const auto& field) { return field.first.starts_with("recompute."); });
    set_recompute(recompute_in(*options.recompute), stated);
  }
  if (stated.contains("sharding")) training.strategy.erase("shard_size");
  // What follows from a size that an option changes; all else the file says stays.
  const auto changes = [&](std::initializer_list<const char*> keys) {
    return std::ranges::any_of(keys, [&](const char* key) { return stated.contains(key); });
  };
  if (changes({"dp", "tp", "pp", "cp", "sharding", "shard_size"}))
    training.replicate_size = std::nullopt;
  const bool batch = training.strategy.contains("global_batch") || stated.contains("global_batch");
  if (batch && changes({"dp", "tp", "pp", "cp", "micro_batch", "global_batch"}))
    training.num_microbatches = std::nullopt;
  for (const auto& [key, value] : stated) training.strategy[key] = value;
}

// --- launch files ---

// What options state beside a launch file, and the model where the file leaves it open.
// `model`: of --model, where it is given.
void put_over_launch(const RunOptions& options, const std::optional<sim::NamedModel>& model,
                     hwdb::RunRecord& record) {
  put_over(options, record.training);
  for (const auto& [key, value] : options.settings) record.training.settings[key] = value;
  if (options.dp_overlap) {
    record.training.dp_overlap = options.dp_overlap;
    for (const char* part : {"gradient_overlap", "gather_overlap"})
      if (!options.strategy.contains(part)) record.training.strategy.erase(part);
  }
  if (options.framework) record.training.framework = options.framework;
  if (options.framework_version) record.training.framework_version = options.framework_version;
  if (options.date) record.date = date_in(*options.date);
  if (model) {
    const hwdb::RecordedModel stated = record.model;
    record.model = hwdb::recorded(model->model);
    for (const auto& [key, value] : stated.fields) record.model.fields[key] = value;
    record.model.trainable = stated.trainable, record.model.lora_rank = stated.lora_rank;
    record.model.lora_targets = stated.lora_targets;
  }
  put_adapters(options, record.model);
  if (const auto seq_len = optional_number("--seq-len", options.seq_len, kSequence))
    record.model.fields["seq_len"] = std::int64_t{*seq_len};
  if (const auto length = optional_number("--document-len", options.document_len, kSequence))
    record.model.fields["document_len"] = std::int64_t{*length};
  put_towers(
      options, record.model.name.value_or("the model"),
      [&](const char* tower) { return sim::states_object(record.model.fields, tower); },
      [&](const std::string& key, const sim::FieldValue& value) {
        record.model.fields[key] = value;
      });
}

// A batch in tokens is of sequences of the file, or of --seq-len.
void put_batch_over_launch(const RunOptions& options, hwdb::RunRecord& record, Notes& notes) {
  if (!options.global_batch && !options.global_batch_tokens) return;
  const auto seq_len = sim::stated<int>(record.model.fields, "seq_len");
  if (!options.global_batch && !seq_len)
    throw Error("--global-batch-tokens: " + options.launch_file +
                " does not say the sequence length; --seq-len is expected");
  record.training.strategy["global_batch"] =
      std::int64_t{global_batch_of(options, seq_len.value_or(1), 1, 1, false, notes)};
  record.training.num_microbatches = std::nullopt;
}

int launch_devices(const RunOptions& options, const hwdb::RunRecord& record) {
  if (const auto given = optional_number("--gpus", options.gpus, kDevices)) return *given;
  if (record.hardware.num_devices) return *record.hardware.num_devices;
  const Mesh mesh = mesh_of(record.training.strategy);
  if (!mesh.dp)
    throw Error("--gpus: " + options.launch_file + " does not say the number of devices");
  return static_cast<int>(mesh.product());
}

// What the fields say, apart from those that a run chooses.
sim::PartialTransformer shape_of(sim::PartialTransformer fields) {
  for (const char* of_run : {"seq_len", "max_positions"}) fields.erase(of_run);
  for (const sim::TransformerField& field : sim::transformer_fields())
    if (field.costless) fields.erase(field.key);
  return fields;
}

bool says_all_of(const sim::PartialTransformer& known, const sim::PartialTransformer& stated) {
  return std::ranges::all_of(stated, [&](const auto& field) {
    const auto found = known.find(field.first);
    return found != known.end() && sim::text_of(found->second) == sim::text_of(field.second);
  });
}

// A shape without a name is that of the catalogue, where one model has it: where several have what
// a file says of it, the file leaves the model open.
void name_model(hwdb::RunRecord& record) {
  if (record.model.name || record.model.fields.contains("vocab_size")) return;
  const sim::PartialTransformer stated = shape_of(record.model.fields);
  const sim::NamedModel* found = nullptr;
  for (const sim::NamedModel& entry : hwdb::catalogue()) {
    const sim::PartialTransformer known = shape_of(sim::fields_of(entry.model));
    if (!says_all_of(known, stated)) continue;
    if (found && !says_all_of(known, shape_of(sim::fields_of(found->model)))) return;
    if (!found) found = &entry;
  }
  if (found) record.model.name = found->model.name;
}

// What a program makes of its tokenizer, or leaves to another file, is no guess.
void require_sizes(const RunOptions& options, const hwdb::RecordedModel& m) {
  const std::string file = options.launch_file;
  const bool known = m.name && hwdb::find_model(*m.name);
  if (known && m.fields.contains("seq_len")) return;
  for (const std::string size : {"num_layers", "hidden_size", "num_heads", "vocab_size"}) {
    if (known || m.fields.contains(size)) continue;
    if (m.name)
      throw Error("--model: " + file + " trains " + *m.name +
                  ", which is no model of the catalogue" +
                  hwdb::did_you_mean(hwdb::nearest_models(*m.name, 3)));
    throw Error("--model: " + file + " does not say the model" +
                (size == "num_layers" ? "" : "'s " + size));
  }
  if (!m.fields.contains("seq_len"))
    throw Error("--seq-len: " + file + " does not say the sequence length");
}

// What options say of a launch file before it is read: they stand in for what it leaves open.
hwdb::LaunchReading reading_of(const RunOptions& options) {
  hwdb::LaunchReading reading{.given = options.strategy,
                              .ignored = options.ignored,
                              .ignores_unknown = options.ignores_unknown};
  const auto give = [&](const char* field, const Text& text, NumberRange range) {
    if (text) reading.given[field] = std::to_string(number_in("", *text, range));
  };
  give("model.seq_len", options.seq_len, kSequence);
  give("num_devices", options.gpus, kDevices);
  give("global_batch", options.global_batch, kBatch);
  if (!options.model.empty()) reading.given["model"] = options.model;
  return reading;
}

// Another file's contents are no guess.
void require_what_is_elsewhere(const RunOptions& options, const hwdb::ReadLaunch& read) {
  for (const hwdb::SaidElsewhere& other : read.elsewhere) {
    if (read.record.training.strategy.contains(other.field)) continue;
    throw Error(options.launch_file + ": " + other.named + " is another file of " + read.target +
                ": --" + other.field + " is expected, and --offload where it says so");
  }
}

// A file that says all ranks is of so many devices, unless options change them.
void require_mesh(const RunOptions& options, const hwdb::ReadLaunch& read, int devices) {
  const Mesh mesh = mesh_of(read.record.training.strategy);
  if (!read.states_ranks || !mesh.dp || options.strategy.contains("dp")) return;
  if (mesh.product() != devices)
    throw Error("--gpus = " + std::to_string(devices) + ": " + options.launch_file + " of " +
                read.target + " has dp = " + std::to_string(*mesh.dp) + " and " +
                std::to_string(mesh.product()) + " devices in all; --dp is expected beside it");
}

sim::Run launched_run(const RunOptions& options, hwdb::RunResolver& resolver) {
  Notes notes;
  hwdb::ReadLaunch read = hwdb::read_launch(options.launch_file, reading_of(options));
  hwdb::RunRecord& record = read.record;
  std::optional<sim::NamedModel> model;
  if (!options.model.empty()) model = model_named("--model", options.model);
  put_over_launch(options, model, record);
  put_batch_over_launch(options, record, notes);
  require_what_is_elsewhere(options, read);
  name_model(record);
  require_sizes(options, record.model);
  const int devices = launch_devices(options, record);
  require_mesh(options, read, devices);
  if (options.gpus) record.training.strategy.erase("dp");
  record.hardware = hardware_of(options, devices, resolver, notes);
  sim::Run run = resolver.resolve(record);
  if (!record.model.name) run.model.name = std::filesystem::path(options.launch_file).filename();
  notes.insert(notes.end(), read.defaults.begin(), read.defaults.end());
  add_notes(notes, run);
  if (model) add_warnings(*model, run);
  if (!read.passed_over.empty())
    run.warnings.push_back(options.launch_file + ": passed over as asked, whatever they mean: " +
                           sim::joined(read.passed_over, ", "));
  for (const std::string& said : read.approximated)
    run.warnings.push_back(options.launch_file + ": " + said);
  if (!read.not_needed.empty())
    run.warnings.push_back(options.launch_file + ": keys that cannot matter are not read: " +
                           sim::joined(read.not_needed, ", "));
  return run;
}

}  // namespace

sim::NamedModel model_named(const std::string& option, const std::string& name) {
  if (const sim::NamedModel* entry = hwdb::find_model(name)) return *entry;
  std::error_code too_long;  // for a name of a file
  if (std::filesystem::exists(name, too_long) || name.ends_with(".json"))
    return hwdb::load_model_config(name);
  throw Error(option + " = " + name + ": neither a known model nor a config.json" +
              hwdb::did_you_mean(hwdb::nearest_models(name, 3)));
}

hwdb::RunResolver resolver_of(const std::string& site, const hwdb::Database& database) {
  std::optional<hwdb::Site> measured;
  if (!site.empty()) measured = hwdb::site(database, site);
  return hwdb::RunResolver(database, hwdb::Frameworks::shipped(), std::move(measured));
}

RunRequests::RunRequests(const hwdb::Database& database) : database_(&database) {}

hwdb::RunResolver& RunRequests::resolver(const std::string& site) {
  const auto found = resolvers_.find(site);
  if (found != resolvers_.end()) return found->second;
  return resolvers_.emplace(site, resolver_of(site, *database_)).first->second;
}

sim::Run RunRequests::run_of(const RunOptions& options) {
  hwdb::RunResolver& resolver = this->resolver(options.site);
  Notes notes;
  const sim::NamedModel named = model_of(options, notes);
  const sim::Transformer& model = named.model;
  sim::PartialStrategy strategy =
      strategy_in(options, [](const std::string&, const std::string&) { return false; });
  Layout layout{.mesh = mesh_of(strategy)};
  const int devices = devices_of(options, layout.mesh, notes);
  layout.dp =
      layout.mesh.dp.value_or(std::max<std::int64_t>(1, devices / layout.mesh.model_ranks()));
  layout.micro_batch = sim::stated<int>(strategy, "micro_batch");
  layout.global_batch =
      global_batch_of(options, model.seq_len, devices, layout.replica_batch(), true, notes);
  hwdb::RunRecord record;
  if (options.date) record.date = date_in(*options.date);
  record.hardware = hardware_of(options, devices, resolver, notes);
  if (options.recompute) set_recompute(recompute_in(*options.recompute), strategy);
  check_shards(strategy);
  record_mesh(layout, strategy, devices);
  record.training = training_of(options, std::move(strategy), record.hardware, resolver, notes);
  put_model(options, model, record);
  sim::Run run = resolver.resolve(record);
  add_notes(notes, run);
  add_warnings(named, run);
  set_mesh(layout, run.strategy);
  return run;
}

Request RunRequests::request_of(const RunOptions& options) {
  if (!options.launch_file.empty()) return {.run = launched_run(options, resolver(options.site))};
  if (options.run_file.empty()) return {.run = run_of(options)};
  hwdb::RunRecord record = hwdb::read_run(options.run_file);
  put_over(options, record.training);
  put_adapters(options, record.model);
  return {.run = resolver(options.site).resolve(record),
          .measured = record.measured.value_or(hwdb::Measured{})};
}

sim::PlanQuery RunRequests::query_of(const RunOptions& options) {
  hwdb::RunResolver& resolver = this->resolver(options.site);
  Notes notes;
  const sim::NamedModel named = model_of(options, notes);
  const sim::Transformer& model = named.model;
  const int devices = static_cast<int>(number_in("--gpus", options.gpus.value_or(""), kDevices));
  hwdb::RunRecord record;
  if (options.date) record.date = date_in(*options.date);
  record.hardware = hardware_of(options, devices, resolver, notes);
  record.training =
      training_of(options, strategy_in(options, is_searched), record.hardware, resolver, notes);
  record.training.strategy["global_batch"] =
      std::int64_t{global_batch_of(options, model.seq_len, devices, devices, false, notes)};
  put_model(options, model, record);
  sim::PlanQuery query = hwdb::plan_query(std::move(record), resolver);
  for (auto& [sharding, run] : query.under) {
    add_notes(notes, run);
    add_warnings(named, run);
  }
  add_notes(notes, query.base);
  add_warnings(named, query.base);
  query.restriction = restriction_of(options);
  for (const std::string& text : options.excluded) exclude(text, query.excluded);
  return query;
}

std::string predicting(const sim::Run& run) {
  return "predicting " + std::to_string(run.strategy.pp) + " stages";
}

sim::Run run_of(const RunOptions& options, const hwdb::Database& database) {
  return RunRequests(database).run_of(options);
}

Request request_of(const RunOptions& options, const hwdb::Database& database) {
  return RunRequests(database).request_of(options);
}

sim::PlanQuery query_of(const RunOptions& options, const hwdb::Database& database) {
  return RunRequests(database).query_of(options);
}

}  // namespace llmsim::cli
