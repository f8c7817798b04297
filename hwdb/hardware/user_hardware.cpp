#include "hwdb/hardware/user_hardware.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hwdb/frameworks/frameworks.h"
#include "hwdb/hardware/coefficients.h"
#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/json_reader.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

// facts/hardware_fields.json: the fields of records and their kinds.
const json& description() {
  static const json fields =
      parse_json(std::string(shipped_hardware_fields_json()), "facts/hardware_fields.json");
  return fields;
}

constexpr std::size_t kLongestId = 64, kLongestSite = 100;

// What the whole document and the database know: names that a record may refer to, or must not
// take.
struct Context {
  const Database& database;
  bool replace = false;
  std::vector<std::string> accelerators;  // ids of this document
  std::vector<std::string> systems;
};

// "; did you mean 160e9?": the value with the power of ten that brings it nearest to the usual one.
std::string did_you_mean_power(const std::string& digits, double value, const json& range) {
  int best = 0;
  for (const int power : {3, 6, 9, 12, 15}) {
    const double off = std::log10(value / range["usual"].get<double>());
    if (std::abs(off + power) < std::abs(off + best)) best = power;
  }
  const double scaled = value * std::pow(10.0, best);
  if (best == 0 || scaled < range["least"] || scaled > range["most"] ||
      digits.find('e') != std::string::npos)
    return "";
  return "; did you mean " + digits + "e" + std::to_string(best) + "?";
}

// Digits as people type them: 160 for 160.0, 1e+08 for 100000000.
std::string short_number(double value) { return fmt::format("{:g}", value); }

// `range`: what such a number can be in SI units, and what it usually is.
void check_number(ObjectReader& reader, const char* key, const json& range) {
  const auto value = reader.number(key, 0.0);
  if (!value || (range.contains("or_zero") && *value == 0.0) ||
      (*value >= range["least"] && *value <= range["most"]))
    return;
  const std::string near = *value > 0.0 && *value < range["least"]
                               ? did_you_mean_power(short_number(*value), *value, range)
                               : "";
  reader.refuse(key, short_number(range["least"]) + " to " + short_number(range["most"]) + " " +
                         range["unit"].get<std::string>() + " is expected" + near);
}

void require(ObjectReader& reader, const char* key) {
  if (!reader.any(key)) reader.refuse(key, "is missing");
}

