#include "hwdb/stacks.h"

#include <algorithm>
#include <array>
#include <utility>

#include "hwdb/json_reader.h"
#include "hwdb/settings.h"
#include "hwdb/shipped_facts.h"
#include "hwdb/spelling.h"
#include "hwdb/stack_fields.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

// A date as run files write it, so that dates compare as text.
bool is_date(const std::string& text) {
  return text.size() == 10 && text[4] == '-' && text[7] == '-' && text.find_first_not_of("0123456789-") == std::string::npos;
}

std::string read_until(ObjectReader& reader) {
  const std::string until = reader.text("until").value_or("");
  if (!until.empty() && !is_date(until)) reader.refuse("until", "a date as \"YYYY-MM-DD\" is expected");
  return until;
}

// `name` is the key in the file under which the value of field `key` stands.
Stacks::Field read_value(ObjectReader& reader, const char* name, const std::string& key, const std::string& place) {
  Stacks::Field field{.key = key, .value = {}, .evidence = {}, .source = {}, .until = read_until(reader)};
  const json* content = reader.any(name);
  const std::optional<std::string> evidence = reader.one_of("evidence", {"data_sheet", "measured", "fitted", "assumed"});
  const std::optional<std::string> source = reader.text("source");
  reader.finish();
  if (!content || !evidence || !source) throw Error(place + ": " + key + ": " + name + ", evidence and source are all needed");
  field.value = content->dump();
  field.evidence = *evidence_named(*evidence);
  field.source = *source;
  StackChoice probe;
  set_field(probe, key, *content, place);
  return field;
}

// One value, or a list of values with dates, first to last.
void read_field(const std::string& key, const json& value, const std::string& place, std::vector<Stacks::Field>& fields) {
  std::optional<std::string> last;  // end of the value before; empty: it has none
  for (const json& one : value.is_array() ? value : json::array({value})) {
    ObjectReader reader(one, place, key);
    fields.push_back(read_value(reader, "value", key, place));
    const std::string& until = fields.back().until;
    if (last && (last->empty() || (!until.empty() && until <= *last)))
      throw Error(place + ": " + key + ": dates must rise, and a value without one comes last");
    last = until;
  }
}

std::vector<Stacks::Field> read_fields(ObjectReader& reader, const char* key, const std::string& place) {
  std::vector<Stacks::Field> fields;
  const std::optional<ObjectReader> object = reader.object(key);
  if (!object) return fields;
  for (const auto& [name, value] : object->value().items()) read_field(name, value, place, fields);
  return fields;
}

// Those that hold at `date`: of each key the first that has not ended.
std::vector<Stacks::Field> held_at(const std::vector<Stacks::Field>& fields, const std::string& date) {
  std::vector<Stacks::Field> held;
  for (const Stacks::Field& field : fields) {
    const bool over = !field.until.empty() && (date.empty() || date >= field.until);
    const bool known = std::any_of(held.begin(), held.end(), [&](const Stacks::Field& f) { return f.key == field.key; });
    if (!over && !known) held.push_back(field);
  }
  return held;
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
  Stacks::Record record{.id = *id,
                        .name = reader.text("name").value_or(""),
                        .like = reader.text("like").value_or(""),
                        .fields = {},
                        .releases = {}};
  if (find_record(before, record.id)) throw Error(place + ": this id appears twice");
  if (!record.like.empty() && !find_record(before, record.like))
    throw Error(place + ": like = " + record.like + ": no stack before this one has that id");
  record.fields = read_fields(reader, "fields", place);
  if (const std::optional<ObjectReader> releases = reader.object("releases")) {
    for (const auto& [version, date] : releases->value().items()) {
      if (!date.is_string() || !is_date(date.get<std::string>()))
        throw Error(place + ": releases." + version + ": a date as \"YYYY-MM-DD\" is expected");
      record.releases.emplace_back(version, date.get<std::string>());
    }
  }
  reader.finish();
  return record;
}

// What conditions ask of a run, beside its settings.
using Asked = std::string StackQuery::*;
constexpr std::array<std::pair<const char*, Asked>, 7> kConditions = {{{"framework", &StackQuery::framework},
                                                                       {"precision", &StackQuery::precision},
                                                                       {"architecture", &StackQuery::architecture},
                                                                       {"position", &StackQuery::position},
                                                                       {"blocks", &StackQuery::blocks},
                                                                       {"sharding", &StackQuery::sharding},
                                                                       {"trainable", &StackQuery::trainable}}};

