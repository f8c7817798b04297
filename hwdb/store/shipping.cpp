#include "hwdb/store/shipping.h"

#include <array>

#include <nlohmann/json.hpp>

#include "hwdb/store/page_checksum.h"
#include "hwdb/store/shipped_facts.h"
#include "hwdb/text/json_reader.h"
#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;
using sqlite::Connection;
using sqlite::Statement;

constexpr const char* kTables = R"sql(
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE accelerators(
  id TEXT NOT NULL, origin TEXT NOT NULL CHECK(origin IN ('shipped', 'user')), name TEXT NOT NULL, vendor TEXT, architecture TEXT,
  memory_bytes REAL, memory_bytes_per_s REAL, peak_bf16_flops REAL,
  evidence TEXT NOT NULL, source TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY(id, origin));
CREATE TABLE systems(
  id TEXT NOT NULL, origin TEXT NOT NULL CHECK(origin IN ('shipped', 'user')), name TEXT NOT NULL, accelerator TEXT,
  devices_per_node INTEGER, node_bytes_per_s REAL,
  evidence TEXT NOT NULL, source TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY(id, origin));
CREATE TABLE aliases(
  kind TEXT NOT NULL CHECK(kind IN ('accelerator', 'system')), alias TEXT NOT NULL, id TEXT NOT NULL, origin TEXT NOT NULL,
  PRIMARY KEY(kind, alias, origin)) WITHOUT ROWID;
CREATE TABLE networks(
  name TEXT NOT NULL, origin TEXT NOT NULL, port_bytes_per_s REAL, latency_s REAL,
  evidence TEXT NOT NULL, source TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY(name, origin)) WITHOUT ROWID;
CREATE TABLE measurements(
  id INTEGER PRIMARY KEY, subject TEXT NOT NULL, accelerator TEXT NOT NULL, origin TEXT NOT NULL,
  evidence TEXT NOT NULL, source TEXT NOT NULL, record TEXT NOT NULL);
CREATE INDEX measurements_by_subject ON measurements(subject, accelerator);
CREATE TABLE curves(
  measurement INTEGER PRIMARY KEY REFERENCES measurements(id), columns TEXT NOT NULL, points TEXT NOT NULL);
CREATE TABLE coefficients(
  scope TEXT NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL, origin TEXT NOT NULL, value REAL NOT NULL, standard_error REAL,
  evidence TEXT NOT NULL, source TEXT NOT NULL, fitted_from TEXT NOT NULL, PRIMARY KEY(scope, id, key, origin)) WITHOUT ROWID;
CREATE VIEW links AS
  SELECT id AS accelerator, origin, json_extract(record, '$.scale_up.kind') AS link,
         json_extract(record, '$.fabric.kind') AS fabric, json_extract(record, '$.fabric.devices') AS devices,
         json_extract(record, '$.scale_up.total_bytes_per_s_per_direction') AS device_bytes_per_s,
         json_extract(record, '$.fabric.pair_bytes_per_s') AS pair_bytes_per_s,
         json_extract(record, '$.pcie.theoretical_bytes_per_s_per_direction') AS host_bytes_per_s, source
  FROM accelerators;
)sql";

// What brings a file of one schema to the next, in order: migrations[k] that of schema k + 1.  Only
// what users have put there needs it; shipped rows are replaced.
constexpr std::array<const char*, kSchemaVersion - 1> kMigrations{// Names that coefficients had.
                                                                  R"sql(
UPDATE coefficients SET scope = 'framework' WHERE scope = 'stack';
UPDATE coefficients SET key = replace(replace(replace(key,
  'narrow_product', 'low_precision_gemm'), 'narrow', 'low_precision'), 'sharing.products', 'sharing.gemms');
)sql",
                                                                  R"sql(
UPDATE coefficients SET key = replace(replace(replace(key,
  'sharing.streaming', 'sharing.memory_bound'), 'streaming.', 'memory_bound.'), 'kept.', 'saved.');
)sql",
                                                                  // Pages with checksums.
                                                                  ""};

std::optional<double> injection_column(const json& system) {
  const auto inter = system.find("inter");
  if (inter == system.end() || !inter->is_object()) return std::nullopt;
  return number(*inter, "node_injection_bytes_per_s_per_direction");
}

