#include "hwdb/stacks.h"

#include <algorithm>
#include <functional>

#include "hwdb/json_reader.h"
#include "hwdb/shipped_facts.h"
#include "hwdb/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

// Puts the value of a field where it belongs; false where the value has the wrong type.
using Setter = std::function<bool(StackChoice&, const json&)>;

Setter number(double& (*target)(StackChoice&)) {
  return [target](StackChoice& choice, const json& value) {
    if (!value.is_number() || value.get<double>() < 0.0) return false;
    target(choice) = value.get<double>();
    return true;
  };
}

Setter flag(bool& (*target)(StackChoice&)) {
  return [target](StackChoice& choice, const json& value) {
    if (!value.is_boolean()) return false;
    target(choice) = value.get<bool>();
    return true;
  };
}

Setter seconds(sim::Seconds& (*target)(StackChoice&)) {
  return [target](StackChoice& choice, const json& value) {
    if (!value.is_number() || value.get<double>() < 0.0) return false;
    target(choice) = sim::Seconds(value.get<double>());
    return true;
  };
}

bool set_prefetch(StackChoice& choice, const json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 1000) return false;
  choice.stack.sharded.prefetch_units = value.get<int>();
  return true;
}

bool set_fusion(StackChoice& choice, const json& value) {
  if (value == "eager")
    choice.stack.fusion = sim::ElementwiseFusion::Eager;
  else if (value == "compiled")
    choice.stack.fusion = sim::ElementwiseFusion::Compiled;
  else if (value == "fused")
    choice.stack.fusion = sim::ElementwiseFusion::Fused;
  else
    return false;
  return true;
}

bool set_attention_kernel(StackChoice& choice, const json& value) {
  const std::optional<sim::AttentionKernel> kernel =
      value.is_string() ? sim::attention_kernel_named(value.get<std::string>()) : std::nullopt;
  if (kernel) choice.stack.attention_kernel = *kernel;
  return kernel.has_value();
}

bool set_narrow_scaling(StackChoice& choice, const json& value) {
  using sim::NarrowScaling;
  for (const auto& [name, scaling] :
       {std::pair{"delayed", NarrowScaling::Delayed}, std::pair{"current", NarrowScaling::Current},
        std::pair{"rowwise", NarrowScaling::Rowwise}, std::pair{"rowwise-wide-gradient", NarrowScaling::RowwiseWideGradient},
        std::pair{"blocks", NarrowScaling::Blocks}}) {
    if (value != name) continue;
    choice.stack.narrow.scaling = scaling;
    return true;
  }
  return false;
}

bool set_sharding(StackChoice& choice, const json& value) {
  const std::optional<sim::Sharding> sharding = value.is_string() ? sim::sharding_named(value.get<std::string>()) : std::nullopt;
  if (sharding) choice.defaults.sharding = *sharding;
  return sharding.has_value();
}

bool set_transport(StackChoice& choice, const json& value) {
  const auto transport = value.is_string() ? sim::transport_named(value.get<std::string>()) : std::nullopt;
  if (transport) choice.defaults.transport = *transport;
  return transport.has_value();
}

bool set_algorithm(StackChoice& choice, const json& value) {
  const auto algorithm = value.is_string() ? sim::algorithm_named(value.get<std::string>()) : std::nullopt;
  if (algorithm) choice.defaults.collective_algorithm = *algorithm;
  return algorithm.has_value();
}

bool set_context_scheme(StackChoice& choice, const json& value) {
  const auto scheme = value.is_string() ? sim::context_scheme_named(value.get<std::string>()) : std::nullopt;
  if (scheme) choice.defaults.context_scheme = *scheme;
  return scheme.has_value();
}

bool set_fused_loss(StackChoice& choice, const json& value) {
  if (value == "kernel")
    choice.stack.loss.fused = sim::FusedLoss::Kernel;
  else if (value == "logits")
    choice.stack.loss.fused = sim::FusedLoss::Logits;
  else if (value == "recomputed")
    choice.stack.loss.fused = sim::FusedLoss::Recomputed;
  else if (value == "gradient")
    choice.stack.loss.fused = sim::FusedLoss::Gradient;
  else
    return false;
  return true;
}

