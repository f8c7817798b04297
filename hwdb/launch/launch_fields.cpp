#include "hwdb/launch/launch_fields.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "hwdb/launch/layer_pattern.h"
#include "hwdb/settings.h"
#include "sim/base/error.h"
#include "sim/model/catalogue.h"
#include "sim/strategy/stages.h"

namespace llmsim::hwdb {
namespace {

const std::string kModel = "model.";

int count_in(const LaunchValues& fields, const std::string& key, int fallback) {
  const auto found = fields.find(key);
  return found == fields.end() ? fallback : std::atoi(found->second.c_str());
}

bool is_true(const LaunchValues& fields, const std::string& key) {
  const auto found = fields.find(key);
  return found != fields.end() && found->second == "true";
}

// Layers of the model that is read, by its shape or its name.
int layers_of(const LaunchValues& fields, const RunRecord& record) {
  const sim::CatalogueEntry* const known =
      record.model.name ? sim::find_model(*record.model.name) : nullptr;
  return count_in(fields, "model.num_layers", known ? known->model.num_layers : 0);
}

// Takes a value out of the fields.
std::optional<std::string> taken(LaunchValues& fields, const std::string& key) {
  const auto found = fields.find(key);
  if (found == fields.end()) return std::nullopt;
  std::string value = std::move(found->second);
  fields.erase(found);
  return value;
}

std::optional<int> taken_count(LaunchValues& fields, const std::string& key) {
  const auto text = taken(fields, key);
  if (!text) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text->c_str(), &end);
  if (text->empty() || *end != '\0' || number < 1 || number > (1 << 30) ||
      number != static_cast<int>(number))
    throw Error(key + " = " + *text + ": a whole number from 1 on is expected");
  return static_cast<int>(number);
}

// --- a run ---

bool same_but_length(const sim::Transformer& model, const sim::Transformer& known) {
  sim::Transformer copy = model;
  copy.name = known.name, copy.seq_len = known.seq_len;
  if (copy.position != sim::Position::Learned) copy.max_positions = known.max_positions;
  return copy == known;
}

std::optional<std::string> catalogue_name(const sim::Transformer& model) {
  if (const auto* named = sim::find_model(model.name);
      named && same_but_length(model, named->model))
    return named->model.name;
  for (const sim::CatalogueEntry& entry : sim::catalogue()) {
    if (same_but_length(model, entry.model)) return entry.model.name;
  }
  return std::nullopt;
}

void add_model_fields(const sim::Transformer& model, LaunchValues& fields) {
  for (const auto& [key, value] : sim::fields_of(model)) fields[kModel + key] = sim::text_of(value);
  if (model.position == sim::Position::Learned && model.max_positions == 0)
    fields["model.max_positions"] = std::to_string(model.seq_len);
  if (const auto name = catalogue_name(model)) fields["model.catalogue"] = *name;
  if (!model.moe) return;
  fields["model.moe.shared_width"] =
      std::to_string(model.moe->num_shared_experts * model.moe->shared_expert_ffn_size);
  fields["model.moe.layers"] =
      layer_pattern(model.num_layers, model.moe->num_dense_layers, model.moe->layer_interval);
}

// Whether layers are dealt to stages otherwise than all alike, with or without the embedding and
// the head.
bool dealt_unevenly(const sim::Run& run) {
  const sim::Strategy& s = run.strategy;
  const int parts = sim::stage_layout(s).parts();
  const int dealt = run.model.num_layers + (s.embeddings_as_layers ? 2 : 0);
  return parts > 1 && (!s.stage_layers.empty() || dealt % parts != 0 || run.model.mtp_layers > 0);
}

void add_derived_fields(const sim::Run& run, LaunchValues& fields) {
  const sim::Strategy& s = run.strategy;
  fields["num_devices"] = std::to_string(s.num_devices());
  fields["devices_per_node"] =
      std::to_string(std::min(run.cluster.devices_per_node, s.num_devices()));
  fields["num_microbatches"] = std::to_string(s.num_microbatches());
  fields["replica_batch"] = std::to_string(s.global_batch / s.dp);
  fields["framework"] = run.framework.id;
  fields["regathers"] = sim::text_of(sim::FieldValue(run.framework.sharded.regathers_in_backward));
  const bool partial = s.sharding != sim::Sharding::None && s.shard_ranks() < s.dp * s.cp;
  if (partial) fields["replicate_size"] = std::to_string(s.dp * s.cp / s.shard_ranks());
  if (s.shard_ranks() % s.cp == 0) fields["dp_shard"] = std::to_string(s.shard_ranks() / s.cp);
  fields["layers_per_chunk"] = std::to_string(run.model.num_layers / (s.pp * s.virtual_stages));
  const int parts = s.pp * s.virtual_stages;
  const int weighted = run.model.num_layers + (s.embeddings_as_layers ? 2 : 0);
  fields["weighted_layers_per_chunk"] = std::to_string((weighted + parts - 1) / parts);
  fields["remainder"] = "first";
  if (dealt_unevenly(run)) fields["stage_layout"] = stage_layout_text(run.model, s);
}

// --- a record ---

template <class AnyField>
sim::FieldValue value_of(const AnyField& field, const std::string& key, const std::string& text) {
  sim::FieldValue value = text;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (field.kind == sim::FieldKind::Switch) value = text == "true";
  if ((field.kind == sim::FieldKind::Count || field.kind == sim::FieldKind::Number) &&
      !text.empty() && *end == '\0')
    value = number;
  if (field.kind == sim::FieldKind::Counts) value = counts_in(text);
  const auto right = checked(field, value);
  if (!right) throw Error(key + " = " + text + ": " + expected_values(field) + " is expected");
  return *right;
}

void put_field(const std::string& key, const std::string& text, RunRecord& record) {
  if (key.starts_with(kModel)) {
    const std::string name = key.substr(kModel.size());
    const auto* const field = sim::find_field(sim::transformer_fields(), name);
    record.model.fields[name] = value_of(*field, key, text);
  } else if (const auto* const field = sim::find_strategy_field(key)) {
    record.training.strategy[key] = value_of(*field, key, text);
  } else if (const Setting* const setting = find_setting(key)) {
    record.training.settings[key] = setting_from(*setting, key, text);
  }
}

// Layers of the parts where the first ones take what does not divide.
void put_remainder(LaunchValues& fields, int layers, RunRecord& record) {
  const int ends = is_true(fields, "embeddings_as_layers") ? 1 : 0;
  const int parts = count_in(fields, "pp", 1) * count_in(fields, "virtual_stages", 1);
  if (!taken(fields, "remainder") || (layers + 2 * ends) % parts == 0 || layers < parts) return;
  std::vector<int> dealt(static_cast<std::size_t>(parts), (layers + 2 * ends) / parts);
  for (int i = 0; i < (layers + 2 * ends) % parts; ++i) ++dealt[static_cast<std::size_t>(i)];
  dealt.front() -= ends, dealt.back() -= ends;
  record.training.strategy["stage_layers"] = dealt;
}

void put_stages(LaunchValues& fields, RunRecord& record) {
  const int layers = layers_of(fields, record), pp = count_in(fields, "pp", 1);
  const int ends = is_true(fields, "embeddings_as_layers") ? 2 : 0;
  if (const auto weighted = taken_count(fields, "weighted_layers_per_chunk"))
    fields["virtual_stages"] =
        std::to_string(std::max(1, ((layers + ends + *weighted - 1) / *weighted + pp - 1) / pp));
  if (const auto per_chunk = taken_count(fields, "layers_per_chunk"))
    fields["virtual_stages"] =
        std::to_string(std::max(1, (layers + pp * *per_chunk - 1) / (pp * *per_chunk)));
  if (const auto layout = taken(fields, "stage_layout")) {
    const std::vector<int> counts = chunk_layers(*layout);
    if (counts.size() % static_cast<std::size_t>(pp) != 0)
      throw Error("pipeline layout " + *layout + ": parts that the stages, " + std::to_string(pp) +
                  ", divide are expected");
    fields["virtual_stages"] = std::to_string(counts.size() / static_cast<std::size_t>(pp));
    record.training.strategy["stage_layers"] = counts;
  }
  const auto first = taken_count(fields, "first_stage_layers");
  const auto last = taken_count(fields, "last_stage_layers");
  if (first || last)
    record.training.strategy["stage_layers"] = stages_between(layers, pp, first, last);
  put_remainder(fields, layers, record);
}

void put_experts(LaunchValues& fields, RunRecord& record) {
  if (const auto width = taken(fields, "model.moe.shared_width"); width && *width != "0") {
    fields["model.moe.num_shared_experts"] = "1";
    fields["model.moe.shared_expert_ffn_size"] = *width;
  }
  if (const auto pattern = taken(fields, "model.moe.layers")) {
    const ExpertLayers layers = expert_layers(*pattern, count_in(fields, "model.num_layers", 0));
    record.model.fields["moe.num_dense_layers"] = std::int64_t{layers.dense};
    record.model.fields["moe.layer_interval"] = std::int64_t{layers.interval};
  }
  const auto wide = fields.find("model.ffn_size");
  if (fields.contains("model.moe.num_experts") && wide != fields.end())
    fields.emplace("model.moe.expert_ffn_size", wide->second);
}

void put_vocabulary(LaunchValues& fields) {
  const auto divisor = taken_count(fields, "model.vocab_divisor");
  const auto rows = fields.find("model.vocab_size");
  if (!divisor || rows == fields.end()) return;
  rows->second = std::to_string(
      sim::padded_vocab_size(std::atoi(rows->second.c_str()), *divisor, count_in(fields, "tp", 1)));
}

void put_batch(LaunchValues& fields, RunRecord& record) {
  record.training.num_microbatches = taken_count(fields, "num_microbatches");
  record.training.replicate_size = taken_count(fields, "replicate_size");
  if (const auto batch = taken_count(fields, "replica_batch")) {
    const int micro = count_in(fields, "micro_batch", 1);
    if (*batch % micro != 0)
      throw Error("a batch of " + std::to_string(*batch) +
                  " sequences a replica: a multiple of the micro-batch, " + std::to_string(micro) +
                  ", is expected");
    record.training.num_microbatches = *batch / micro;
  }
  if (const auto shard = taken_count(fields, "dp_shard"))
    fields["dp"] = std::to_string(*shard * record.training.replicate_size.value_or(1));
}

void put_hardware(LaunchValues& fields, RunRecord& record) {
  record.hardware.num_devices = taken_count(fields, "num_devices");
  taken(fields, "devices_per_node");
}

// --- two runs ---

// The fields of model and strategy in one spelling each.
LaunchValues canonical_fields(const sim::Run& run) {
  LaunchValues fields = fields_of(run);
  for (const char* key : {"model.catalogue", "model.moe.num_shared_experts", "stage_layout",
                          "model.moe.shared_expert_ffn_size", "model.moe.layers",
                          "embeddings_as_layers", "stage_layers", "layers_per_chunk",
                          "weighted_layers_per_chunk", "remainder", "regathers", "framework"})
    fields.erase(key);
  for (const auto& [key, value] : run.settings) fields.erase(key);
  if (run.strategy.optimizer == sim::OptimizerKind::Adam) fields["optimizer"] = "adamw";
  if (run.strategy.sharding == sim::Sharding::None) fields.erase("gather_overlap");
  if (run.strategy.pp > 1) fields["stage_layers"] = stage_layout_text(run.model, run.strategy);
  if (run.model.position != sim::Position::Learned) fields.erase("model.max_positions");
  if (run.strategy.adapters) fields["model.trainable"] = "lora";
  return fields;
}

std::string full_key(const std::string& key) {
  return key.starts_with(kModel) ? key : "training." + key;
}

// The setting by which a run states a field of its framework.
std::string setting_of(const std::string& field, const sim::Run& run) {
  for (const Setting& setting : run_settings()) {
    if (field == setting.field && run.settings.contains(setting.key))
      return "training." + std::string(setting.key) + " = " +
             sim::text_of(run.settings.at(setting.key));
  }
  return "";
}

}  // namespace

