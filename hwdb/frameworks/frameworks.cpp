#include "hwdb/frameworks/frameworks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string_view>

#include "hwdb/frameworks/framework_fields.h"
#include "hwdb/frameworks/settings.h"
#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/date.h"
#include "hwdb/text/json_reader.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

std::string read_until(ObjectReader& reader) {
  const std::string until = reader.text("until").value_or("");
  if (!until.empty() && !is_date(until))
    reader.refuse("until", "a date as \"YYYY-MM-DD\" is expected");
  return until;
}

// `name` is the key in the file under which the value of field `key` stands.
Frameworks::Field read_value(ObjectReader& reader, const char* name, const std::string& key,
                             const std::string& place) {
  Frameworks::Field field{
      .key = key, .value = {}, .evidence = {}, .source = {}, .until = read_until(reader)};
  const json* content = reader.any(name);
  const std::optional<std::string> evidence =
      reader.one_of("evidence", {"data_sheet", "measured", "fitted", "assumed"});
  const std::optional<std::string> source = reader.text("source");
  reader.finish();
  if (!content || !evidence || !source)
    throw Error(place + ": " + key + ": " + name + ", evidence and source are all needed");
  field.value = content->dump();
  field.evidence = *evidence_named(*evidence);
  field.source = *source;
  FrameworkChoice probe;
  set_field(probe, key, *content, place);
  return field;
}