// An id is what people type and what other records refer to.
std::string checked_id(ObjectReader& reader) {
  const auto id = reader.text("id");
  if (!id)
    reader.refuse("id",
                  "is missing: a short name of lower-case letters, digits and '_' is expected");
  const bool plain = std::all_of(id->begin(), id->end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (id->empty() || id->size() > kLongestId || !plain) {
    reader.refuse("id", "1 to 64 lower-case letters, digits and '_' are expected");
  }
  return *id;
}

void check_source(ObjectReader& reader) {
  require(reader, "source");
  const json* source = reader.any("source");
  const bool map = source->is_object() && !source->empty() &&
                   std::all_of(source->begin(), source->end(),
                               [](const json& where) { return where.is_string(); });
  if (!map && !(source->is_string() && !source->get<std::string>().empty())) {
    reader.refuse(
        "source",
        "a text that says where the figures come from is expected, or an object {fields: text}");
  }
}

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

void check_reference(const ObjectReader& reader, const char* key, const std::string& name,
                     HardwareKind kind, const Context& context) {
  const std::vector<std::string>& own =
      kind == HardwareKind::System ? context.systems : context.accelerators;
  const auto known = context.database.find(kind, name);
  if (contains(own, name) || (known && known->id == name)) return;
  std::vector<std::string> names = own;
  for (const HardwareRow& row : context.database.list(kind)) names.push_back(row.id);
  reader.refuse(key, "no such id" + did_you_mean(name, names));
}

void check_free(const ObjectReader& reader, const char* key, const std::string& name,
                const std::string& id, HardwareKind kind, const Context& context) {
  const auto known = context.database.find(kind, name);
  if (!known || context.replace || (known->id == id && known->origin == Origin::User && name != id))
    return;
  const std::string origin =
      known->origin == Origin::Shipped ? "shipped with llmsim" : "one that was added before";
  reader.refuse(key, "'" + name + "' is taken by " + known->id + ", " + origin +
                         "; choose another, or use --replace");
}

void check_names(ObjectReader& reader, const std::string& id, HardwareKind kind,
                 const Context& context) {
  check_free(reader, "id", id, id, kind, context);
  for (const std::string& alias : reader.texts("aliases")) {
    if (alias.empty() || alias.size() > kLongestId)
      reader.refuse("aliases", "names of 1 to 64 characters are expected");
    check_free(reader, "aliases", alias, id, kind, context);
  }
}

void check_fields(ObjectReader& reader, const json& fields);

// `kind` is of text, texts, flag, and those of the description.
void check_field(ObjectReader& reader, const char* key, const std::string& kind) {
  const json& known = description();
  const auto words = known["words"].find(kind), counts = known["counts"].find(kind),
             object = known["objects"].find(kind);
  if (kind == "text") {
    reader.text(key);
  } else if (kind == "texts") {
    reader.texts(key);
  } else if (kind == "flag") {
    reader.boolean(key);
  } else if (words != known["words"].end()) {
    reader.one_of(key, *words);
  } else if (counts != known["counts"].end()) {
    reader.integer(key, counts->at(0), counts->at(1));
  } else if (object != known["objects"].end()) {
    std::optional<ObjectReader> inner = reader.object(key);
    if (!inner) return;
    check_fields(*inner, *object);
    inner->finish();
  } else {
    check_number(reader, key, known["ranges"].at(kind));
  }
}

void check_fields(ObjectReader& reader, const json& fields) {
  const std::string needed = " needed";
  for (const auto& [key, value] : fields.items()) {
    std::string kind = value;
    if (kind.ends_with(needed)) {
      require(reader, key.c_str());
      kind.resize(kind.size() - needed.size());
    }
    check_field(reader, key.c_str(), kind);
  }
}

void check_peaks_and_memory(ObjectReader& reader) {
  if (!reader.any("peak_fp32_vector_flops") && !reader.any("peak_fp16_flops") &&
      !reader.any("peak_bf16_flops"))
    reader.refuse("peak_bf16_flops",
                  "is missing: dense FLOP/s are expected, here or as peak_fp16_flops or "
                  "peak_fp32_vector_flops");
  const auto usable = reader.number("hbm_usable_bytes", 0.0);
  if (usable && *usable > *reader.number("hbm_bytes", 0.0))
    reader.refuse("hbm_usable_bytes", "at most hbm_bytes is expected");
}

void check_accelerator(ObjectReader& reader, const Context& context) {
  const std::string id = checked_id(reader);
  check_names(reader, id, HardwareKind::Accelerator, context);
  check_source(reader);
  check_fields(reader, description()["objects"]["accelerator"]);
  check_peaks_and_memory(reader);
  if (const auto like = reader.text("like"))
    check_reference(reader, "like", *like, HardwareKind::Accelerator, context);
  if (const auto home = reader.text("default_system"))
    check_reference(reader, "default_system", *home, HardwareKind::System, context);
  reader.finish();
}

void check_system(ObjectReader& reader, const Context& context) {
  const std::string id = checked_id(reader);
  check_names(reader, id, HardwareKind::System, context);
  check_source(reader);
  const std::vector<std::string> accelerators = reader.texts("accelerator_ids");
  if (accelerators.empty())
    reader.refuse("accelerator_ids",
                  "is missing: a list of ids of accelerators is expected, the usual one first");
  for (const std::string& accelerator : accelerators) {
    check_reference(reader, "accelerator_ids", accelerator, HardwareKind::Accelerator, context);
  }
  check_fields(reader, description()["objects"]["system"]);
  if (const auto like = reader.text("like"))
    check_reference(reader, "like", *like, HardwareKind::System, context);
  reader.finish();
}

void check_hardware_coefficient(ObjectReader& reader, Coefficient& coefficient,
                                const Context& context) {
  const HardwareKind kind =
      coefficient.scope == "system" ? HardwareKind::System : HardwareKind::Accelerator;
  check_reference(reader, "id", coefficient.id, kind, context);
  const auto range = coefficient_range(coefficient.key);
  if (!range)
    reader.refuse("key", "unknown coefficient" + did_you_mean(coefficient.key, coefficient_keys()));
  coefficient.value = *reader.number("value", range->least);
  if (coefficient.value > range->most)
    reader.refuse("value", "at most " + shown(json(range->most)) + " is expected");
}

// What a site's values mean is said by their keys (runs/site.h); those of a later llmsim are kept.
void check_site_coefficient(ObjectReader& reader, Coefficient& coefficient,
                            const Context& context) {
  constexpr double kMost = 1e18;
  if (coefficient.id.empty() || coefficient.id.size() > kLongestSite)
    reader.refuse("id", "a name of 1 to 100 characters is expected");
  if (!context.replace && !context.database.coefficients("site", coefficient.id).empty())
    reader.refuse("id", "is taken by a stored site; choose another, or use --replace");
  coefficient.value = *reader.number("value", -kMost);
  if (coefficient.value > kMost) reader.refuse("value", "at most 1e18 is expected");
}

Coefficient checked_coefficient(ObjectReader& reader, const Context& context) {
  Coefficient coefficient;
  for (const char* key : {"scope", "id", "key", "value", "source"}) require(reader, key);
  coefficient.scope = *reader.one_of("scope", {"device", "system", "framework", "site"});
  coefficient.id = *reader.text("id");
  coefficient.key = *reader.text("key");
  if (coefficient.scope == "framework")
    coefficient.value = *reader.number("value", 0.0);
  else if (coefficient.scope == "site")
    check_site_coefficient(reader, coefficient, context);
  else
    check_hardware_coefficient(reader, coefficient, context);
  coefficient.standard_error = reader.number("standard_error", 0.0);
  coefficient.evidence =
      evidence_named(
          reader.one_of("evidence", {"data_sheet", "measured", "fitted", "assumed", "given"})
              .value_or("given"))
          .value();
  coefficient.source = *reader.text("source");
  coefficient.fitted_from = reader.text("fitted_from").value_or("");
  reader.finish();
  // Refuses what is wrong.
  if (coefficient.scope == "framework") Frameworks::shipped().put(coefficient);
  return coefficient;
}

// A record as the shipped ones are: with a name, and a node's injection where only adapters were
// given.
json completed(json record) {
  if (!record.contains("name") || record["name"].is_null()) record["name"] = record["id"];
  if (record.contains("aliases") && record["aliases"].is_string())
    record["aliases"] = json::array({record["aliases"]});
  if (record.contains("accelerator_ids") && record["accelerator_ids"].is_string())
    record["accelerator_ids"] = json::array({record["accelerator_ids"]});
  if (record.contains("inter") && record["inter"].is_object()) {
    json& inter = record["inter"];
    constexpr const char* kInjection = "node_injection_bytes_per_s_per_direction";
    const bool adapters = inter.contains("nics_per_node") && inter.contains("nic_bits_per_s");
    if (!inter.contains(kInjection) && adapters && inter["nics_per_node"].is_number() &&
        inter["nic_bits_per_s"].is_number()) {
      inter[kInjection] =
          inter["nics_per_node"].get<double>() * inter["nic_bits_per_s"].get<double>() / 8.0;
    }
  }
  return record;
}

const json& list_of(const json& document, const char* list) {
  static const json none = json::array();
  const auto found = document.find(list);
  return found == document.end() || found->is_null() ? none : *found;
}

// The records of one list, each with a reader that names it in messages.
template <typename Visit>
void for_each_record(const json& document, const char* list, const std::string& file, Visit visit) {
  const json& records = list_of(document, list);
  if (!records.is_array())
    throw Error(file + ": " + list + " = " + shown(records) + ": a list [ ... ] is expected");
  for (std::size_t i = 0; i < records.size(); ++i) {
    ObjectReader reader(records[i], file, std::string(list) + "[" + std::to_string(i) + "]");
    visit(reader);
  }
}

std::vector<std::string> ids_of(const json& document, const char* list, const std::string& file) {
  std::vector<std::string> ids;
  for_each_record(document, list, file, [&](ObjectReader& reader) {
    const std::string id = checked_id(reader);
    if (contains(ids, id)) reader.refuse("id", "stands twice in this file");
    ids.push_back(id);
  });
  return ids;
}

void check_lists(const json& document, const std::string& file) {
  ObjectReader reader(document, file);
  const bool any =
      reader.any("accelerators") || reader.any("systems") || reader.any("coefficients");
  reader.any("systems");
  reader.any("coefficients");
  reader.finish();
  if (!any)
    throw Error(file +
                ": none of accelerators, systems and coefficients is given: one of these lists is "
                "expected");
}

}  // namespace