LaunchValues fields_of(const sim::Run& run) {
  LaunchValues fields;
  for (const sim::StrategyField& field : sim::strategy_fields()) {
    const auto value = field.get(run.strategy);
    if (value && says_something(field, run.strategy)) fields[field.key] = sim::text_of(*value);
  }
  for (const auto& [key, value] : run.settings) fields[key] = sim::text_of(value);
  add_model_fields(run.model, fields);
  add_derived_fields(run, fields);
  return fields;
}

RunRecord record_of(LaunchValues fields) {
  RunRecord record;
  record.model.name = taken(fields, "model.catalogue");
  record.training.framework = taken(fields, "framework");
  put_vocabulary(fields);
  put_stages(fields, record);
  put_experts(fields, record);
  put_batch(fields, record);
  put_hardware(fields, record);
  for (const auto& [key, text] : fields) put_field(key, text, record);
  return record;
}

std::optional<std::string> first_difference(const sim::Run& run, const sim::Run& other) {
  const LaunchValues fields = canonical_fields(run), others = canonical_fields(other);
  for (const auto& [key, value] : fields) {
    const auto found = others.find(key);
    if (found == others.end() || !same_value(found->second, value))
      return full_key(key) + " = " + value;
  }
  for (const auto& [key, value] : others) {
    if (!fields.contains(key)) return full_key(key) + " of nothing";
  }
  for (const auto& field : sim::framework_fields()) {
    const auto value = field.get(run.framework);
    if (value == field.get(other.framework)) continue;
    const std::string stated = setting_of(field.key, run);
    return stated.empty()
               ? "framework." + field.key + " = " + (value ? sim::text_of(*value) : "none")
               : stated;
  }
  if (run.optimizer_step != other.optimizer_step) return "training.optimizer_step = false";
  return std::nullopt;
}

}  // namespace llmsim::hwdb