// One value, or a list of values with dates, first to last.
void read_field(const std::string& key, const json& value, const std::string& place,
                std::vector<Frameworks::Field>& fields) {
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

std::vector<Frameworks::Field> read_fields(ObjectReader& reader, const char* key,
                                           const std::string& place) {
  std::vector<Frameworks::Field> fields;
  const std::optional<ObjectReader> object = reader.object(key);
  if (!object) return fields;
  for (const auto& [name, value] : object->value().items()) read_field(name, value, place, fields);
  return fields;
}

// Those that hold at `date`: of each key the first that has not ended.
std::vector<Frameworks::Field> held_at(const std::vector<Frameworks::Field>& fields,
                                       const std::string& date) {
  std::vector<Frameworks::Field> held;
  for (const Frameworks::Field& field : fields) {
    const bool over = !field.until.empty() && (date.empty() || date >= field.until);
    const bool known = std::any_of(held.begin(), held.end(),
                                   [&](const Frameworks::Field& f) { return f.key == field.key; });
    if (!over && !known) held.push_back(field);
  }
  return held;
}

// Fields of `own` replace those of `inherited` that have the same key.
std::vector<Frameworks::Field> merged(std::vector<Frameworks::Field> inherited,
                                      const std::vector<Frameworks::Field>& own) {
  for (const Frameworks::Field& field : own) {
    std::erase_if(inherited, [&](const Frameworks::Field& old) { return old.key == field.key; });
    inherited.push_back(field);
  }
  return inherited;
}

const Frameworks::Record* find_record(const std::vector<Frameworks::Record>& records,
                                      const std::string& id) {
  for (const Frameworks::Record& record : records) {
    if (record.id == id) return &record;
  }
  return nullptr;
}

Frameworks::Record read_record(const json& value, const std::vector<Frameworks::Record>& before,
                               const std::string& file) {
  const std::optional<std::string> id = ObjectReader(value, file + ": frameworks").text("id");
  if (!id) throw Error(file + ": a framework has no id");
  const std::string place = file + ": framework " + *id;
  ObjectReader reader(value, place);
  reader.any("id");
  Frameworks::Record record{.id = *id,
                            .name = reader.text("name").value_or(""),
                            .like = reader.text("like").value_or(""),
                            .rules_of = reader.text("rules_of").value_or(""),
                            .fields = {},
                            .releases = {}};
  if (find_record(before, record.id)) throw Error(place + ": this id appears twice");
  for (const auto& [key, other] :
       {std::pair{"like", record.like}, std::pair{"rules_of", record.rules_of}}) {
    if (!other.empty() && !find_record(before, other))
      throw Error(place + ": " + key + " = " + other +
                  ": no framework before this one has that id");
  }
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
using Asked = std::string FrameworkQuery::*;
constexpr std::array<std::pair<const char*, Asked>, 7> kConditions = {
    {{"framework", &FrameworkQuery::framework},
     {"precision", &FrameworkQuery::precision},
     {"architecture", &FrameworkQuery::architecture},
     {"position", &FrameworkQuery::position},
     {"blocks", &FrameworkQuery::blocks},
     {"sharding", &FrameworkQuery::sharding},
     {"trainable", &FrameworkQuery::trainable}}};

// A value of a condition on a setting must be one that the setting can have.
void check_condition(const Frameworks::Condition& condition, const std::string& place) {
  const Setting* const setting = find_setting(condition.key);
  for (const std::string& value : condition.values) {
    if (setting) setting_from(*setting, place + ": when." + condition.key, value);
  }
}

std::vector<Frameworks::Condition> read_conditions(ObjectReader& reader, const std::string& place) {
  std::vector<Frameworks::Condition> conditions;
  std::optional<ObjectReader> when = reader.object("when");
  if (!when) return conditions;
  const auto read = [&](const char* key) {
    std::vector<std::string> values = when->texts(key);
    if (!values.empty()) conditions.push_back({key, std::move(values)});
  };
  for (const auto& [key, member] : kConditions) read(key);
  for (const Setting& setting : run_settings()) read(setting.key);
  when->finish();
  for (const Frameworks::Condition& condition : conditions) check_condition(condition, place);
  return conditions;
}

Frameworks::Rule read_rule(const json& value, const std::string& place) {
  ObjectReader reader(value, place);
  Frameworks::Rule rule{.when = read_conditions(reader, place), .set = {}};
  if (rule.when.empty()) throw Error(place + ": a rule needs a condition in \"when\"");
  rule.set = read_fields(reader, "set", place);
  reader.finish();
  return rule;
}

Frameworks::Rule read_kernel(const json& value, const std::string& place) {
  ObjectReader reader(value, place);
  Frameworks::Rule rule{.when = read_conditions(reader, place), .set = {}};
  rule.set.push_back(read_value(reader, "kernel", "attention_kernel", place));
  return rule;
}

std::vector<Frameworks::Rule> read_rules(ObjectReader& reader, const char* key,
                                         Frameworks::Rule (*read)(const json&, const std::string&),
                                         const std::string& file) {
  std::vector<Frameworks::Rule> rules;
  for (const json& value : reader.list(key))
    rules.push_back(read(value, file + ": " + key + " " + std::to_string(rules.size() + 1)));
  return rules;
}

bool holds(const std::string& key, const std::string& wanted, const FrameworkQuery& query) {
  for (const auto& [name, member] : kConditions) {
    if (key != name) continue;
    return key == "architecture" ? (query.*member).starts_with(wanted) : query.*member == wanted;
  }
  const auto stated = query.settings.find(key);
  return stated != query.settings.end() && sim::text_of(stated->second) == wanted;
}

bool holds(const Frameworks::Condition& condition, const FrameworkQuery& query) {
  return std::any_of(
      condition.values.begin(), condition.values.end(),
      [&](const std::string& wanted) { return holds(condition.key, wanted, query); });
}

bool applies(const Frameworks::Rule& rule, const FrameworkQuery& query) {
  return std::all_of(
      rule.when.begin(), rule.when.end(),
      [&](const Frameworks::Condition& condition) { return holds(condition, query); });
}

FrameworkChoice choice_of(const std::string& id, const std::vector<Frameworks::Field>& fields) {
  FrameworkChoice choice;
  choice.framework.id = id;
  for (const Frameworks::Field& field : fields) {
    set_field(choice, field.key, json::parse(field.value), "framework " + id);
    choice.facts.push_back(
        {"framework." + id + "." + field.key, field.value, field.evidence, field.source});
  }
  return choice;
}

// Whole numbers up to here are exact as doubles.
constexpr double kExact = 1e15;

json json_of(const sim::FieldValue& value) {
  if (const bool* const on = std::get_if<bool>(&value)) return *on;
  if (const std::string* const word = std::get_if<std::string>(&value)) return *word;
  const double number = sim::number_of(value).value_or(0.0);
  if (number == std::floor(number) && std::abs(number) < kExact)
    return static_cast<std::uint64_t>(number);
  return number;
}

// In the field that a setting sets.  A number format is its bytes where these are stored, and fp32
// or not where a field asks that.
json meaning_of(const Setting& setting, const sim::FieldValue& value) {
  static const std::map<std::string, int> bytes = {{"none", 0}, {"fp8", 1},  {"int8", 1},
                                                   {"fp16", 2}, {"bf16", 2}, {"fp32", 4}};
  const std::string_view field = setting.field;
  if (field.starts_with("storage.")) return bytes.at(sim::text_of(value));
  if (field.ends_with("_in_fp32")) return sim::text_of(value) == "fp32";
  return json_of(value);
}

}  // namespace

Frameworks Frameworks::parse(const std::string& text, const std::string& file) {
  const json document = parse_json(text, file);
  ObjectReader reader(document, file);
  reader.count("schema");
  reader.any("about");
  Frameworks frameworks;
  const json* records = reader.any("frameworks");
  if (!records || !records->is_array()) throw Error(file + ": \"frameworks\" must be a list");
  for (const json& value : *records) {
    frameworks.records_.push_back(read_record(value, frameworks.records_, file));
  }
  frameworks.kernels_ = read_rules(reader, "attention_kernels", read_kernel, file);
  frameworks.rules_ = read_rules(reader, "rules", read_rule, file);
  reader.finish();
  return frameworks;
}

Frameworks Frameworks::shipped() {
  return parse(std::string(shipped_frameworks_json()), "facts/frameworks.json");
}

FrameworkChoice Frameworks::choose(const FrameworkQuery& query) const {
  const Record* record = find_record(records_, query.framework);
  if (!record)
    throw Error("framework = " + query.framework + ": unknown training framework" +
                did_you_mean(query.framework, ids()));
  const std::string date = date_of(*record, query);
  FrameworkQuery other = query;
  other.framework = record->rules_of;
  const auto is_ruled = [&](const Rule& rule) {
    return applies(rule, query) || (!record->rules_of.empty() && applies(rule, other));
  };
  std::vector<Field> fields = fields_of(record->id, date);
  for (const Rule& rule : kernels_) {
    const std::vector<Field> kernel = held_at(rule.set, date);
    if (kernel.empty() || !is_ruled(rule)) continue;
    fields = merged(std::move(fields), kernel);
    break;
  }
  for (const Rule& rule : rules_) {
    if (is_ruled(rule)) fields = merged(std::move(fields), held_at(rule.set, date));
  }
  FrameworkChoice choice = choice_of(record->id, fields);
  apply_settings(query.settings, choice);
  return choice;
}

// The release of the stated version, of this framework or one that it is like, else the run's date.
std::string Frameworks::date_of(const Record& record, const FrameworkQuery& query) const {
  for (const Record* r = &record; r && !query.version.empty(); r = find_record(records_, r->like)) {
    for (const auto& [version, date] : r->releases) {
      if (query.version == version) return date;
    }
  }
  return query.date;
}

std::vector<Frameworks::Field> Frameworks::fields_of(const std::string& id,
                                                     const std::string& date) const {
  const Record* record = find_record(records_, id);
  return merged(record->like.empty() ? std::vector<Field>{} : fields_of(record->like, date),
                held_at(record->fields, date));
}

std::vector<std::string> Frameworks::lineage(const std::string& id, const std::string& key) const {
  std::vector<std::string> line;
  for (const Record* record = find_record(records_, id); record;
       record = find_record(records_, record->like)) {
    line.insert(line.begin(), record->id);
    const bool own = std::any_of(record->fields.begin(), record->fields.end(),
                                 [&](const Field& field) { return field.key == key; });
    if (own) break;
  }
  return line;
}

std::optional<double> Frameworks::number(const std::string& id, const std::string& key) const {
  if (!find_record(records_, id)) return std::nullopt;
  for (const Field& field : fields_of(id, "")) {
    const json value = json::parse(field.value);
    if (field.key == key && value.is_number()) return value.get<double>();
  }
  return std::nullopt;
}

void Frameworks::put(const Coefficient& coefficient) {
  const auto record = std::find_if(records_.begin(), records_.end(),
                                   [&](const Record& r) { return r.id == coefficient.id; });
  const std::string place = "coefficient of framework " + coefficient.id;
  if (record == records_.end())
    throw Error(place + ": unknown training framework" + did_you_mean(coefficient.id, ids()));
  const json value = coefficient.value;
  FrameworkChoice probe;
  set_field(probe, coefficient.key, value, place);
  record->fields = merged(std::move(record->fields), {{.key = coefficient.key,
                                                       .value = value.dump(),
                                                       .evidence = coefficient.evidence,
                                                       .source = coefficient.source,
                                                       .until = {}}});
}

std::vector<std::string> Frameworks::ids() const {
  std::vector<std::string> ids;
  for (const Record& record : records_) ids.push_back(record.id);
  return ids;
}

void set_coefficient(sim::Framework& framework, const std::string& key, double value) {
  FrameworkChoice choice;
  choice.framework = std::move(framework);
  set_field(choice, key, value, "framework " + choice.framework.id);
  framework = std::move(choice.framework);
}

void apply_settings(const sim::SettingValues& settings, FrameworkChoice& choice) {
  for (const auto& [key, value] : settings) {
    // Weights that are kept in fp8 are a second form of those in 16 bits, which the storage counts.
    if (key == "weight_dtype" && sim::text_of(value) == "fp8") {
      state_field(choice, "low_precision.stores_weights", true);
      continue;
    }
    if (key == "weight_dtype" && choice.framework.low_precision.stores_weights)
      state_field(choice, "low_precision.stores_weights", false);
    const Setting* const setting = find_setting(key);
    if (setting && *setting->field)
      state_field(choice, setting->field, meaning_of(*setting, value));
  }
  // DeepSpeed holds a bucket that fills and one that is reduced, of 16-bit gradients.
  if (const auto bucket = settings.find("reduce_bucket_size"); bucket != settings.end())
    state_field(choice, "reserve.framework", 4.0 * sim::number_of(bucket->second).value());
}

}  // namespace llmsim::hwdb