bool set_loss_chunks(StackChoice& choice, const json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > 65536) return false;
  choice.stack.loss.chunks = value.get<int>();
  return true;
}

bool set_vocab_multiple(StackChoice& choice, const json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < 1 || value.get<std::uint64_t>() > 65536) return false;
  choice.stack.vocab_multiple = value.get<int>();
  return true;
}

bool set_bias(StackChoice& choice, const json& value) {
  if (!value.is_boolean()) return false;
  choice.defaults.bias = value.get<bool>();
  return true;
}

// A rate in bytes per second.
Setter rate(std::optional<sim::BytesPerSecond>& (*target)(StackChoice&)) {
  return [target](StackChoice& choice, const json& value) {
    if (!value.is_number() || value.get<double>() <= 0.0) return false;
    target(choice) = sim::BytesPerSecond(value.get<double>());
    return true;
  };
}

bool set_framework_memory(StackChoice& choice, const json& value) {
  if (!value.is_number() || value.get<double>() < 0.0) return false;
  choice.stack.reserve.framework = sim::Bytes(value.get<double>());
  return true;
}

bool set_matmul_workspace(StackChoice& choice, const json& value) {
  if (!value.is_number() || value.get<double>() < 0.0) return false;
  choice.stack.reserve.matmul_workspace = sim::Bytes(value.get<double>());
  return true;
}

struct NamedSetter {
  const char* key;
  Setter set;
};