// A value of a condition on a setting must be one that the setting can have.
void check_condition(const Stacks::Condition& condition, const std::string& place) {
  const Setting* const setting = find_setting(condition.key);
  for (const std::string& value : condition.values) {
    if (setting) setting_from(*setting, place + ": when." + condition.key, value);
  }
}

std::vector<Stacks::Condition> read_conditions(ObjectReader& reader, const std::string& place) {
  std::vector<Stacks::Condition> conditions;
  std::optional<ObjectReader> when = reader.object("when");
  if (!when) return conditions;
  const auto read = [&](const char* key) {
    std::vector<std::string> values = when->texts(key);
    if (!values.empty()) conditions.push_back({key, std::move(values)});
  };
  for (const auto& [key, member] : kConditions) read(key);
  for (const Setting& setting : run_settings()) read(setting.key);
  when->finish();
  for (const Stacks::Condition& condition : conditions) check_condition(condition, place);
  return conditions;
}

Stacks::Rule read_rule(const json& value, const std::string& place) {
  ObjectReader reader(value, place);
  Stacks::Rule rule{.when = read_conditions(reader, place), .set = {}};
  if (rule.when.empty()) throw Error(place + ": a rule needs a condition in \"when\"");
  rule.set = read_fields(reader, "set", place);
  reader.finish();
  return rule;
}

Stacks::Rule read_kernel(const json& value, const std::string& place) {
  ObjectReader reader(value, place);
  Stacks::Rule rule{.when = read_conditions(reader, place), .set = {}};
  rule.set.push_back(read_value(reader, "kernel", "attention_kernel", place));
  return rule;
}

std::vector<Stacks::Rule> read_rules(ObjectReader& reader, const char* key, Stacks::Rule (*read)(const json&, const std::string&),
                                     const std::string& file) {
  std::vector<Stacks::Rule> rules;
  const json* const list = reader.any(key);
  if (!list) return rules;
  if (!list->is_array()) throw Error(file + ": \"" + key + "\" must be a list");
  for (const json& value : *list) rules.push_back(read(value, file + ": " + key + " " + std::to_string(rules.size() + 1)));
  return rules;
}

bool holds(const std::string& key, const std::string& wanted, const StackQuery& query) {
  for (const auto& [name, member] : kConditions) {
    if (key != name) continue;
    return key == "architecture" ? (query.*member).starts_with(wanted) : query.*member == wanted;
  }
  const auto stated = query.settings.find(key);
  return stated != query.settings.end() && sim::text_of(stated->second) == wanted;
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
  stacks.kernels_ = read_rules(reader, "attention_kernels", read_kernel, file);
  stacks.rules_ = read_rules(reader, "rules", read_rule, file);
  reader.finish();
  return stacks;
}

Stacks Stacks::shipped() { return parse(std::string(shipped_stacks_json()), "facts/stacks.json"); }

StackChoice Stacks::choose(const StackQuery& query) const {
  const Record* record = find_record(records_, query.framework);
  if (!record) throw Error("framework = " + query.framework + ": unknown training stack" + did_you_mean(query.framework, ids()));
  const std::string date = date_of(*record, query);
  std::vector<Field> fields = fields_of(record->id, date);
  for (const Rule& rule : kernels_) {
    const std::vector<Field> kernel = held_at(rule.set, date);
    if (kernel.empty() || !applies(rule, query)) continue;
    fields = merged(std::move(fields), kernel);
    break;
  }
  for (const Rule& rule : rules_) {
    if (applies(rule, query)) fields = merged(std::move(fields), held_at(rule.set, date));
  }
  StackChoice choice = choice_of(record->id, fields);
  apply_settings(query.settings, choice);
  return choice;
}

// The release of the stated version, of this framework or one that it is like, else the run's date.
std::string Stacks::date_of(const Record& record, const StackQuery& query) const {
  for (const Record* r = &record; r && !query.version.empty(); r = find_record(records_, r->like)) {
    for (const auto& [version, date] : r->releases) {
      if (query.version == version) return date;
    }
  }
  return query.date;
}

std::vector<Stacks::Field> Stacks::fields_of(const std::string& id, const std::string& date) const {
  const Record* record = find_record(records_, id);
  return merged(record->like.empty() ? std::vector<Field>{} : fields_of(record->like, date), held_at(record->fields, date));
}

std::optional<double> Stacks::number(const std::string& id, const std::string& key) const {
  if (!find_record(records_, id)) return std::nullopt;
  for (const Field& field : fields_of(id, "")) {
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
  record->fields = merged(std::move(record->fields), {{.key = coefficient.key,
                                                       .value = value.dump(),
                                                       .evidence = coefficient.evidence,
                                                       .source = coefficient.source,
                                                       .until = {}}});
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
