#include "hwdb/store/database_rows.h"

#include <filesystem>

#include <nlohmann/json.hpp>

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

json hardware_rows(const Database& database, HardwareKind kind) {
  json rows = json::array(), ids = json::object();
  for (const HardwareRow& row : database.list(kind))
    rows.push_back({row.id, row.name, name_of(row.origin), row.record});
  for (const std::string& name : database.names(kind)) {
    if (const auto row = database.find(kind, name)) ids[name] = row->id;
  }
  return {{"rows", rows}, {"ids", ids}};
}

json coefficient_rows(const Database& database) {
  json rows = json::array();
  for (const char* scope : {"device", "system", "framework", "site", "layout"}) {
    for (const std::string& id : database.coefficient_ids(scope)) {
      for (const Coefficient& row : database.coefficients(scope, id)) {
        rows.push_back({row.scope, row.id, row.key, row.value,
                        row.standard_error ? json(*row.standard_error) : json(nullptr),
                        name_of(row.evidence), row.source, row.fitted_from, name_of(row.origin)});
      }
    }
  }
  return rows;
}

json measurement_rows(const Database& database) {
  json rows = json::array();
  for (const char* subject :
       {"host_link", "prices", "reliability", "checkpoint_storage", "power"}) {
    for (const Measurement& row : database.measurements(subject)) {
      rows.push_back({row.subject, row.accelerator, name_of(row.evidence), row.source,
                      name_of(row.origin), row.record});
    }
  }
  return rows;
}

}  // namespace

std::string rows_text(const Database& database) {
  return json{{"path", std::filesystem::path(database.path()).filename().string()},
              {"version", database.version()},
              {"accelerator", hardware_rows(database, HardwareKind::Accelerator)},
              {"system", hardware_rows(database, HardwareKind::System)},
              {"coefficients", coefficient_rows(database)},
              {"measurements", measurement_rows(database)}}
      .dump();
}

}  // namespace llmsim::hwdb