// Every field that a stack or a rule can set.  Times are in seconds, sizes in bytes.
const std::vector<NamedSetter>& setters() {
  using C = StackChoice;
  static const std::vector<NamedSetter> all = {
      {"fusion", set_fusion},
      {"attention_kernel", set_attention_kernel},
      {"storage.weight_bytes", number([](C& c) -> double& { return c.stack.storage.weight_bytes; })},
      {"storage.gradient_bytes", number([](C& c) -> double& { return c.stack.storage.gradient_bytes; })},
      {"storage.main_gradient_bytes", number([](C& c) -> double& { return c.stack.storage.main_gradient_bytes; })},
      {"storage.master_bytes", number([](C& c) -> double& { return c.stack.storage.master_bytes; })},
      {"storage.state_bytes", number([](C& c) -> double& { return c.stack.storage.state_bytes; })},
      {"casts_weights_per_microbatch", flag([](C& c) -> bool& { return c.stack.casts_weights_per_microbatch; })},
      {"composed_activation", flag([](C& c) -> bool& { return c.stack.composed_activation; })},
      {"norms_in_fp32", flag([](C& c) -> bool& { return c.stack.norms_in_fp32; })},
      {"narrow_scaling", set_narrow_scaling},
      {"caches_narrow_weights", flag([](C& c) -> bool& { return c.stack.narrow.caches_weights; })},
      {"narrow_head", flag([](C& c) -> bool& { return c.stack.narrow.head; })},
      {"saves_narrow_inputs", flag([](C& c) -> bool& { return c.stack.narrow.saves_inputs; })},
      {"dropout", number([](C& c) -> double& { return c.stack.dropout; })},
      {"fp32_logit_copies", number([](C& c) -> double& { return c.stack.loss.fp32_logit_copies; })},
      {"fused_loss", set_fused_loss},
      {"loss_chunks", set_loss_chunks},
      {"fp32_logits", flag([](C& c) -> bool& { return c.stack.loss.fp32_logits; })},
      {"gradient_reduce_in_fp32", flag([](C& c) -> bool& { return c.stack.gradients.reduced_in_fp32; })},
      {"fused_bias_gradients", flag([](C& c) -> bool& { return c.stack.gradients.fused_bias; })},
      {"gradient_accumulation_in_backward", flag([](C& c) -> bool& { return c.stack.gradients.accumulated_by_product; })},
      {"gradient_copies", number([](C& c) -> double& { return c.stack.gradients.copies; })},
      {"weight_copies", number([](C& c) -> double& { return c.stack.sharded.weight_copies; })},
      {"reduces_every_microbatch", flag([](C& c) -> bool& { return c.stack.gradients.reduced_every_microbatch; })},
      {"regathers_in_backward", flag([](C& c) -> bool& { return c.stack.sharded.regathers_in_backward; })},
      {"gathered_blocks", number([](C& c) -> double& { return c.stack.sharded.gathered_blocks; })},
      {"gradient_blocks", number([](C& c) -> double& { return c.stack.sharded.gradient_blocks; })},
      {"live_parameters", number([](C& c) -> double& { return c.stack.sharded.live_parameters; })},
      {"copies_into_buckets", flag([](C& c) -> bool& { return c.stack.gradients.copied_into_buckets; })},
      {"keeps_stage_outputs", flag([](C& c) -> bool& { return c.stack.kept.stage_outputs; })},
      {"partitions_checkpoints", flag([](C& c) -> bool& { return c.stack.kept.partitioned_checkpoints; })},
      {"expands_kv_heads", flag([](C& c) -> bool& { return c.stack.kept.expanded_kv_heads; })},
      {"keeps_fused_qkv", flag([](C& c) -> bool& { return c.stack.kept.fused_qkv; })},
      {"parts_per_block", number([](C& c) -> double& { return c.stack.kept.parts_per_block; })},
      {"keeps_frozen_gathered", flag([](C& c) -> bool& { return c.stack.sharded.keeps_frozen; })},
      {"keeps_frozen_inputs", flag([](C& c) -> bool& { return c.stack.kept.frozen_inputs; })},
      {"adapter_dropout", number([](C& c) -> double& { return c.stack.kept.adapter_dropout; })},
      {"unit_blocks", number([](C& c) -> double& { return c.stack.sharded.unit_blocks; })},
      {"prefetch_units", set_prefetch},
      {"root_stays_gathered", flag([](C& c) -> bool& { return c.stack.sharded.root_stays_gathered; })},
      {"narrow_gather", flag([](C& c) -> bool& { return c.stack.narrow.gathers; })},
      {"narrow_input_gather", flag([](C& c) -> bool& { return c.stack.narrow.gathers_inputs; })},
      {"reduce_bucket_parameters", number([](C& c) -> double& { return c.stack.gradients.bucket; })},
      {"reduce_bucket_parameters_per_rank", number([](C& c) -> double& { return c.stack.gradients.bucket_per_rank; })},
      {"host_time_per_kernel_s", seconds([](C& c) -> sim::Seconds& { return c.stack.host.per_kernel; })},
      {"fuses_parallel_inputs", flag([](C& c) -> bool& { return c.stack.fuses_parallel_inputs; })},
      {"recompute_stops_early", flag([](C& c) -> bool& { return c.stack.recompute_stops_early; })},
      {"host_time_per_recomputed_block_s", seconds([](C& c) -> sim::Seconds& { return c.stack.host.per_recomputed_block; })},
      {"host_time_per_narrow_product_s", seconds([](C& c) -> sim::Seconds& { return c.stack.host.per_narrow_product; })},
      {"host_time_per_unit_s", seconds([](C& c) -> sim::Seconds& { return c.stack.host.per_unit; })},
      {"modules_are_units", flag([](C& c) -> bool& { return c.stack.sharded.modules_are_units; })},
      {"host_time_per_step_s", seconds([](C& c) -> sim::Seconds& { return c.stack.host.per_step; })},
      {"hides_column_gradients", flag([](C& c) -> bool& { return c.stack.hides_column_gradients; })},
      {"offload.checkpoint_down_bytes_per_s",
       rate([](C& c) -> std::optional<sim::BytesPerSecond>& { return c.stack.host_copies.checkpoints_down; })},
      {"offload.checkpoint_up_bytes_per_s",
       rate([](C& c) -> std::optional<sim::BytesPerSecond>& { return c.stack.host_copies.checkpoints_up; })},
      {"offload.gradients_return", flag([](C& c) -> bool& { return c.stack.host_copies.gradients_return; })},
      {"offload.last_gradient_bytes", number([](C& c) -> double& { return c.stack.host_copies.last_gradient_bytes; })},
      {"offload.gradient_cast_s", seconds([](C& c) -> sim::Seconds& { return c.stack.host_copies.gradient_cast; })},
      {"offload.update_slowdown", number([](C& c) -> double& { return c.stack.host_copies.update_slowdown; })},
      {"host_load_bytes", number([](C& c) -> double& { return c.stack.host_load_bytes; })},
      {"gradients_persist", flag([](C& c) -> bool& { return c.stack.gradients.persist; })},
      {"fused_update", flag([](C& c) -> bool& { return c.stack.update.fused; })},
      {"optimizer_in_backward", flag([](C& c) -> bool& { return c.stack.update.in_backward; })},
      {"update_temporary_bytes", number([](C& c) -> double& { return c.stack.update.temporary_bytes; })},
      {"efficiency", number([](C& c) -> double& { return c.stack.efficiency; })},
      {"gemm_efficiency", number([](C& c) -> double& { return c.stack.gemm_efficiency; })},
      {"narrow_gemm_efficiency", number([](C& c) -> double& { return c.stack.narrow.gemm_efficiency; })},
      {"row_cast_rate", number([](C& c) -> double& { return c.stack.narrow.row_cast_rate; })},
      {"narrow_copies", number([](C& c) -> double& { return c.stack.narrow.copies; })},
      {"collective_efficiency", number([](C& c) -> double& { return c.stack.collective_efficiency; })},
      {"framework_memory_bytes", set_framework_memory},
      {"matmul_workspace_bytes", set_matmul_workspace},
      {"transformer_engine", flag([](C& c) -> bool& { return c.stack.reserve.transformer_engine; })},
      {"fragmentation", number([](C& c) -> double& { return c.stack.reserve.fragmentation; })},
      {"unrecoverable_gaps", number([](C& c) -> double& { return c.stack.reserve.unrecoverable_gaps; })},
      {"vocab_multiple", set_vocab_multiple},
      {"spread_faster", number([](C& c) -> double& { return c.stack.spread_faster; })},
      {"spread_slower", number([](C& c) -> double& { return c.stack.spread_slower; })},
      {"default.flash_attention", flag([](C& c) -> bool& { return c.defaults.flash_attention; })},
      {"default.sequence_parallel", flag([](C& c) -> bool& { return c.defaults.sequence_parallel; })},
      {"default.compile", flag([](C& c) -> bool& { return c.defaults.compile; })},
      {"default.fused_cross_entropy", flag([](C& c) -> bool& { return c.defaults.fused_cross_entropy; })},
      {"default.tp_overlap", flag([](C& c) -> bool& { return c.defaults.tensor_overlap; })},
      {"default.dp_overlap", flag([](C& c) -> bool& { return c.defaults.data_overlap; })},
      {"default.cuda_graph", flag([](C& c) -> bool& { return c.defaults.cuda_graph; })},
      {"default.sharding", set_sharding},
      {"default.transport", set_transport},
      {"default.collective_algorithm", set_algorithm},
      {"default.cp_scheme", set_context_scheme},
      {"default.cp_balanced", flag([](C& c) -> bool& { return c.defaults.context_balanced; })},
      {"default.optimizer_step", flag([](C& c) -> bool& { return c.defaults.optimizer_step; })},
      {"default.bias", set_bias},
      {"default.embedding_norm", flag([](C& c) -> bool& { return c.defaults.embedding_norm; })},
  };
  return all;
}