void insert_aliases(const Connection& connection, std::string_view kind, const json& record,
                    Origin origin) {
  const auto aliases = record.find("aliases");
  if (aliases == record.end()) return;
  Statement insert(connection,
                   "INSERT OR REPLACE INTO aliases(kind, alias, id, origin) VALUES(?, ?, ?, ?)");
  for (const json& alias : *aliases) {
    insert.bind(kind)
        .bind(folded(alias.get<std::string>()))
        .bind(text(record, "id"))
        .bind(name_of(origin))
        .run();
  }
}

void insert_network(const Connection& connection, const json& record) {
  std::optional<double> port = number(record, "port_bits_per_s");
  if (port) *port /= 8.0;
  Statement(connection, "INSERT INTO networks VALUES(?, 'shipped', ?, ?, 'data_sheet', ?, ?)")
      .bind(text(record, "name"))
      .bind(port)
      .bind(number(record, "latency_s"))
      .bind(source_of(record))
      .bind(record.dump())
      .run();
}

Coefficient coefficient_from(const json& record) {
  Coefficient coefficient;
  coefficient.scope = record.at("scope").get<std::string>();
  coefficient.id = record.at("id").get<std::string>();
  coefficient.key = record.at("key").get<std::string>();
  coefficient.value = record.at("value").get<double>();
  coefficient.standard_error = number(record, "standard_error");
  coefficient.evidence = evidence_named(record.at("evidence").get<std::string>()).value();
  coefficient.source = record.at("source").get<std::string>();
  coefficient.fitted_from = text(record, "fitted_from");
  coefficient.origin = Origin::Shipped;
  return coefficient;
}

// The points of a curve move from the record to their own columns.
Measurement measurement_from(const std::string& subject, json record) {
  Measurement measurement;
  measurement.subject = subject;
  measurement.accelerator = text(record, "accelerator");
  if (measurement.accelerator.empty()) measurement.accelerator = text(record, "system");
  measurement.source = source_of(record);
  measurement.origin = Origin::Shipped;
  for (const auto& [columns, rows] :
       {std::pair("columns", "rows"), std::pair("curve_columns", "curve")}) {
    if (!record.contains(columns) || !record.contains(rows)) continue;
    measurement.columns = record[columns].dump();
    measurement.points = record[rows].dump();
    record.erase(columns);
    record.erase(rows);
  }
  measurement.record = record.dump();
  return measurement;
}

// A list of records, an object that is one record, or an object of named records (the collective
// models).
void insert_measurements(const Connection& connection, const std::string& subject,
                         const json& value) {
  if (value.is_array()) {
    for (const json& record : value)
      insert_measurement(connection, measurement_from(subject, record));
  } else if (value.contains("source")) {
    insert_measurement(connection, measurement_from(subject, value));
  } else {
    for (const auto& [name, records] : value.items())
      insert_measurements(connection, subject + "." + name, records);
  }
}

void insert_facts(const Connection& connection, const std::string& key, const json& value) {
  if (key == "accelerators" || key == "systems") {
    const HardwareKind kind = key == "systems" ? HardwareKind::System : HardwareKind::Accelerator;
    for (const json& record : value) insert_hardware(connection, kind, record, Origin::Shipped);
  } else if (key == "networks") {
    for (const json& record : value) insert_network(connection, record);
  } else if (key == "coefficients") {
    for (const json& record : value) insert_coefficient(connection, coefficient_from(record));
  } else if (key == "schema_version" || key == "compiled" || key == "conventions") {
    Statement(connection, "INSERT OR REPLACE INTO meta VALUES(?, ?)")
        .bind("facts_" + key)
        .bind(value.is_string() ? value.get<std::string>() : value.dump())
        .run();
  } else {
    insert_measurements(connection, key, value);
  }
}

void delete_shipped(const Connection& connection) {
  connection.execute(
      "DELETE FROM curves WHERE measurement IN (SELECT id FROM measurements WHERE origin = "
      "'shipped')");
  for (const char* table :
       {"accelerators", "systems", "aliases", "networks", "measurements", "coefficients"}) {
    connection.execute(std::string("DELETE FROM ") + table + " WHERE origin = 'shipped'");
  }
}

std::string meta(const Connection& connection, std::string_view key) {
  Statement query(connection, "SELECT value FROM meta WHERE key = ?");
  query.bind(key);
  return query.step() ? query.text(0) : std::string();
}

