#include "hwdb/hardware/hardware_document.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include <nlohmann/json.hpp>

#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using Json = nlohmann::ordered_json;

constexpr HardwareKind kKinds[] = {HardwareKind::Accelerator, HardwareKind::System};

const char* scope_of(HardwareKind kind) {
  return kind == HardwareKind::Accelerator ? "device" : "system";
}

const char* list_of(HardwareKind kind) {
  return kind == HardwareKind::Accelerator ? "accelerators" : "systems";
}

// Of the description of fields.
const char* kind_of(HardwareKind kind) {
  return kind == HardwareKind::Accelerator ? "accelerator" : "system";
}

// What every record may say.
constexpr std::string_view kOfAllRecords[] = {"id",   "source",          "aliases",
                                              "like", "accelerator_ids", "default_system"};

bool kind_of_record(std::string_view kind) { return kind == "accelerator" || kind == "system"; }

// Of the kind that knows the name.
struct Found {
  HardwareKind kind;
  HardwareRow row;
};

Found found(const Database& database, const std::string& name) {
  std::vector<std::string> names;
  for (const HardwareKind kind : kKinds) {
    if (const auto row = database.find(kind, name)) return {kind, *row};
    for (std::string& known : database.names(kind)) names.push_back(std::move(known));
  }
  throw Error(name + ": no accelerator or system has that name" + did_you_mean(name, names) +
              "; llmsim hardware list names all");
}

void add_coefficients(Json& document, const Database& database, const std::string& scope,
                      const std::string& id) {
  for (const Coefficient& row : database.coefficients(scope, id)) {
    if (row.origin != Origin::User) continue;
    Json entry{{"scope", row.scope}, {"id", row.id}, {"key", row.key}, {"value", row.value}};
    if (row.standard_error) entry["standard_error"] = *row.standard_error;
    entry["evidence"] = name_of(row.evidence);
    entry["source"] = row.source;
    if (!row.fitted_from.empty()) entry["fitted_from"] = row.fitted_from;
    document["coefficients"].push_back(std::move(entry));
  }
}

// What an object of a record says in fields that hardware add reads (facts/hardware_fields.json);
// records that ship say more.
Json readable(const Json& object, const Json& description, const std::string& kind) {
  Json kept = Json::object();
  const Json& fields = description["objects"][kind];
  for (const auto& [key, value] : object.items()) {
    const auto field = fields.find(key);
    const bool always =
        kind_of_record(kind) && std::ranges::find(kOfAllRecords, key) != std::end(kOfAllRecords);
    if (value.is_null() || (field == fields.end() && !always)) continue;
    const std::string inner = always ? "" : field->get<std::string>();
    const bool is_object = description["objects"].contains(inner);
    if (inner == "text" && !value.is_string()) continue;
    kept[key] = is_object ? readable(value, description, inner) : value;
  }
  return kept;
}

void add_record(Json& document, const Database& database, const Found& one) {
  Json& list = document[list_of(one.kind)];
  static const Json description = Json::parse(shipped_hardware_fields_json());
  const Json record = readable(Json::parse(one.row.record), description, kind_of(one.kind));
  if (std::ranges::find(list, record) != list.end()) return;
  list.push_back(record);
  add_coefficients(document, database, scope_of(one.kind), one.row.id);
  if (one.kind == HardwareKind::Accelerator) return;
  for (const Json& id : record.at("accelerator_ids")) {
    const auto row = database.find(HardwareKind::Accelerator, id.get<std::string>());
    if (row && row->origin == Origin::User)
      add_record(document, database, {HardwareKind::Accelerator, *row});
  }
}

std::string text_of(const Json& document) { return document.dump(2) + "\n"; }

// Whether a record of the user names `id`.
bool refers_to(const Json& record, const std::string& id) {
  for (const char* key : {"like", "default_system"})
    if (record.contains(key) && record[key] == id) return true;
  const auto ids = record.find("accelerator_ids");
  return ids != record.end() && std::ranges::find(*ids, Json(id)) != ids->end();
}

void require_unused(const Database& database, const Found& one) {
  for (const HardwareKind kind : kKinds) {
    for (const HardwareRow& row : database.list(kind)) {
      if (row.origin == Origin::User && row.id != one.row.id &&
          refers_to(Json::parse(row.record), one.row.id))
        throw Error(one.row.id + ": " + row.id + " refers to it; remove that first");
    }
  }
}

}  // namespace

std::string hardware_document(const Database& database, const std::vector<std::string>& names) {
  Json document = Json::object();
  for (const HardwareKind kind : kKinds) document[list_of(kind)] = Json::array();
  document["coefficients"] = Json::array();
  for (const std::string& name : names) add_record(document, database, found(database, name));
  return text_of(document);
}

std::string coefficients_document(const Database& database, const std::string& scope,
                                  const std::string& id) {
  Json document{{"coefficients", Json::array()}};
  add_coefficients(document, database, scope, id);
  return text_of(document);
}

void remove_hardware(Database& database, const std::string& name) {
  const Found one = found(database, name);
  if (one.row.origin != Origin::User)
    throw Error(one.row.id +
                ": ships with llmsim; what hardware add or calibrate stored can be "
                "removed");
  require_unused(database, one);
  database.in_transaction([&] { database.forget_hardware(one.kind, one.row.id); });
}

}  // namespace llmsim::hwdb