const NamedSetter* setter(const std::string& key) {
  for (const NamedSetter& named : setters()) {
    if (key == named.key) return &named;
  }
  return nullptr;
}

std::vector<std::string> field_keys() {
  std::vector<std::string> keys;
  for (const NamedSetter& named : setters()) keys.emplace_back(named.key);
  return keys;
}

void set_field(StackChoice& choice, const std::string& key, const json& value, const std::string& place) {
  const NamedSetter* named = setter(key);
  if (!named) throw Error(place + ": " + key + ": unknown field" + did_you_mean(key, field_keys()));
  if (!named->set(choice, value)) throw Error(place + ": " + key + " = " + shown(value) + ": wrong type or range for this field");
}

Stacks::Field read_field(const std::string& key, const json& value, const std::string& place) {
  ObjectReader reader(value, place, key);
  Stacks::Field field{.key = key, .value = {}, .evidence = {}, .source = {}};
  const json* content = reader.any("value");
  const std::optional<std::string> evidence = reader.one_of("evidence", {"data_sheet", "measured", "fitted", "assumed"});
  const std::optional<std::string> source = reader.text("source");
  reader.finish();
  if (!content || !evidence || !source) throw Error(place + ": " + key + ": value, evidence and source are all needed");
  field.value = content->dump();
  field.evidence = *evidence_named(*evidence);
  field.source = *source;
  StackChoice probe;
  set_field(probe, key, *content, place);
  return field;
}

