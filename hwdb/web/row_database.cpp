#include "hwdb/web/row_database.h"

#include <map>

#include <nlohmann/json.hpp>

#include "hwdb/text/spelling.h"
#include "sim/base/error.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

struct HardwareTable {
  std::vector<HardwareRow> rows;
  std::map<std::string, std::string, std::less<>> ids;  // by name
};

Origin origin_of(const json& word) { return word == "user" ? Origin::User : Origin::Shipped; }

sim::Evidence evidence_of(const json& word) {
  return evidence_named(word.get<std::string>()).value();
}

HardwareTable hardware_table(const json& table) {
  HardwareTable hardware;
  for (const json& row : table.at("rows"))
    hardware.rows.push_back({row.at(0), row.at(1), origin_of(row.at(2)), row.at(3)});
  for (const auto& [name, id] : table.at("ids").items()) hardware.ids[name] = id;
  return hardware;
}

Coefficient coefficient_of(const json& row) {
  return {
      .scope = row.at(0),
      .id = row.at(1),
      .key = row.at(2),
      .value = row.at(3),
      .standard_error = row.at(4).is_null() ? std::nullopt : std::optional(row.at(4).get<double>()),
      .evidence = evidence_of(row.at(5)),
      .source = row.at(6),
      .fitted_from = row.at(7),
      .origin = origin_of(row.at(8))};
}

Measurement measurement_of(const json& row) {
  return {.subject = row.at(0),
          .accelerator = row.at(1),
          .evidence = evidence_of(row.at(2)),
          .source = row.at(3),
          .origin = origin_of(row.at(4)),
          .record = row.at(5),
          .columns = {},
          .points = {}};
}

// The rows for which `wanted` holds.
template <class Row, class Wanted>
std::vector<Row> selected(const std::vector<Row>& rows, const Wanted& wanted) {
  std::vector<Row> found;
  for (const Row& row : rows) {
    if (wanted(row)) found.push_back(row);
  }
  return found;
}

}  // namespace

struct Database::Impl {
  std::string path, version;
  HardwareTable accelerators, systems;
  std::vector<Coefficient> coefficients;
  std::vector<Measurement> measurements;

  const HardwareTable& table(HardwareKind kind) const {
    return kind == HardwareKind::System ? systems : accelerators;
  }
};

// The name of a database that is no file is its content.
Database::Database(std::string rows, Access) : impl_(std::make_unique<Impl>()) {
  const json all = json::parse(rows);
  *impl_ = {.path = all.at("path"),
            .version = all.at("version"),
            .accelerators = hardware_table(all.at("accelerator")),
            .systems = hardware_table(all.at("system")),
            .coefficients = {},
            .measurements = {}};
  for (const json& row : all.at("coefficients")) impl_->coefficients.push_back(coefficient_of(row));
  for (const json& row : all.at("measurements")) impl_->measurements.push_back(measurement_of(row));
}

Database::~Database() = default;
Database::Database(Database&&) noexcept = default;
Database& Database::operator=(Database&&) noexcept = default;

const std::string& Database::path() const { return impl_->path; }
std::string Database::version() const { return impl_->version; }

std::optional<HardwareRow> Database::find(HardwareKind kind, std::string_view id_or_alias) const {
  const HardwareTable& table = impl_->table(kind);
  const auto id = table.ids.find(folded(id_or_alias));
  if (id == table.ids.end()) return std::nullopt;
  for (const HardwareRow& row : table.rows) {
    if (row.id == id->second) return row;
  }
  return std::nullopt;
}

HardwareRow Database::get(HardwareKind kind, std::string_view id_or_alias) const {
  if (std::optional<HardwareRow> row = find(kind, id_or_alias)) return *row;
  throw Error("unknown hardware '" + std::string(id_or_alias) + "'" +
              did_you_mean(folded(id_or_alias), names(kind)));
}

std::vector<std::string> Database::names(HardwareKind kind) const {
  std::vector<std::string> names;
  for (const auto& [name, id] : impl_->table(kind).ids) names.push_back(name);
  return names;
}

std::vector<Coefficient> Database::coefficients(std::string_view scope, std::string_view id) const {
  return selected(impl_->coefficients,
                  [&](const Coefficient& row) { return row.scope == scope && row.id == id; });
}

std::vector<std::string> Database::coefficient_ids(std::string_view scope) const {
  std::vector<std::string> ids;
  for (const Coefficient& row : impl_->coefficients) {
    if (row.scope == scope && (ids.empty() || ids.back() != row.id)) ids.push_back(row.id);
  }
  return ids;
}

std::vector<Measurement> Database::measurements(std::string_view subject,
                                                std::string_view accelerator) const {
  return selected(impl_->measurements, [&](const Measurement& row) {
    return row.subject == subject && row.accelerator == accelerator;
  });
}

std::vector<Measurement> Database::measurements(std::string_view subject) const {
  return selected(impl_->measurements,
                  [&](const Measurement& row) { return row.subject == subject; });
}

Database row_database(const std::string& rows) {
  try {
    return Database(rows, Access::Read);
  } catch (const json::exception& error) {
    throw Error(std::string("the rows of the database: ") + error.what());
  }
}

}  // namespace llmsim::hwdb
