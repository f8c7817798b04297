#include "hwdb/hardware/measured_rows.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "hwdb/hardware/hardware_record.h"

namespace llmsim::hwdb {
namespace {

using nlohmann::json;

void add(MeasuredRow& row, const std::string& name, const json& value) {
  if (value.is_boolean()) {
    row.set(name, value.get<bool>());
  } else if (value.is_number()) {
    row.set(name, value.get<double>());
  } else if (value.is_string()) {
    row.set(name, value.get<std::string>());
  }
}

MeasuredRow row_of(const json& object) {
  MeasuredRow row;
  for (const auto& [name, value] : object.items()) add(row, name, value);
  return row;
}

template <typename T, typename Values>
std::optional<T> value_in(const Values& values, std::string_view name) {
  const auto found = values.find(name);
  if (found == values.end() || !std::holds_alternative<T>(found->second)) return std::nullopt;
  return std::get<T>(found->second);
}

using nlohmann::json;

json accelerator_of(const sim::Device& device, const MeasuredFabric& fabric,
                    const std::string& source) {
  const auto peak = [&](sim::DType dtype) {
    return device.matrix_peak[static_cast<std::size_t>(dtype)].value();
  };
  json record{{"id", device.id},
              {"name", device.name},
              {"hbm_bytes", device.memory.value()},
              {"hbm_usable_bytes", device.usable_memory.value()},
              {"hbm_bytes_per_s", device.memory_bandwidth.value()},
              {"compute_units", device.compute_units},
              {"fabric", {{"kind", sim::name_of(fabric.kind)}}},
              {"source", source}};
  if (fabric.bandwidth.value() > 0.0)
    record["fabric"].update(
        {{"devices", fabric.devices}, {"device_bytes_per_s", fabric.bandwidth.value()}});
  record["devices_per_node"] = std::max(1, fabric.devices);
  if (device.vector_peak.value() > 0.0)
    record["peak_fp32_vector_flops"] = device.vector_peak.value();
  if (peak(sim::DType::Fp32) > 0.0) record["peak_fp32_matrix_flops"] = peak(sim::DType::Fp32);
  for (const sim::DType dtype :
       {sim::DType::Bf16, sim::DType::Fp16, sim::DType::Tf32, sim::DType::Fp8}) {
    if (peak(dtype) > 0.0) record[std::string("peak_") + name_of(dtype) + "_flops"] = peak(dtype);
  }
  if (device.cache.value() > 0.0) record["llc_bytes"] = device.cache.value();
  return record;
}

json row_of(const Coefficient& coefficient) {
  json row{{"scope", coefficient.scope},
           {"id", coefficient.id},
           {"key", coefficient.key},
           {"value", coefficient.value},
           {"evidence", name_of(coefficient.evidence)},
           {"source", coefficient.source}};
  if (coefficient.standard_error) row["standard_error"] = *coefficient.standard_error;
  return row;
}

}  // namespace

std::optional<double> MeasuredRow::number(std::string_view name) const {
  return value_in<double>(values_, name);
}
std::optional<std::string> MeasuredRow::text(std::string_view name) const {
  return value_in<std::string>(values_, name);
}
std::optional<bool> MeasuredRow::flag(std::string_view name) const {
  return value_in<bool>(values_, name);
}

MeasuredRow fields(const Measurement& measurement) {
  return row_of(json::parse(measurement.record));
}

std::vector<MeasuredRow> rows(const Measurement& measurement) {
  std::vector<MeasuredRow> result;
  if (measurement.columns.empty()) {
    const json record = json::parse(measurement.record);
    for (const json& object : record.value("rows", json::array())) {
      if (object.is_object()) result.push_back(row_of(object));
    }
    return result;
  }
  const json columns = json::parse(measurement.columns);
  for (const json& point : json::parse(measurement.points)) {
    MeasuredRow& row = result.emplace_back();
    for (std::size_t i = 0; i < columns.size() && i < point.size(); ++i)
      add(row, columns[i].get<std::string>(), point[i]);
  }
  return result;
}

std::string hardware_document(const sim::Device& device, const MeasuredFabric& fabric,
                              const std::vector<Coefficient>& coefficients,
                              const std::string& source) {
  json document{{"accelerators", json::array({accelerator_of(device, fabric, source)})},
                {"coefficients", json::array()}};
  for (const Coefficient& coefficient : coefficients)
    document["coefficients"].push_back(row_of(coefficient));
  return document.dump(1);
}

std::string hardware_document_like(const Database& database, const std::string& like,
                                   const std::string& id, std::optional<double> power_limit,
                                   const std::vector<Coefficient>& coefficients,
                                   const std::string& source) {
  HardwareRecord other = accelerator_record(database, like);
  json& record = other.fields;
  json sources{{"*", kAsLike + other.row.id}};
  if (power_limit) {
    record["tdp_watts"] = *power_limit;
    sources["tdp, power"] = source;
  }
  record["id"] = id;
  record["name"] = other.row.name + ", measured";
  record["like"] = other.row.id;
  record["source"] = sources;
  // Its own, what only records that ship may say, and what is inherited as it is.
  for (const char* key : {"aliases", "notes", "price_per_hour", "announced", "derived", "scale_up"})
    record.erase(key);
  json document{{"accelerators", json::array({record})}, {"coefficients", json::array()}};
  for (const Coefficient& coefficient : coefficients)
    document["coefficients"].push_back(row_of(coefficient));
  return document.dump(1);
}

}  // namespace llmsim::hwdb