std::vector<Stacks::Field> read_fields(ObjectReader& reader, const char* key, const std::string& place) {
  std::vector<Stacks::Field> fields;
  const std::optional<ObjectReader> object = reader.object(key);
  if (!object) return fields;
  for (const auto& [name, value] : object->value().items()) fields.push_back(read_field(name, value, place));
  return fields;
}

// Fields of `own` replace those of `inherited` that have the same key.
std::vector<Stacks::Field> merged(std::vector<Stacks::Field> inherited, const std::vector<Stacks::Field>& own) {
  for (const Stacks::Field& field : own) {
    std::erase_if(inherited, [&](const Stacks::Field& old) { return old.key == field.key; });
    inherited.push_back(field);
  }
  return inherited;
}

const Stacks::Record* find_record(const std::vector<Stacks::Record>& records, const std::string& id) {
  for (const Stacks::Record& record : records) {
    if (record.id == id) return &record;
  }
  return nullptr;
}

Stacks::Record read_record(const json& value, const std::vector<Stacks::Record>& before, const std::string& file) {
  const std::optional<std::string> id = ObjectReader(value, file + ": stacks").text("id");
  if (!id) throw Error(file + ": a stack has no id");
  const std::string place = file + ": stack " + *id;
  ObjectReader reader(value, place);
  reader.any("id");
  Stacks::Record record{
      .id = *id, .name = reader.text("name").value_or(""), .like = reader.text("like").value_or(""), .fields = {}};
  if (find_record(before, record.id)) throw Error(place + ": this id appears twice");
  if (!record.like.empty() && !find_record(before, record.like))
    throw Error(place + ": like = " + record.like + ": no stack before this one has that id");
  record.fields = read_fields(reader, "fields", place);
  reader.finish();
  return record;
}

const std::vector<std::string>& condition_keys() {
  static const std::vector<std::string> keys = {"framework",        "model",       "before",   "framework_detail", "precision",
                                                "precision_detail", "accelerator", "position", "sharding",         "notes"};
  return keys;
}

Stacks::Rule read_rule(const json& value, const std::string& place) {
  ObjectReader reader(value, place);
  Stacks::Rule rule;
  if (std::optional<ObjectReader> when = reader.object("when")) {
    for (const std::string& key : condition_keys()) {
      std::vector<std::string> values = when->texts(key.c_str());
      if (!values.empty()) rule.when.push_back({key, std::move(values)});
    }
    when->finish();
  }
  if (rule.when.empty()) throw Error(place + ": a rule needs a condition in \"when\"");
  rule.set = read_fields(reader, "set", place);
  reader.finish();
  return rule;
}

const std::string& asked(const StackQuery& query, const std::string& key) {
  if (key == "framework") return query.framework;
  if (key == "model") return query.model;
  if (key == "before") return query.date;
  if (key == "framework_detail") return query.framework_detail;
  if (key == "precision") return query.precision;
  if (key == "precision_detail") return query.precision_detail;
  if (key == "accelerator") return query.accelerator;
  if (key == "position") return query.position;
  if (key == "notes") return query.notes;
  return query.sharding;
}