AddedHardware add_hardware(Database& database, const std::string& text, const std::string& file,
                           bool replace) {
  const json document = parse_json(text, file);
  check_lists(document, file);
  Context context{database, replace, ids_of(document, "accelerators", file),
                  ids_of(document, "systems", file)};
  std::vector<Coefficient> coefficients;
  for_each_record(document, "accelerators", file,
                  [&](ObjectReader& reader) { check_accelerator(reader, context); });
  for_each_record(document, "systems", file,
                  [&](ObjectReader& reader) { check_system(reader, context); });
  for_each_record(document, "coefficients", file, [&](ObjectReader& reader) {
    coefficients.push_back(checked_coefficient(reader, context));
  });

  database.in_transaction([&] {
    for (const json& record : list_of(document, "accelerators"))
      database.put_hardware(HardwareKind::Accelerator, completed(record).dump());
    for (const json& record : list_of(document, "systems"))
      database.put_hardware(HardwareKind::System, completed(record).dump());
    for (const Coefficient& coefficient : coefficients)
      if (coefficient.scope == "site") database.forget("site", coefficient.id);
    for (const Coefficient& coefficient : coefficients) database.put(coefficient);
  });
  return {context.accelerators, context.systems, static_cast<int>(coefficients.size())};
}

}  // namespace llmsim::hwdb
