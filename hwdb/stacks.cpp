#include "hwdb/stacks.h"

#include <algorithm>

#include "hwdb/json_reader.h"
#include "hwdb/shipped_facts.h"
#include "hwdb/spelling.h"
#include "hwdb/stack_fields.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

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
                                                "precision_detail", "accelerator", "position", "blocks",           "sharding",
                                                "trainable",        "notes",       "words"};
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
  if (key == "blocks") return query.blocks;
  if (key == "trainable") return query.trainable;
  if (key == "notes") return query.notes;
  return query.sharding;
}

bool contains(const std::string& text, const std::string& wanted) { return text.find(wanted) != std::string::npos; }

bool holds(const std::string& key, const std::string& wanted, const StackQuery& query) {
  if (key == "words") return contains(query.framework_detail, wanted) || contains(query.notes, wanted);
  const std::string& value = asked(query, key);
  if (key == "before") return !value.empty() && value < wanted;
  if (key == "accelerator") return value.starts_with(wanted);
  if (key.ends_with("_detail") || key == "notes" || key == "model") return contains(value, wanted);
  return value == wanted;
}

bool holds(const Stacks::Condition& condition, const StackQuery& query) {
  return std::any_of(condition.values.begin(), condition.values.end(),
                     [&](const std::string& wanted) { return holds(condition.key, wanted, query); });
}

bool applies(const Stacks::Rule& rule, const StackQuery& query) {
  return std::all_of(rule.when.begin(), rule.when.end(),
                     [&](const Stacks::Condition& condition) { return holds(condition, query); });
}

StackChoice choice_of(const std::string& id, const std::vector<Stacks::Field>& fields) {
  StackChoice choice;
  choice.stack.id = id;
  for (const Stacks::Field& field : fields) {
    set_field(choice, field.key, json::parse(field.value), "stack " + id);
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