// Details, notes and names of models match where they contain the words; dates where they are earlier; accelerators by their
// beginning; all else must be equal.
bool holds(const Stacks::Condition& condition, const StackQuery& query) {
  const std::string& value = asked(query, condition.key);
  return std::any_of(condition.values.begin(), condition.values.end(), [&](const std::string& wanted) {
    if (condition.key == "before") return !value.empty() && value < wanted;
    if (condition.key == "accelerator") return value.starts_with(wanted);
    if (condition.key.ends_with("_detail") || condition.key == "notes" || condition.key == "model")
      return value.find(wanted) != std::string::npos;
    return value == wanted;
  });
}

bool applies(const Stacks::Rule& rule, const StackQuery& query) {
  return std::all_of(rule.when.begin(), rule.when.end(),
                     [&](const Stacks::Condition& condition) { return holds(condition, query); });
}

StackChoice choice_of(const std::string& id, const std::vector<Stacks::Field>& fields) {
  StackChoice choice;
  choice.stack.id = id;
  for (const Stacks::Field& field : fields) {
    setter(field.key)->set(choice, json::parse(field.value));
    choice.facts.push_back({"stack." + id + "." + field.key, field.value, field.evidence, field.source});
  }
  return choice;
}

}  // namespace

Stacks Stacks::parse(const std::string& text, const std::string& file) {
  const json document = parse_json(text, file);
  ObjectReader reader(document, file);
  reader.count("schema");
  reader.any("about");
  Stacks stacks;
  const json* records = reader.any("stacks");
  if (!records || !records->is_array()) throw Error(file + ": \"stacks\" must be a list");
  for (const json& value : *records) {
    stacks.records_.push_back(read_record(value, stacks.records_, file));
  }
  if (const json* rules = reader.any("rules")) {
    if (!rules->is_array()) throw Error(file + ": \"rules\" must be a list");
    for (const json& value : *rules)
      stacks.rules_.push_back(read_rule(value, file + ": rule " + std::to_string(stacks.rules_.size() + 1)));
  }
  reader.finish();
  return stacks;
}

Stacks Stacks::shipped() { return parse(std::string(shipped_stacks_json()), "facts/stacks.json"); }

StackChoice Stacks::choose(const StackQuery& query) const {
  const Record* record = find_record(records_, query.framework);
  if (!record) throw Error("framework = " + query.framework + ": unknown training stack" + did_you_mean(query.framework, ids()));
  std::vector<Field> fields = fields_of(record->id);
  for (const Rule& rule : rules_) {
    if (applies(rule, query)) fields = merged(std::move(fields), rule.set);
  }
  return choice_of(record->id, fields);
}

std::vector<Stacks::Field> Stacks::fields_of(const std::string& id) const {
  const Record* record = find_record(records_, id);
  return merged(record->like.empty() ? std::vector<Field>{} : fields_of(record->like), record->fields);
}

std::optional<double> Stacks::number(const std::string& id, const std::string& key) const {
  if (!find_record(records_, id)) return std::nullopt;
  for (const Field& field : fields_of(id)) {
    const json value = json::parse(field.value);
    if (field.key == key && value.is_number()) return value.get<double>();
  }
  return std::nullopt;
}

void Stacks::put(const Coefficient& coefficient) {
  const auto record = std::find_if(records_.begin(), records_.end(), [&](const Record& r) { return r.id == coefficient.id; });
  const std::string place = "coefficient of stack " + coefficient.id;
  if (record == records_.end()) throw Error(place + ": unknown training stack" + did_you_mean(coefficient.id, ids()));
  const json value = coefficient.value;
  StackChoice probe;
  set_field(probe, coefficient.key, value, place);
  record->fields =
      merged(std::move(record->fields),
             {{.key = coefficient.key, .value = value.dump(), .evidence = coefficient.evidence, .source = coefficient.source}});
}

std::vector<std::string> Stacks::ids() const {
  std::vector<std::string> ids;
  for (const Record& record : records_) ids.push_back(record.id);
  return ids;
}

void set_coefficient(sim::Stack& stack, const std::string& key, double value) {
  StackChoice choice;
  choice.stack = std::move(stack);
  set_field(choice, key, value, "stack " + choice.stack.id);
  stack = std::move(choice.stack);
}

}  // namespace llmsim::hwdb
