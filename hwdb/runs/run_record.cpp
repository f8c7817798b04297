#include "hwdb/runs/run_record.h"

#include <cstdint>
#include <set>
#include <string>

#include "hwdb/frameworks/settings.h"
#include "hwdb/text/date.h"
#include "hwdb/text/input_file.h"
#include "hwdb/text/json_reader.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

// A value of a field in the spelling of its table.
template <class Record>
std::optional<sim::FieldValue> read_field(ObjectReader& reader, const sim::Field<Record>& field,
                                          const char* key) {
  const json* const value = reader.any(key);
  if (!value) return std::nullopt;
  const std::optional<sim::FieldValue> plain = field_value_of(*value);
  const std::optional<sim::FieldValue> right = plain ? checked(field, *plain) : std::nullopt;
  if (!right && field.kind == sim::FieldKind::Word) reader.one_of(key, field.words);
  if (!right) reader.refuse(key, expected_values(field) + " is expected");
  return right;
}

// Fields of one object, which is a section or one in it: those whose key begins with `prefix`.
template <class AnyField>
void read_fields(ObjectReader& reader, const std::string& prefix,
                 const std::vector<AnyField>& fields, sim::PartialRecord& record) {
  for (const AnyField& field : fields) {
    const std::string key = field.key.starts_with(prefix) ? field.key.substr(prefix.size()) : ".";
    if (key.find('.') != std::string::npos) continue;
    if (const auto value = read_field(reader, field, key.c_str())) record[field.key] = *value;
  }
}

// Those that fields stand in, but "bias", which may be one word: "moe", "mla", ...
std::set<std::string> objects_of_models() {
  std::set<std::string> names;
  for (const sim::TransformerField& field : sim::transformer_fields()) {
    const std::size_t dot = field.key.find('.');
    if (dot != std::string::npos) names.insert(field.key.substr(0, dot));
  }
  names.erase("bias");
  return names;
}

// An object of a model.
void read_object(ObjectReader& model, const std::string& name, sim::PartialTransformer& fields) {
  std::optional<ObjectReader> reader = model.object(name.c_str());
  if (!reader) return;
  read_fields(*reader, name + ".", sim::transformer_fields(), fields);
  reader->finish();
  for (const sim::TransformerField& field : sim::transformer_fields()) {
    if (field.needed && field.key.starts_with(name + ".") && !fields.contains(field.key))
      reader->refuse(field.key.substr(name.size() + 1), "is missing; " + name + " needs it");
  }
}

// One word for all layers, or which layers have a bias; those that are not named have none.
void read_bias(ObjectReader& model, RecordedModel& m) {
  const json* const bias = model.any("bias");
  if (!bias || !bias->is_object()) {
    m.bias = model.boolean("bias");
    return;
  }
  m.fields.insert({{"bias.qkv", false},
                   {"bias.attention_output", false},
                   {"bias.mlp", false},
                   {"bias.norm", false},
                   {"bias.head", false}});
  read_object(model, "bias", m.fields);
}

RecordedModel read_model(ObjectReader reader) {
  RecordedModel m;
  m.name = reader.text("name");
  m.architecture =
      reader.one_of("architecture", {"decoder", "encoder", "hybrid", "vision-language", "other"});
  read_fields(reader, "", sim::transformer_fields(), m.fields);
  read_bias(reader, m);
  for (const std::string& object : objects_of_models()) read_object(reader, object, m.fields);
  m.num_parameters = reader.integer("num_parameters", 1, std::int64_t{1} << 53);
  m.trainable = reader.one_of("trainable", {"all", "lora", "adapter"});
  if (std::optional<ObjectReader> lora = reader.object("lora")) {
    m.lora_rank = lora->count("rank");
    m.lora_targets = lora->texts("targets");
    lora->finish();
  }
  reader.finish();
  return m;
}