std::string shipped_date() {
  for (const ShippedText& facts : shipped_facts()) {
    if (facts.name == "about") return json::parse(facts.text).at("compiled").get<std::string>();
  }
  return "";
}

std::int64_t schema_of(const Connection& connection) {
  Statement version(connection, "PRAGMA user_version");
  version.step();
  return version.integer(0);
}

// The tables of this program's schema, from none or from those of an older one.
void migrate(const Connection& connection) {
  const std::int64_t schema = schema_of(connection);
  if (schema == 0) connection.execute(kTables);
  for (std::size_t from = static_cast<std::size_t>(schema); from > 0 && from < kSchemaVersion;
       ++from)
    connection.execute(kMigrations[from - 1]);
  connection.execute("PRAGMA application_id = " + std::to_string(kApplicationId));
  connection.execute("PRAGMA user_version = " + std::to_string(kSchemaVersion));
}

}  // namespace

void insert_hardware(const Connection& connection, HardwareKind kind, const json& record,
                     Origin origin) {
  const std::string evidence = origin == Origin::User ? "given" : "data_sheet";
  const std::string id = text(record, "id");
  if (kind == HardwareKind::Accelerator) {
    Statement(connection,
              "INSERT OR REPLACE INTO accelerators VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(id)
        .bind(name_of(origin))
        .bind(text(record, "name"))
        .bind(text(record, "vendor"))
        .bind(text(record, "architecture"))
        .bind(number(record, "hbm_bytes"))
        .bind(number(record, "hbm_bytes_per_s"))
        .bind(number(record, "peak_bf16_flops"))
        .bind(evidence)
        .bind(source_of(record))
        .bind(record.dump())
        .run();
    insert_aliases(connection, "accelerator", record, origin);
  } else {
    Statement(connection, "INSERT OR REPLACE INTO systems VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(id)
        .bind(name_of(origin))
        .bind(text(record, "name"))
        .bind(record.at("accelerator_ids").at(0).get<std::string>())
        .bind(number(record, "accelerators_per_node"))
        .bind(injection_column(record))
        .bind(evidence)
        .bind(source_of(record))
        .bind(record.dump())
        .run();
    insert_aliases(connection, "system", record, origin);
  }
}

void insert_coefficient(const Connection& connection, const Coefficient& coefficient) {
  Statement(connection,
            "INSERT OR REPLACE INTO coefficients(scope, id, key, origin, value, standard_error, "
            "evidence, source, "
            "fitted_from) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(coefficient.scope)
      .bind(coefficient.id)
      .bind(coefficient.key)
      .bind(name_of(coefficient.origin))
      .bind(coefficient.value)
      .bind(coefficient.standard_error)
      .bind(name_of(coefficient.evidence))
      .bind(coefficient.source)
      .bind(coefficient.fitted_from)
      .run();
}

void insert_measurement(const Connection& connection, const Measurement& measurement) {
  Statement(connection,
            "INSERT INTO measurements(subject, accelerator, origin, evidence, source, record) "
            "VALUES(?, ?, ?, ?, ?, ?)")
      .bind(measurement.subject)
      .bind(measurement.accelerator)
      .bind(name_of(measurement.origin))
      .bind(name_of(measurement.evidence))
      .bind(measurement.source)
      .bind(measurement.record)
      .run();
  if (measurement.columns.empty()) return;
  Statement(connection, "INSERT INTO curves VALUES(last_insert_rowid(), ?, ?)")
      .bind(measurement.columns)
      .bind(measurement.points)
      .run();
}

void make_place_for_checksums(const Connection& connection) {
  const std::int64_t schema = schema_of(connection);
  if (schema > 0 && schema < kFirstCheckedSchema) connection.execute("VACUUM");
}

bool is_current(const Connection& connection) {
  if (schema_of(connection) != kSchemaVersion) return false;
  const std::string date = meta(connection, "facts_compiled");
  return meta(connection, "facts_hash") == shipped_facts_hash() || date > shipped_date();
}

void ship(const Connection& connection) {
  migrate(connection);
  delete_shipped(connection);
  for (const ShippedText& facts : shipped_facts()) {
    const json document = json::parse(facts.text);
    for (const auto& [key, value] : document.items()) insert_facts(connection, key, value);
  }
  Statement(connection, "INSERT OR REPLACE INTO meta VALUES('facts_hash', ?)")
      .bind(shipped_facts_hash())
      .run();
}

}  // namespace llmsim::hwdb
