#include "hwdb/runs/run_schema.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "hwdb/frameworks/settings.h"
#include "hwdb/text/field_schema.h"
#include "sim/hardware/cluster.h"
#include "sim/model/transformer.h"
#include "sim/strategy/strategy.h"

namespace llmsim::hwdb {
namespace {

Schema described(Schema schema, const std::string& description) {
  if (!description.empty()) schema["description"] = description;
  return schema;
}

Schema count_schema() { return or_null(integer_schema(1, std::numeric_limits<int>::max())); }

// What an option's help says of the value itself: all up to its default and example.
std::string meaning(const std::string& help) {
  return help.substr(0, std::min(help.find("; default"), help.find("; example")));
}

std::string description_of(const sim::StrategyField& field) { return meaning(field.help); }
std::string description_of(const sim::TransformerField& field) {
  return field.costless ? "no cost depends on it" : "";
}

bool is_needed(const sim::StrategyField&) { return false; }
bool is_needed(const sim::TransformerField& field) { return field.needed; }

// Puts the fields of a table where they stand: "moe.top_k" in the object moe, which must have the
// fields that it needs.
template <class AnyField>
void add_fields(const std::vector<AnyField>& fields, Schema& properties) {
  for (const AnyField& field : fields) {
    const Schema plain = field_schema(field);
    const Schema value =
        described(is_needed(field) ? plain : or_null(plain), description_of(field));
    const std::size_t dot = field.key.find('.');
    if (dot == std::string::npos) {
      properties[field.key] = value;
      continue;
    }
    Schema& object = properties[field.key.substr(0, dot)];
    if (object.is_null()) object = or_null(object_schema(Schema::object()));
    object["properties"][field.key.substr(dot + 1)] = value;
    if (is_needed(field)) object["required"].push_back(field.key.substr(dot + 1));
  }
}

// One word for all layers, or which have one.
void let_bias_be_one_word(Schema& properties) {
  properties["bias"]["type"] = {"object", "boolean", "null"};
}

Schema model_schema() {
  constexpr double kMostParameters = 9007199254740992.0;  // 2^53
  Schema properties{
      {"name", described(or_null(plain_schema()), "as published; llmsim models list")},
      {"architecture",
       or_null(word_schema({"decoder", "encoder", "hybrid", "vision-language", "other"}))}};
  add_fields(sim::transformer_fields(), properties);
  let_bias_be_one_word(properties);
  properties["num_parameters"] = or_null(integer_schema(1, kMostParameters));
  properties["trainable"] = or_null(word_schema({"all", "lora", "adapter"}));
  properties["lora"] =
      or_null(object_schema({{"rank", count_schema()}, {"targets", or_null(texts_schema())}}));
  return or_null(object_schema(properties));
}

Schema hardware_schema_of_runs() {
  return or_null(object_schema(
      {{"accelerator", described(or_null(plain_schema()), "id; llmsim hardware list")},
       {"system", described(or_null(plain_schema()), "id; llmsim hardware list")},
       {"num_devices", count_schema()},
       {"devices_per_node", count_schema()},
       {"inter_node_bytes_per_s_per_device",
        described(or_null(number_schema(1.0)), "one direction")},
       {"transport", or_null(word_schema(sim::all_names<sim::Transport>()))},
       {"collective_algorithm",
        or_null(word_schema(sim::all_names<sim::CollectiveAlgorithm>()))}}));
}

Schema training_schema() {
  Schema properties;
  for (const char* key : {"framework", "framework_version", "framework_detail", "precision_detail"})
    properties[key] = or_null(plain_schema());
  add_fields(sim::strategy_fields(), properties);
  properties["num_microbatches"] = count_schema();
  properties["replicate_size"] = count_schema();
  properties["dp_overlap"] =
      described(or_null(flag_schema()), "both gradient_overlap and gather_overlap");
  for (const Setting& setting : run_settings())
    properties[setting.key] = described(
        or_null(field_schema(setting.kind, setting.words, {}, setting.least, setting.most)),
        setting.help);
  properties["recompute"]["properties"]["detail"] = or_null(plain_schema());
  return or_null(object_schema(properties));
}

Schema measured_schema() {
  constexpr double kLeastTime = 1e-9;
  const Schema text = or_null(plain_schema()), amount = or_null(number_schema(0.0));
  return or_null(object_schema(
      {{"step_time_s", or_null(number_schema(kLeastTime))},
       {"step_time_derived_from", text},
       {"tokens_per_s_per_device", amount},
       {"reported_tflops_per_device", amount},
       {"reported_mfu", amount},
       {"reported_hfu", amount},
       {"flops_convention", text},
       {"peak_memory_bytes", or_null(number_schema(1.0))},
       {"memory_kind", or_null(word_schema({"allocated", "reserved", "device"}))},
       {"memory_scope", or_null(word_schema({"max-rank", "last-stage", "first-or-last-stage"}))},
       {"outcome", or_null(word_schema({"ok", "oom", "crash", "flaky", "feasible"}))}}));
}

Schema scored_schema() {
  const Schema flag = or_null(flag_schema());
  return or_null(object_schema({{"step_time", flag}, {"memory", flag}, {"outcome", flag}}));
}

Schema one_run_schema() {
  const Schema text = or_null(plain_schema());
  const Schema date{{"type", {"string", "null"}}, {"pattern", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}};
  return object_schema(
      {{"schema", {{"description", "2"}}},
       {"id", text},
       {"group", text},
       {"source", text},
       {"date", described(date, "when the software was current, YYYY-MM-DD")},
       {"notes", text},
       {"noise", described(or_null(number_schema(0.0)), "relative spread stated by the source")},
       {"inferred", Schema::object()},
       {"model", definition("model")},
       {"hardware", definition("hardware")},
       {"training", definition("training")},
       {"measured", definition("measured")},
       {"scored", definition("scored")}});
}

Schema file_schema() {
  const Schema text = or_null(plain_schema());
  const Schema texts{
      {"anyOf",
       {plain_schema(), {{"type", "array"}, {"items", plain_schema()}}, {{"type", "null"}}}}};
  return object_schema({{"schema", {{"enum", {2, nullptr}}}},
                        {"group", text},
                        {"description", text},
                        {"unmodelled", text},
                        {"caveats", texts},
                        {"runs", {{"type", "array"}, {"items", definition("run")}}}},
                       {"runs"});
}

}  // namespace

std::string run_schema() {
  const Schema schema{
      {"$schema", kSchemaDialect},
      {"$id", "llmsim:run:2"},
      {"title", "Run file of llmsim"},
      {"description",
       "What was trained, on what, and how: input of llmsim predict; with \"measured\", of llmsim "
       "validate.  Units are SI and stand in the key; null: unknown, never zero."},
      {"if", {{"required", {"runs"}}}},
      {"then", definition("file")},
      {"else", definition("run")},
      {"$defs",
       {{"file", file_schema()},
        {"run", one_run_schema()},
        {"model", model_schema()},
        {"hardware", hardware_schema_of_runs()},
        {"training", training_schema()},
        {"measured", measured_schema()},
        {"scored", scored_schema()}}}};
  return schema.dump(2) + "\n";
}

}  // namespace llmsim::hwdb