RecordedHardware read_hardware(ObjectReader reader) {
  RecordedHardware h;
  h.accelerator = reader.text("accelerator");
  h.system = reader.text("system");
  h.num_devices = reader.count("num_devices");
  h.devices_per_node = reader.count("devices_per_node");
  h.inter_node_bytes_per_s_per_device = reader.number("inter_node_bytes_per_s_per_device", 1.0);
  h.transport = reader.one_of("transport", sim::all_names<sim::Transport>());
  h.collective_algorithm =
      reader.one_of("collective_algorithm", sim::all_names<sim::CollectiveAlgorithm>());
  reader.finish();
  return h;
}

sim::SettingValues read_settings(ObjectReader& reader) {
  sim::SettingValues settings;
  for (const Setting& setting : run_settings()) {
    const json* const value = reader.any(setting.key);
    if (!value) continue;
    const std::optional<sim::FieldValue> plain = field_value_of(*value);
    if (!plain || !can_have(setting, *plain))
      reader.refuse(setting.key, values_of(setting) + " is expected");
    settings[setting.key] = *plain;
  }
  return settings;
}

RecordedTraining read_training(ObjectReader reader) {
  RecordedTraining t;
  t.framework = reader.text("framework");
  t.framework_version = reader.text("framework_version");
  t.framework_detail = reader.text("framework_detail");
  t.precision_detail = reader.text("precision_detail");
  read_fields(reader, "", sim::strategy_fields(), t.strategy);
  t.num_microbatches = reader.count("num_microbatches");
  t.replicate_size = reader.count("replicate_size");
  t.dp_overlap = reader.boolean("dp_overlap");
  t.settings = read_settings(reader);
  if (std::optional<ObjectReader> recompute = reader.object("recompute")) {
    read_fields(*recompute, "recompute.", sim::strategy_fields(), t.strategy);
    t.recompute_detail = recompute->text("detail");
    recompute->finish();
  }
  if (std::optional<ObjectReader> offload = reader.object("offload")) {
    read_fields(*offload, "offload.", sim::strategy_fields(), t.strategy);
    offload->finish();
  }
  reader.finish();
  return t;
}

Measured read_measured(ObjectReader reader) {
  Measured m;
  if (const std::optional<double> time = reader.number("step_time_s", 1e-9))
    m.step_time = sim::Seconds(*time);
  m.step_time_derived_from = reader.text("step_time_derived_from");
  m.tokens_per_second_per_device = reader.number("tokens_per_s_per_device", 0.0);
  m.reported_tflops_per_device = reader.number("reported_tflops_per_device", 0.0);
  m.reported_mfu = reader.number("reported_mfu", 0.0);
  m.reported_hfu = reader.number("reported_hfu", 0.0);
  m.flops_convention = reader.text("flops_convention");
  if (const std::optional<double> peak = reader.number("peak_memory_bytes", 1.0))
    m.peak_memory = sim::Bytes(*peak);
  m.memory_kind = reader.one_of("memory_kind", {"allocated", "reserved", "device"});
  m.memory_scope = reader.one_of("memory_scope", {"max-rank", "last-stage", "first-or-last-stage"});
  m.outcome = reader.one_of("outcome", {"ok", "oom", "crash", "flaky", "feasible"});
  reader.finish();
  return m;
}

Scored read_scored(ObjectReader reader) {
  Scored s;
  s.step_time = reader.boolean("step_time").value_or(false);
  s.memory = reader.boolean("memory").value_or(false);
  s.outcome = reader.boolean("outcome").value_or(false);
  reader.finish();
  return s;
}

RunRecord read_record(const json& value, const std::string& file, const std::string& id,
                      const std::string& group) {
  ObjectReader reader(value, file + ": run " + id);
  reader.refuse_control_characters();
  RunRecord record;
  record.file = file;
  record.id = id;
  reader.any("schema");
  reader.text("id");
  record.group = reader.text("group").value_or(group);
  record.source = reader.text("source");
  record.date = reader.text("date");
  if (record.date && !is_date(*record.date))
    reader.refuse("date", "a date as \"YYYY-MM-DD\" is expected");
  record.notes = reader.text("notes");
  record.noise = reader.number("noise", 0.0);
  reader.any("inferred");
  if (std::optional<ObjectReader> model = reader.object("model")) record.model = read_model(*model);
  if (std::optional<ObjectReader> hardware = reader.object("hardware"))
    record.hardware = read_hardware(*hardware);
  if (std::optional<ObjectReader> training = reader.object("training"))
    record.training = read_training(*training);
  if (std::optional<ObjectReader> measured = reader.object("measured"))
    record.measured = read_measured(*measured);
  if (std::optional<ObjectReader> scored = reader.object("scored"))
    record.scored = read_scored(*scored);
  reader.finish();
  return record;
}

// The id of a run, or its place in the file.
std::string id_of(const json& value, std::size_t index) {
  const std::string id = value.is_object() ? text(value, "id") : "";
  if (!id.empty() && !has_control_characters(id)) return id;
  return "number " + std::to_string(index + 1);
}

// Texts of the file itself; one run with a bad text does not refuse the others.
void check_texts_beside_runs(json document, const std::string& file) {
  document.erase("runs");
  ObjectReader(document, file).refuse_control_characters();
}

void add_run(RunFile& file, const json& value, std::set<std::string>& seen) {
  const std::string id = id_of(value, seen.size());
  try {
    if (!seen.insert(id).second) throw Error(file.file + ": run " + id + ": this id appears twice");
    file.runs.push_back(read_record(value, file.file, id, file.group));
  } catch (const Error& error) {
    file.rejected.push_back({id, error.what()});
  }
}

// What `predict --format json` prints has the run under "run", as it was resolved; null: it is no
// such answer.
const json* run_of_answer(const json& document) {
  if (!document.is_object() || document.contains("model") || document.contains("runs"))
    return nullptr;
  const auto run = document.find("run");
  return run != document.end() && run->is_object() ? &*run : nullptr;
}

}  // namespace

RunFile parse_runs(const std::string& text, const std::string& file) {
  const json document = parse_json(text, file);
  ObjectReader reader(document, file);
  RunFile result{
      .file = file, .group = {}, .description = {}, .unmodelled = {}, .runs = {}, .rejected = {}};
  std::set<std::string> seen;
  if (const json* answered = run_of_answer(document)) {
    add_run(result, *answered, seen);
    return result;
  }
  if (!document.contains("runs")) {
    result.group = reader.text("group").value_or("");
    add_run(result, document, seen);
    return result;
  }
  if (reader.integer("schema", 1, 1 << 20).value_or(2) != 2)
    reader.refuse(
        "schema",
        "this program reads schema 2; tests/validation/convert_runs.py IN OUT converts schema 1");
  check_texts_beside_runs(document, file);
  result.group = reader.text("group").value_or("");
  result.description = reader.text("description").value_or("");
  result.unmodelled = reader.text("unmodelled").value_or("");
  reader.texts("caveats");
  const json* runs = reader.any("runs");
  reader.finish();
  if (!runs || !runs->is_array()) reader.refuse("runs", "a list of runs is expected");
  for (const json& run : *runs) add_run(result, run, seen);
  return result;
}

RunFile read_runs(const std::string& path) { return parse_runs(content_of_file(path), path); }

RunRecord parse_run(const std::string& text, const std::string& file_name) {
  RunFile file = parse_runs(text, file_name);
  if (!file.rejected.empty()) throw Error(file.rejected.front().reason);
  if (file.runs.size() != 1)
    throw Error(file_name + ": holds " + std::to_string(file.runs.size()) +
                " runs; one run is expected");
  return std::move(file.runs.front());
}

RunRecord read_run(const std::string& path) { return parse_run(content_of_file(path), path); }

}  // namespace llmsim::hwdb
